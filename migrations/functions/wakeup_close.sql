CREATE OR REPLACE FUNCTION public.wakeup_close(workspace_id uuid, issue_id uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  rules uuid[] := ARRAY(
    SELECT r.id FROM issue_wakeup r
     WHERE r.issue_id = wakeup_close.issue_id ORDER BY r.id FOR NO KEY UPDATE);
  runs uuid[];
BEGIN
  IF rules <> '{}' THEN
    UPDATE issue_wakeup r
       SET enabled = false, disabled_at = wakeful_now(), updated_at = wakeful_now(),
           last_error = 'Switched off: the issue is closed.'
     WHERE r.id = ANY (rules) AND r.disabled_at IS NULL;
    runs := ARRAY(
      SELECT q.id FROM agent_task_queue q
       WHERE q.wakeup_id = ANY (rules) AND q.status IN ('queued', 'deferred')
         AND q.started_at IS NULL
       ORDER BY q.id FOR NO KEY UPDATE);
    IF runs <> '{}' THEN
      UPDATE agent_task_queue q
         SET status = 'cancelled', completed_at = wakeful_now(),
             error = 'Cancelled before it started: the issue was closed.'
       WHERE q.id = ANY (runs);
    END IF;
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, details)
    VALUES (wakeup_close.workspace_id, wakeup_close.issue_id, 'issue.closed', '{}');
    PERFORM set_config('wakeful.buffered', 'on', true);
  END IF;
  PERFORM wakeup_listens(issue_id, '{}');  -- fails where the rules are younger than the snapshot
END $function$
;
