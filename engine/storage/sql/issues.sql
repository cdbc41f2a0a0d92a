-- Issues. The columns of `list` and `get` are the same; `engine/service/issues.py` maps both.

-- name: list
-- Issues of a workspace, newest first; each filter that is not null narrows. $8 is a LIKE pattern.
-- Index: issue_workspace_created_idx gives the order; a search reads the workspace.
SELECT count(*) OVER () AS total, i.id, i.workspace_id, w.issue_prefix, i.number, i.title,
       i.description, i.status, status_category(i.workspace_id, i.status) AS category, i.priority,
       i.assignee_type, i.assignee_id, i.creator_type, i.creator_id, i.parent_issue_id, i.stage,
       i.project_id, i.start_date, i.due_date, i.properties, i.metadata, i.revision, i.created_at,
       i.updated_at,
       (SELECT coalesce(jsonb_agg(to_jsonb(n) ORDER BY lower(n.name), n.id), '[]')
          FROM (SELECT l.id, l.name, l.color
                  FROM issue_to_label x JOIN issue_label l ON l.id = x.label_id
                 WHERE x.issue_id = i.id) n) AS labels
  FROM issue i JOIN workspace w ON w.id = i.workspace_id
 WHERE i.workspace_id = $1
   AND ($2::text IS NULL OR i.status = $2)
   AND ($3::text IS NULL OR status_category(i.workspace_id, i.status) = $3)
   AND ($4::uuid IS NULL OR i.assignee_id = $4)
   AND ($5::uuid IS NULL OR i.parent_issue_id = $5)
   AND ($6::uuid IS NULL OR i.project_id = $6)
   AND ($7::uuid IS NULL OR EXISTS (
         SELECT FROM issue_to_label x WHERE x.issue_id = i.id AND x.label_id = $7))
   AND ($8::text IS NULL OR i.title ILIKE $8 OR i.description ILIKE $8
        OR w.issue_prefix || '-' || i.number ILIKE $8)
 ORDER BY i.created_at DESC, i.id DESC
 LIMIT $9 OFFSET $10;

-- name: get
-- One issue. Index: primary key.
SELECT i.id, i.workspace_id, w.issue_prefix, i.number, i.title,
       i.description, i.status, status_category(i.workspace_id, i.status) AS category, i.priority,
       i.assignee_type, i.assignee_id, i.creator_type, i.creator_id, i.parent_issue_id, i.stage,
       i.project_id, i.start_date, i.due_date, i.properties, i.metadata, i.revision, i.created_at,
       i.updated_at,
       (SELECT coalesce(jsonb_agg(to_jsonb(n) ORDER BY lower(n.name), n.id), '[]')
          FROM (SELECT l.id, l.name, l.color
                  FROM issue_to_label x JOIN issue_label l ON l.id = x.label_id
                 WHERE x.issue_id = i.id) n) AS labels
  FROM issue i JOIN workspace w ON w.id = i.workspace_id
 WHERE i.id = $1;

-- name: by_number
-- An issue by its identifier. Index: the unique one on workspace and number.
SELECT i.id FROM issue i JOIN workspace w ON w.id = i.workspace_id
 WHERE i.workspace_id = $1 AND w.issue_prefix = $2 AND i.number = $3;

-- name: next_number
-- The number of a new issue. Locks: workspace NO KEY UPDATE until COMMIT, first in lock order, so
-- that numbers have no gaps; everybody else only holds it KEY SHARE.
UPDATE workspace SET issue_counter = issue_counter + 1 WHERE id = $1 RETURNING issue_counter;

-- name: lock_workspace
-- Moves of sub-issues come one after the other, so that two together cannot close a circle.
-- Locks: workspace NO KEY UPDATE, first in lock order.
SELECT w.id FROM workspace w WHERE w.id = $1 FOR NO KEY UPDATE;

-- name: parent
-- Whether the workspace has this issue; KEY SHARE, as the foreign key will take it, too.
SELECT true FROM issue i WHERE i.id = $1 AND i.workspace_id = $2 FOR KEY SHARE;

-- name: ancestors
-- The issue $1 and what is above it, nearest first, at most $2 steps. Index: primary key.
WITH RECURSIVE up AS (
  SELECT i.id, i.parent_issue_id, 0 AS hops FROM issue i WHERE i.id = $1
  UNION ALL
  SELECT i.id, i.parent_issue_id, up.hops + 1
    FROM up JOIN issue i ON i.id = up.parent_issue_id
   WHERE up.hops < $2
)
SELECT id FROM up ORDER BY hops;

-- name: insert
INSERT INTO issue (
  workspace_id, number, creator_type, creator_id, title, description, status, priority,
  assignee_type, assignee_id, parent_issue_id, stage, project_id, start_date, due_date, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
RETURNING id;

-- name: hold
-- Whether the issue is there, held against removal. Locks: issue KEY SHARE, after workspace, agents
-- and member and before rules and runs: a deletion takes them in this order, too.
SELECT true FROM issue i WHERE i.id = $1 FOR KEY SHARE;

-- name: lock
-- What an update may change. Locks: issue NO KEY UPDATE; comments on it go on.
SELECT i.title, i.description, i.status, i.priority, i.assignee_type, i.assignee_id,
       i.parent_issue_id AS parent_id, i.stage, i.project_id, i.start_date, i.due_date, i.metadata
  FROM issue i WHERE i.id = $1
   FOR NO KEY UPDATE;

-- name: update
-- Locks: parent and project KEY SHARE, by their keys.
UPDATE issue
   SET title = $2, description = $3, status = $4, priority = $5, assignee_type = $6,
       assignee_id = $7, parent_issue_id = $8, stage = $9, project_id = $10, start_date = $11,
       due_date = $12, metadata = $13, revision = revision + 1, updated_at = wakeful_now()
 WHERE id = $1;

-- name: lock_fields
-- For what changes metadata or properties alone. Locks: issue NO KEY UPDATE.
SELECT i.metadata FROM issue i WHERE i.id = $1 FOR NO KEY UPDATE;

-- name: set_metadata
UPDATE issue SET metadata = $2, revision = revision + 1, updated_at = wakeful_now() WHERE id = $1;

-- name: lock_for_delete
-- Locks: issue FOR UPDATE; from here on nothing new hangs on it (W-190).
SELECT i.id FROM issue i WHERE i.id = $1 FOR UPDATE;

-- name: lock_children
-- Locks: sub-issues NO KEY UPDATE. Below their parent, in id order: no circle of waits in a tree.
SELECT i.id FROM issue i WHERE i.parent_issue_id = $1 ORDER BY i.id FOR NO KEY UPDATE;

-- name: orphan_children
-- Sub-issues stay, without their parent, and their timelines say who did it ($2, $3).
-- Index: issue_parent_idx.
WITH orphan AS (
  UPDATE issue SET parent_issue_id = NULL, revision = revision + 1, updated_at = wakeful_now()
   WHERE parent_issue_id = $1
  RETURNING id, workspace_id
)
INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
SELECT o.workspace_id, o.id, $2, $3, 'issue_updated', '{"changed_fields": ["parent_id"]}'
  FROM orphan o;

-- name: delete_attached
-- Labels, reactions and files of the issue ($1) and of its comments, and what the inbox says of it.
-- A link, a reaction or a file has no lock order of its own: whoever writes one holds the issue.
-- Index: primary keys, the unique ones of reactions, attachment_issue_idx, attachment_comment_idx.
WITH label AS (
  DELETE FROM issue_to_label x WHERE x.issue_id = $1
), reaction AS (
  DELETE FROM issue_reaction r WHERE r.issue_id = $1
), remark AS (
  DELETE FROM comment_reaction r USING comment c
   WHERE c.issue_id = $1 AND r.comment_id = c.id
), inbox AS (
  DELETE FROM inbox_item n WHERE n.issue_id = $1
), content AS (
  DELETE FROM attachment_content t USING attachment a
   WHERE t.attachment_id = a.id
     AND (a.issue_id = $1 OR a.comment_id IN (SELECT c.id FROM comment c WHERE c.issue_id = $1))
)
DELETE FROM attachment a
 WHERE a.issue_id = $1 OR a.comment_id IN (SELECT c.id FROM comment c WHERE c.issue_id = $1);

-- name: delete_comments
-- Replies go with what they reply to: the check of the key comes at the end of the statement.
DELETE FROM comment c WHERE c.issue_id = $1;

-- name: delete_activities
DELETE FROM activity_log l WHERE l.issue_id = $1;

-- name: delete
DELETE FROM issue i WHERE i.id = $1;
