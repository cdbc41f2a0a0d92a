-- Purpose: runs that wait are found by their agent, which knows the runtime that it has now (W-101).
-- Rollback refuses when: never.

DROP INDEX agent_task_claim_idx;
CREATE INDEX agent_task_claim_idx ON agent_task_queue (agent_id, priority DESC, created_at, id)
  WHERE status = 'queued';
DROP INDEX agent_task_deferred_idx;
CREATE INDEX agent_task_deferred_idx ON agent_task_queue (agent_id, fire_at)
  WHERE status = 'deferred';
