-- Workspaces, and the graph that goes with one.

-- name: open
-- Workspaces by id, by name. Index: primary key.
SELECT w.id, w.name, w.slug, w.issue_prefix FROM workspace w
 WHERE w.id = ANY ($1)
 ORDER BY lower(w.name), w.id;

-- name: list
-- The same as a page of whole rows.
SELECT count(*) OVER () AS total, w.id, w.name, w.slug, w.issue_prefix, w.settings, w.created_at,
       w.updated_at
  FROM workspace w
 WHERE w.id = ANY ($1)
 ORDER BY lower(w.name), w.id
 LIMIT $2 OFFSET $3;

-- name: get
SELECT w.id, w.name, w.slug, w.issue_prefix, w.settings, w.created_at, w.updated_at
  FROM workspace w WHERE w.id = $1;

-- name: by_slug
SELECT w.id FROM workspace w WHERE w.slug = $1;

-- name: any
-- Whether there is a workspace at all.
SELECT EXISTS (SELECT FROM workspace);

-- name: lock_first_start
-- One first start at a time: two engines may open an empty database together.
SELECT pg_advisory_xact_lock(hashtextextended('wakeful.first_start', 8765));

-- name: insert
INSERT INTO workspace (name, slug, issue_prefix) VALUES ($1, $2, $3) RETURNING id;

-- name: lock
-- Locks: workspace NO KEY UPDATE, first in lock order: its row changes, its members may read on.
SELECT w.name, w.settings FROM workspace w WHERE w.id = $1 FOR NO KEY UPDATE;

-- name: update
UPDATE workspace SET name = $2, settings = $3, updated_at = wakeful_now() WHERE id = $1;

-- name: lock_for_delete
-- W-189, W-190: from here on nobody else gets in: every writer holds its workspace KEY SHARE.
-- Locks: workspace FOR UPDATE, first in lock order.
SELECT w.id FROM workspace w WHERE w.id = $1 FOR UPDATE;

-- name: lock_agents
SELECT a.id FROM agent a WHERE a.workspace_id = $1 ORDER BY a.id FOR UPDATE;

-- name: lock_runtimes
SELECT t.id FROM agent_runtime t WHERE t.workspace_id = $1 ORDER BY t.id FOR UPDATE;

-- name: lock_members
SELECT m.id FROM member m WHERE m.workspace_id = $1 ORDER BY m.id FOR UPDATE;

-- name: lock_issues
SELECT i.id FROM issue i WHERE i.workspace_id = $1 ORDER BY i.id FOR UPDATE;

-- name: lock_rules
SELECT r.id FROM issue_wakeup r WHERE r.workspace_id = $1 ORDER BY r.id FOR NO KEY UPDATE;

-- name: lock_runs
-- Runs have no workspace; they are those of its agents and issues.
SELECT q.id FROM agent_task_queue q
 WHERE q.agent_id IN (SELECT a.id FROM agent a WHERE a.workspace_id = $1)
    OR q.issue_id IN (SELECT i.id FROM issue i WHERE i.workspace_id = $1)
 ORDER BY q.id
   FOR NO KEY UPDATE;

-- name: lock_listening
-- First half of the advisory locks, in key order, for every issue that has a rule.
SELECT pg_advisory_xact_lock_shared(1, k.key)
  FROM (SELECT DISTINCT wakeful_listening_key(r.issue_id) AS key
          FROM issue_wakeup r WHERE r.workspace_id = $1 ORDER BY 1) k;

-- name: lock_receipts
-- Second half. Writers that know nothing of us wait at their COMMIT, and find no rule afterwards.
SELECT pg_advisory_xact_lock(k.key)
  FROM (SELECT DISTINCT wakeful_issue_key(r.issue_id) AS key
          FROM issue_wakeup r WHERE r.workspace_id = $1 ORDER BY 1) k;

-- name: delete_attached
-- Labels, reactions and files of its issues and comments, and its inbox. Nobody else gets in, so
-- that they need no locks before.
WITH label AS (
  DELETE FROM issue_to_label x USING issue i WHERE i.workspace_id = $1 AND x.issue_id = i.id
), reaction AS (
  DELETE FROM issue_reaction r WHERE r.workspace_id = $1
), remark AS (
  DELETE FROM comment_reaction r WHERE r.workspace_id = $1
), inbox AS (
  DELETE FROM inbox_item n WHERE n.workspace_id = $1
), content AS (
  DELETE FROM attachment_content t USING attachment a
   WHERE a.workspace_id = $1 AND t.attachment_id = a.id
)
DELETE FROM attachment a WHERE a.workspace_id = $1;

-- name: delete_comments
-- Replies go with what they reply to: the check of the key comes at the end of the statement.
DELETE FROM comment c USING issue i WHERE i.workspace_id = $1 AND c.issue_id = i.id;

-- name: delete_activities
DELETE FROM activity_log l WHERE l.workspace_id = $1;

-- name: delete_receipts
DELETE FROM issue_wakeup_receipt x USING issue_wakeup r
 WHERE r.workspace_id = $1 AND x.wakeup_id = r.id;

-- name: delete_rules
DELETE FROM issue_wakeup r WHERE r.workspace_id = $1;

-- name: delete_runs
-- Runs ($1: their ids) and what hangs on them, run tokens too: a daemon's next report is 404.
WITH lease AS (
  DELETE FROM run_lease l WHERE l.task_id = ANY ($1)
), progress AS (
  DELETE FROM run_progress p WHERE p.task_id = ANY ($1)
), message AS (
  DELETE FROM run_message m WHERE m.task_id = ANY ($1)
), token AS (
  DELETE FROM task_token k WHERE k.task_id = ANY ($1)
)
DELETE FROM agent_task_queue q WHERE q.id = ANY ($1);

-- name: delete_issues
DELETE FROM issue i WHERE i.workspace_id = $1;

-- name: delete_catalogues
-- Squads before the agents that lead them, everything else after the issues that have it.
WITH member AS (
  DELETE FROM squad_member n USING squad s WHERE s.workspace_id = $1 AND n.squad_id = s.id
), squad AS (
  DELETE FROM squad s WHERE s.workspace_id = $1
), status AS (
  DELETE FROM issue_status t WHERE t.workspace_id = $1
), label AS (
  DELETE FROM issue_label l WHERE l.workspace_id = $1
), property AS (
  DELETE FROM issue_property p WHERE p.workspace_id = $1
)
DELETE FROM project p WHERE p.workspace_id = $1;

-- name: delete_bookkeeping
-- What was answered to its requests under a key, and the count of its activations.
WITH key AS (
  DELETE FROM idempotency_key k WHERE k.workspace_id = $1
)
DELETE FROM workspace_capacity c WHERE c.workspace_id = $1;

-- name: delete_agents
DELETE FROM agent a WHERE a.workspace_id = $1;

-- name: delete_invokers
DELETE FROM agent_invocation_target t USING agent a
 WHERE a.workspace_id = $1 AND t.agent_id = a.id;

-- name: delete_runtimes
DELETE FROM agent_runtime t WHERE t.workspace_id = $1;

-- name: delete_daemons
DELETE FROM daemon d WHERE d.workspace_id = $1;

-- name: delete_tokens
DELETE FROM access_token t WHERE t.workspace_id = $1;

-- name: delete_members
DELETE FROM member m WHERE m.workspace_id = $1;

-- name: delete
DELETE FROM workspace w WHERE w.id = $1;
