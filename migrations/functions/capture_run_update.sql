CREATE OR REPLACE FUNCTION public.capture_run_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF wakeup_listens(NEW.issue_id, ARRAY[run_event_type(NEW.status)]) THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, recurs,
                                source_task_id, agent_id, details)
    SELECT i.workspace_id, i.id, run_event_type(NEW.status), run_event_key(NEW.id, NEW.status),
           NOT run_is_over(NEW.status), NEW.id, NEW.agent_id,
           jsonb_build_object(
             'task_id', NEW.id, 'status', NEW.status, 'previous_status', OLD.status,
             'retry_of_task_id', NEW.retry_of_task_id, 'rerun_of_task_id', NEW.rerun_of_task_id)
      FROM issue i WHERE i.id = NEW.issue_id;
  END IF;
  IF NEW.status = 'queued' AND NEW.runtime_id IS NOT NULL THEN
    PERFORM pg_notify('wakeful_runs', NEW.runtime_id::text);  -- the server tells equal ones once
  END IF;
  RETURN NULL;
END $function$
;
