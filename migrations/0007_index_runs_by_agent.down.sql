DROP INDEX agent_task_claim_idx;
CREATE INDEX agent_task_claim_idx ON agent_task_queue (runtime_id, priority DESC, created_at, id)
  WHERE status = 'queued';
DROP INDEX agent_task_deferred_idx;
CREATE INDEX agent_task_deferred_idx ON agent_task_queue (runtime_id, fire_at)
  WHERE status = 'deferred';
