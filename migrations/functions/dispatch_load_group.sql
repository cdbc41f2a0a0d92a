CREATE OR REPLACE FUNCTION public.dispatch_load_group(issue_ids uuid[], barred uuid[], most integer)
 RETURNS SETOF dispatch_row
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
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
END $function$
;
