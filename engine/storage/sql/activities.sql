-- The timeline of an issue.

-- name: insert
-- Written in the transaction of what it tells (W-233). No locks.
INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: list
-- Newest first. Index: activity_log_issue_idx.
SELECT count(*) OVER () AS total, l.id, l.action, l.actor_type, l.actor_id, l.details,
       l.created_at
  FROM activity_log l
 WHERE l.issue_id = $1
 ORDER BY l.created_at DESC, l.id DESC
 LIMIT $2 OFFSET $3;

-- name: agents_of_runs
-- Whose runs these are, to tell who may see them.
SELECT q.id, q.agent_id FROM agent_task_queue q WHERE q.id = ANY ($1);
