CREATE OR REPLACE FUNCTION notify_timer() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF wakeful_setting('wakeful.hinted') IS NULL THEN
    PERFORM pg_notify('wakeful_timers', '');
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER wake_waiting_inputs ON agent_task_queue;
DROP FUNCTION wake_waiting_inputs();
DROP FUNCTION wakeful_freed();
DROP INDEX issue_wakeup_receipt_reserved_idx;
DROP INDEX issue_wakeup_receipt_processed_idx;
DROP TABLE sys_cron_executions;
DROP VIEW live_engine;
