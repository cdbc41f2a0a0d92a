DO $$
BEGIN
  IF EXISTS (SELECT FROM agent_task_queue) THEN
    RAISE EXCEPTION '% runs exist: undoing this step would delete them',
      (SELECT count(*) FROM agent_task_queue);
  END IF;
END $$;
DROP TABLE task_token, run_message, run_progress, run_lease, agent_task_queue;
DROP FUNCTION run_scope();
