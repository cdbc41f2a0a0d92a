CREATE OR REPLACE FUNCTION public.wake_waiting_inputs()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
BEGIN
  IF NOT EXISTS (
       SELECT FROM issue_wakeup_receipt x WHERE x.task_id = NEW.id AND x.processed_at IS NULL)
     AND NOT EXISTS (
       SELECT FROM issue_wakeup r
        WHERE r.issue_id = NEW.issue_id AND r.disabled_at IS NULL
          AND EXISTS (SELECT FROM issue_wakeup_receipt x
                       WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL))
  THEN
    RETURN NULL;
  END IF;
  IF wakeful_setting('wakeful.hinted') IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify('wakeful_wakeups', NEW.issue_id::text);
  ELSIF NEW.issue_id <> ALL (wakeful_freed()) THEN
    PERFORM set_config('wakeful.freed', (wakeful_freed() || NEW.issue_id)::text, true);
  END IF;
  RETURN NULL;
END $function$
;
