CREATE OR REPLACE FUNCTION public.capture_run_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, recurs,
                              source_task_id, agent_id, details)
  SELECT i.workspace_id, n.issue_id, run_event_type(n.status), run_event_key(n.id, n.status),
         NOT run_is_over(n.status), n.id, n.agent_id,
         jsonb_build_object(
           'task_id', n.id, 'status', n.status, 'previous_status', o.status,
           'retry_of_task_id', n.retry_of_task_id, 'rerun_of_task_id', n.rerun_of_task_id)
    FROM before o JOIN after n USING (id) JOIN issue i ON i.id = n.issue_id
   WHERE n.status IS DISTINCT FROM o.status
     AND wakeup_listens(n.issue_id, ARRAY[run_event_type(n.status)]);
  PERFORM pg_notify('wakeful_runs', r.runtime_id::text)
     FROM (SELECT DISTINCT n.runtime_id FROM before o JOIN after n USING (id)
            WHERE n.status = 'queued' AND o.status <> 'queued' AND n.runtime_id IS NOT NULL) r;
  RETURN NULL;
END $function$
;
