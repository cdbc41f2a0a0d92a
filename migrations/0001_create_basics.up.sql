-- Purpose: clock, ids and transaction-local identity; everything below builds on them.
-- Rollback refuses when: never, it is the first step.

-- W-084: the one clock. In a simulation database this function is replaced to read a row.
CREATE FUNCTION wakeful_now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$ SELECT clock_timestamp() $$;

-- An instant as it stands in facts: RFC 3339, UTC, microseconds (api.md, Conventions).
CREATE FUNCTION wakeful_time(at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- RFC 9562 version 7, for servers before 18, which have no uuidv7(): 48 bits of milliseconds,
-- then random bits.
CREATE FUNCTION wakeful_uuid7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          PLACING substring(
            int8send(floor(extract(epoch FROM wakeful_now()) * 1000)::bigint) FROM 3)
          FROM 1 FOR 6),
        52, 1),
      53, 1),
    'hex')::uuid
$$;

-- A custom setting that was local to an earlier transaction reads as '', not as NULL.
CREATE FUNCTION wakeful_setting(name text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT nullif(current_setting(name, true), '') $$;

-- The same as a uuid; what is no uuid counts as not set, so that it cannot fail a change.
CREATE FUNCTION wakeful_setting_uuid(name text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN current_setting(name, true) ~
         '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
    THEN current_setting(name, true)::uuid
  END
$$;

-- W-049: who changes rows in this transaction. Only an engine calls it; `hinted` tells the
-- triggers that the engine wakes its own actors after COMMIT, so that no NOTIFY is needed.
CREATE FUNCTION wakeful_begin(actor_type text, actor_id uuid, source_task_id uuid) RETURNS void
LANGUAGE sql VOLATILE AS $$
  SELECT set_config('wakeful.actor_type', coalesce(actor_type, ''), true),
         set_config('wakeful.actor_id', coalesce(actor_id::text, ''), true),
         set_config('wakeful.source_task_id', coalesce(source_task_id::text, ''), true),
         set_config('wakeful.hinted', 'on', true);
$$;

-- The key of an issue's advisory lock. Locks are taken in the order of this key.
CREATE FUNCTION wakeful_issue_key(issue_id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT uuid_hash_extended(issue_id, 8765) $$;

-- The keys of the locks that order listening rules and the writers of an issue (wakeup_listens).
-- A thousand of them serve all issues, so that a bulk writer never exhausts the lock table; they
-- live in the two-number space, apart from the issues' locks.
CREATE FUNCTION wakeful_listening_key(issue_id uuid) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (uuid_hash_extended(issue_id, 4321) & 1023)::integer
$$;
