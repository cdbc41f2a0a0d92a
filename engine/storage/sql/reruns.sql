-- A run once more, because somebody asks for it (W-111). Lock order: owners, rule, runs.

-- name: original
-- The run to repeat: the named one ($2) of the issue ($1), else the latest that has ended.
-- Index: agent_task_issue_idx.
SELECT q.* FROM agent_task_queue q
 WHERE q.issue_id = $1
   AND (q.id = $2 OR ($2::uuid IS NULL AND q.status IN ('completed', 'failed', 'cancelled')))
 ORDER BY q.created_at DESC, q.id DESC
 LIMIT 1;

-- name: lock_rule
-- Locks: the rule; no dispatch makes or changes a run of it meanwhile.
SELECT r.* FROM issue_wakeup r WHERE r.id = $1 FOR NO KEY UPDATE;

-- name: lock_pending
-- What waits in the scope of the original ($1), oldest first. Locks: these runs, in id order.
-- Index: agent_task_issue_idx.
SELECT q.*
  FROM agent_task_queue o
  JOIN agent_task_queue q ON q.issue_id = o.issue_id AND q.agent_id = o.agent_id
   AND q.comment_thread_id IS NOT DISTINCT FROM o.comment_thread_id
 WHERE o.id = $1 AND q.status IN ('queued', 'dispatched', 'deferred')
 ORDER BY q.id
   FOR NO KEY UPDATE OF q;

-- name: insert
-- The run of $1 once more, with the authority of the caller, this note ($2) and context ($3), where
-- the agent runs now. No row: somebody took the slot at this moment. The trigger derives the scope.
INSERT INTO agent_task_queue (
  agent_id, issue_id, runtime_id, priority, context, handoff_note, trigger_summary,
  trigger_comment_id, originator_user_id, accountable_user_id, originator_source,
  trigger_evidence_kind, trigger_evidence_ref_id, delegated_from_task_id, rerun_of_task_id)
SELECT q.agent_id, q.issue_id, a.runtime_id, priority_rank(i.priority), $3, $2, q.trigger_summary,
       q.trigger_comment_id, $4, $4, $5, q.trigger_evidence_kind, q.trigger_evidence_ref_id, $6, q.id
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id
  JOIN issue i ON i.id = q.issue_id
 WHERE q.id = $1
ON CONFLICT DO NOTHING
RETURNING *;
