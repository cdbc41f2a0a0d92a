-- Purpose: a dispatch holds every unfinished run of its rules, so that it never waits for the retry
-- of one while it has the issue's lock (W-078, W-081).
-- Rollback refuses when: never, nothing is stored here.

-- A run that fails is tried again by an insert into the slot of its rule (agent_task_pending_idx), and a
-- deferred one takes that slot when it is promoted. A dispatch that inserts at the same time waits
-- for them, and they wait at their commit for the issue's lock, which the dispatch has. Whoever makes
-- a run of a rule therefore holds the rule, or an unfinished run of it; a dispatch holds both, before
-- the issue's lock. Index: agent_task_wakeup_active_idx.

-- A group of rules: takes what is free at once and waits for nothing. A rule that somebody else
-- holds in whatever part, or whose owners are not all there, is left out; the caller tries its
-- issue alone.
CREATE OR REPLACE FUNCTION dispatch_load_group(issue_ids uuid[], barred uuid[], most integer)
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
  -- A rule stays only if each of its unfinished runs could be locked.
  held := ARRAY(
    SELECT h.id FROM unnest(held) AS h (id)
    EXCEPT
    SELECT q.wakeup_id FROM agent_task_queue q
     WHERE q.wakeup_id = ANY (held)
       AND q.status IN (
             'queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
       AND q.id NOT IN (
             SELECT free.id FROM agent_task_queue free
              WHERE free.wakeup_id = ANY (held)
                AND free.status IN (
                      'queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
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
CREATE OR REPLACE FUNCTION dispatch_load_alone(issue_id uuid, barred uuid[], most integer)
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
    WHERE q.wakeup_id = ANY (held)
      AND q.status IN ('queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
    ORDER BY q.id FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
  PERFORM pg_advisory_xact_lock(wakeful_issue_key(issue_id));
  RETURN QUERY SELECT * FROM dispatch_read(held);
END $$;
