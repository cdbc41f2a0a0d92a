-- Purpose: what one dispatch reads, under its locks, in one statement (architecture 4).
-- Rollback refuses when: never, nothing is stored here.
--
-- Lock order: workspace, agent, runtime, member, issue (KEY SHARE) -> rule -> run (NO KEY UPDATE)
-- -> listening lock -> issue lock -> receipts. A dispatch takes no row lock after the issue lock.

-- Rules of these issues that have something to do, an input or a time that has come, in id order
-- (W-076), without the barred ones.
CREATE FUNCTION dispatch_candidates(issue_ids uuid[], barred uuid[], most integer) RETURNS uuid[]
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT coalesce(array_agg(c.id ORDER BY c.id), '{}')
    FROM (
      SELECT r.id
        FROM unnest(issue_ids) WITH ORDINALITY AS wanted (id, place)
        JOIN issue_wakeup r ON r.issue_id = wanted.id
       WHERE r.id <> ALL (barred)
         AND ((r.enabled AND r.next_fire_at <= (SELECT wakeful_now()))
              OR EXISTS (SELECT FROM issue_wakeup_receipt x
                          WHERE x.wakeup_id = r.id AND x.processed_at IS NULL
                            AND x.task_id IS NULL))
       ORDER BY wanted.place, r.id
       LIMIT most) c
$$;

-- One row a rule, read when every lock is held; `own_run` and `receipts` are JSON. A rule that
-- could not be held shows as `missed_issue_id` alone.
CREATE TYPE dispatch_row AS (
  missed_issue_id uuid,
  rule issue_wakeup,
  issue_exists boolean,
  issue_closed boolean,
  issue_priority text,
  agent_archived boolean,
  runtime_id uuid,
  may_invoke boolean,
  own_run jsonb,
  receipts jsonb,
  now timestamptz
);

CREATE FUNCTION dispatch_read(rule_ids uuid[]) RETURNS SETOF dispatch_row
LANGUAGE sql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT NULL::uuid, r, i.id IS NOT NULL,
         i.id IS NOT NULL AND status_is_closed(i.workspace_id, i.status),
         i.priority, a.id IS NULL OR a.archived_at IS NOT NULL, a.runtime_id,
         a.id IS NOT NULL AND may_invoke(r.created_by, a),
         (SELECT jsonb_build_object(
                   'id', q.id, 'status', q.status, 'handoff_note', q.handoff_note,
                   'context', q.context, 'dispatched_at', q.dispatched_at,
                   'lease_expires_at', l.expires_at)
            FROM agent_task_queue q LEFT JOIN run_lease l ON l.task_id = q.id
           WHERE q.wakeup_id = r.id AND q.status IN ('queued', 'dispatched')
           ORDER BY q.status, q.created_at LIMIT 1),
         (SELECT coalesce(jsonb_agg(x.receipt ORDER BY x.created_at, x.seq), '[]')
            FROM (
              SELECT y.created_at, y.seq, jsonb_build_object(
                       'seq', y.seq, 'id', y.id, 'revision', y.revision,
                       'event_key', y.event_key, 'event_type', y.event_type,
                       'payload', y.payload, 'created_at', y.created_at) AS receipt
                FROM issue_wakeup_receipt y
               WHERE y.wakeup_id = r.id AND y.processed_at IS NULL AND y.task_id IS NULL
               ORDER BY y.created_at, y.seq
               LIMIT 100) x),
         wakeful_now()
    FROM unnest(rule_ids) WITH ORDINALITY AS wanted (id, place)
    JOIN issue_wakeup r ON r.id = wanted.id
    LEFT JOIN issue i ON i.id = r.issue_id
    LEFT JOIN agent a ON a.id = r.agent_id
   ORDER BY wanted.place
$$;

-- A group of rules: takes what is free at once and waits for nothing. A rule that somebody else
-- holds in whatever part, or whose owners are not all there, is left out; the caller tries its
-- issue alone.
CREATE FUNCTION dispatch_load_group(issue_ids uuid[], barred uuid[], most integer)
RETURNS SETOF dispatch_row
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  wanted uuid[] := dispatch_candidates(issue_ids, barred, most);
  held uuid[] := wanted;
BEGIN
  held := ARRAY(
    SELECT r.id
      FROM issue_wakeup r
      JOIN workspace w ON w.id = r.workspace_id
      JOIN agent a ON a.id = r.agent_id
      JOIN agent_runtime t ON t.id = a.runtime_id
      JOIN member m ON m.workspace_id = r.workspace_id AND m.user_id = r.created_by
      JOIN issue i ON i.id = r.issue_id
     WHERE r.id = ANY (held)
       FOR KEY SHARE OF w, a, t, m, i SKIP LOCKED);
  held := ARRAY(
    SELECT r.id FROM issue_wakeup r WHERE r.id = ANY (held) FOR NO KEY UPDATE SKIP LOCKED);
  -- A rule stays only if each of its pending runs could be locked.
  held := ARRAY(
    SELECT h.id FROM unnest(held) AS h (id)
    EXCEPT
    SELECT q.wakeup_id FROM agent_task_queue q
     WHERE q.wakeup_id = ANY (held) AND q.status IN ('queued', 'dispatched')
       AND q.id NOT IN (
             SELECT free.id FROM agent_task_queue free
              WHERE free.wakeup_id = ANY (held) AND free.status IN ('queued', 'dispatched')
                FOR NO KEY UPDATE SKIP LOCKED));
  held := ARRAY(
    SELECT r.id FROM issue_wakeup r
     WHERE r.id = ANY (held)
       AND pg_try_advisory_xact_lock_shared(1, wakeful_listening_key(r.issue_id))
       AND pg_try_advisory_xact_lock(wakeful_issue_key(r.issue_id))
     ORDER BY r.id);
  RETURN QUERY SELECT * FROM dispatch_read(held);
  RETURN QUERY
  SELECT r.issue_id, NULL::issue_wakeup, NULL::boolean, NULL::boolean, NULL::text,
         NULL::boolean, NULL::uuid, NULL::boolean, NULL::jsonb, NULL::jsonb, NULL::timestamptz
    FROM issue_wakeup r WHERE r.id = ANY (wanted) AND r.id <> ALL (held);
END $$;

-- The rules of one issue, waiting in lock order under the transaction's lock_timeout. Owners that
-- are gone are no obstacle: what follows from it is decided later (W-080).
CREATE FUNCTION dispatch_load_alone(issue_id uuid, barred uuid[], most integer)
RETURNS SETOF dispatch_row
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  held uuid[] := dispatch_candidates(ARRAY[issue_id], barred, most);
BEGIN
  PERFORM FROM workspace w
    WHERE w.id IN (SELECT r.workspace_id FROM issue_wakeup r WHERE r.id = ANY (held))
    FOR KEY SHARE;
  PERFORM FROM agent a
    WHERE a.id IN (SELECT r.agent_id FROM issue_wakeup r WHERE r.id = ANY (held))
    ORDER BY a.id FOR KEY SHARE;
  PERFORM FROM agent_runtime t
    WHERE t.id IN (SELECT a.runtime_id FROM issue_wakeup r JOIN agent a ON a.id = r.agent_id
                    WHERE r.id = ANY (held))
    ORDER BY t.id FOR KEY SHARE;
  PERFORM FROM member m
    WHERE (m.workspace_id, m.user_id) IN (
            SELECT r.workspace_id, r.created_by FROM issue_wakeup r WHERE r.id = ANY (held))
    ORDER BY m.id FOR KEY SHARE;
  PERFORM FROM issue i WHERE i.id = dispatch_load_alone.issue_id FOR KEY SHARE;
  held := ARRAY(
    SELECT r.id FROM issue_wakeup r WHERE r.id = ANY (held) ORDER BY r.id FOR NO KEY UPDATE);
  PERFORM FROM agent_task_queue q
    WHERE q.wakeup_id = ANY (held) AND q.status IN ('queued', 'dispatched')
    ORDER BY q.id FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
  PERFORM pg_advisory_xact_lock(wakeful_issue_key(issue_id));
  RETURN QUERY SELECT * FROM dispatch_read(held);
END $$;
