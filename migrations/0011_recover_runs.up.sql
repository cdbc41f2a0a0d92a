-- Purpose: what time does to runs is found by index, and waiting is counted from the last queueing.
-- Rollback refuses when: never; waiting is then counted from the run's creation again.

-- When the run came into the queue, if that was later than its creation: a deferred run that was
-- promoted, a claim that was given back, a queued run that took a further request.
ALTER TABLE agent_task_queue ADD COLUMN queued_at timestamptz;

-- W-109: ordinary runs that have waited too long; wakeup runs wait for ever.
CREATE INDEX agent_task_expiry_idx ON agent_task_queue ((coalesce(queued_at, created_at)))
  WHERE status = 'queued' AND wakeup_id IS NULL;
-- W-097, W-100: claims that were never started, and work whose daemon is silent.
CREATE INDEX agent_task_claimed_idx ON agent_task_queue (dispatched_at)
  WHERE status IN ('dispatched', 'waiting_local_directory');
CREATE INDEX agent_task_running_idx ON agent_task_queue (started_at) WHERE status = 'running';
CREATE INDEX agent_task_due_idx ON agent_task_queue (fire_at) WHERE status = 'deferred';
-- W-100: the few rules that say why they do not go on, so that a text that is out of date is found.
CREATE INDEX issue_wakeup_error_idx ON issue_wakeup (id)
  WHERE last_error IS NOT NULL AND disabled_at IS NULL;
