CREATE OR REPLACE FUNCTION public.capture_run_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, recurs,
                              source_task_id, agent_id, details)
  SELECT i.workspace_id, q.issue_id, run_event_type(q.status), run_event_key(q.id, q.status),
         NOT run_is_over(q.status), q.id, q.agent_id,
         jsonb_build_object(
           'task_id', q.id, 'status', q.status, 'previous_status', NULL,
           'retry_of_task_id', q.retry_of_task_id, 'rerun_of_task_id', q.rerun_of_task_id)
    FROM added q JOIN issue i ON i.id = q.issue_id
   WHERE wakeup_listens(q.issue_id, ARRAY[run_event_type(q.status)]);
  PERFORM pg_notify('wakeful_runs', r.runtime_id::text)
     FROM (SELECT DISTINCT q.runtime_id FROM added q
            WHERE q.status = 'queued' AND q.runtime_id IS NOT NULL) r;
  RETURN NULL;
END $function$
;
