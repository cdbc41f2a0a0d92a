-- Answers to requests with an Idempotency-Key (W-033).

-- name: take
-- Takes a key ($1 to $3) for this transaction, also an outlived one; no row if its change is there
-- already. A twin waits here until this transaction has ended. Locks: the key, before anything else.
INSERT INTO idempotency_key AS k (caller, route, key, workspace_id, digest)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (caller, route, key)
DO UPDATE SET digest = EXCLUDED.digest, workspace_id = EXCLUDED.workspace_id,
              status = NULL, body = NULL, created_at = wakeful_now()
 WHERE k.created_at < wakeful_now() - make_interval(secs => $6)
RETURNING true;

-- name: get
SELECT k.digest, k.status, k.body FROM idempotency_key k
 WHERE k.caller = $1 AND k.route = $2 AND k.key = $3;

-- name: keep
UPDATE idempotency_key k SET status = $4, body = $5
 WHERE k.caller = $1 AND k.route = $2 AND k.key = $3;

-- name: forget
-- At most $2 keys that have outlived their time ($1, seconds). Skips what somebody is using.
-- Index: idempotency_key_created_idx.
DELETE FROM idempotency_key k
 USING (SELECT o.caller, o.route, o.key FROM idempotency_key o
         WHERE o.created_at < wakeful_now() - make_interval(secs => $1)
         ORDER BY o.created_at
         LIMIT $2
           FOR UPDATE SKIP LOCKED) old
 WHERE (k.caller, k.route, k.key) = (old.caller, old.route, old.key);
