-- Rollback refuses when: never; waiting is then counted from the run's creation again.

DROP INDEX issue_wakeup_error_idx;
DROP INDEX agent_task_due_idx;
DROP INDEX agent_task_running_idx;
DROP INDEX agent_task_claimed_idx;
DROP INDEX agent_task_expiry_idx;
ALTER TABLE agent_task_queue DROP COLUMN queued_at;
