-- Who calls, and where they stand in a workspace.

-- name: authenticate
-- Whose token has this hash, if it is good now (W-192): a run token ends with its run, and with
-- the claim that it was minted for. Roles are read with it and hold for this request (W-196).
-- Index: the unique ones on token_hash; primary key of the run.
SELECT t.kind, t.id AS token_id, t.user_id, u.instance_admin, t.workspace_id,
       NULL::uuid AS agent_id, NULL::uuid AS run_id,
       (SELECT coalesce(jsonb_object_agg(m.workspace_id, m.role), '{}')
          FROM member m WHERE t.kind = 'member' AND m.user_id = t.user_id) AS roles,
       (SELECT d.daemon_id FROM daemon d
         WHERE t.kind = 'daemon' AND d.workspace_id = t.workspace_id AND d.token_id = t.id
         ORDER BY d.created_at DESC, d.daemon_id LIMIT 1) AS daemon_id
  FROM access_token t
  JOIN app_user u ON u.id = t.user_id
 WHERE t.token_hash = $1 AND t.revoked_at IS NULL
   AND (t.expires_at IS NULL OR t.expires_at > wakeful_now())
UNION ALL
SELECT 'run', NULL, k.user_id, false, k.workspace_id, k.agent_id, k.task_id,
       (SELECT coalesce(jsonb_object_agg(m.workspace_id, m.role), '{}')
          FROM member m WHERE m.user_id = k.user_id AND m.workspace_id = k.workspace_id),
       NULL
  FROM task_token k
  JOIN agent_task_queue q ON q.id = k.task_id AND q.dispatched_at = k.dispatched_at
   AND q.status IN ('dispatched', 'waiting_local_directory', 'running')
 WHERE k.token_hash = $1 AND k.expires_at > wakeful_now();

-- name: person
-- A user by id.
SELECT u.id, u.email, u.name FROM app_user u WHERE u.id = $1;

-- name: acting
-- The run $1 of a caller, with its agent.
SELECT a.id AS agent_id, a.name, q.id, q.issue_id, q.status
  FROM agent_task_queue q JOIN agent a ON a.id = q.agent_id
 WHERE q.id = $1;

-- name: stand_person
-- The role of the member $2 in the workspace $1, now; no row for anybody else (W-196).
-- Locks: workspace and member KEY SHARE, so that neither is removed before the caller commits.
SELECT m.role
  FROM workspace w JOIN member m ON m.workspace_id = w.id AND m.user_id = $2
 WHERE w.id = $1
   FOR KEY SHARE OF w, m;

-- name: stand_run
-- The same for a run: its workspace exists; the person behind it ($2) may have left.
-- Locks: workspace KEY SHARE.
SELECT (SELECT m.role FROM member m WHERE m.workspace_id = w.id AND m.user_id = $2) AS role
  FROM workspace w
 WHERE w.id = $1
   FOR KEY SHARE OF w;

-- name: place_of_issue
-- Where an issue is; what is decided on it is locked afterwards, in lock order.
SELECT i.workspace_id FROM issue i WHERE i.id = $1;
