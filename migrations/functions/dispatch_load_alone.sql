CREATE OR REPLACE FUNCTION public.dispatch_load_alone(issue_id uuid, barred uuid[], most integer)
 RETURNS SETOF dispatch_row
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
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
END $function$
;
