-- Purpose: what was answered to a request with an Idempotency-Key, for a day (W-033).
-- Rollback refuses when: never; a key that is sent again is then as good as new.

-- Written in the transaction of the change itself: a key is taken if and only if the change is there.
CREATE TABLE idempotency_key (
  caller text NOT NULL,
  route text NOT NULL,
  key text NOT NULL,
  workspace_id uuid,
  digest bytea NOT NULL,
  status integer,
  body text,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  PRIMARY KEY (caller, route, key)
);
CREATE INDEX idempotency_key_created_idx ON idempotency_key (created_at);
