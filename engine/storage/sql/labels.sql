-- Labels, and the issues that have them.

-- name: list
-- Labels of a workspace, by name. Index: issue_label_workspace_name_idx.
SELECT count(*) OVER () AS total, l.id, l.workspace_id, l.name, l.color, l.created_at,
       l.updated_at
  FROM issue_label l
 WHERE l.workspace_id = $1
 ORDER BY lower(l.name), l.id
 LIMIT $2 OFFSET $3;

-- name: get
SELECT l.id, l.workspace_id, l.name, l.color, l.created_at, l.updated_at
  FROM issue_label l WHERE l.id = $1;

-- name: insert
INSERT INTO issue_label (workspace_id, name, color) VALUES ($1, $2, $3) RETURNING id;

-- name: lock
-- Locks: label NO KEY UPDATE; it is attached and detached meanwhile.
SELECT l.name, l.color FROM issue_label l WHERE l.id = $1 FOR NO KEY UPDATE;

-- name: update
UPDATE issue_label SET name = $2, color = $3, updated_at = wakeful_now() WHERE id = $1;

-- name: hold
-- A label of the workspace. Locks: label KEY SHARE, before the issue, so that it stays.
SELECT l.workspace_id, l.name
  FROM issue_label l WHERE l.id = $1 AND l.workspace_id = $2
   FOR KEY SHARE;

-- name: attach
-- Once is enough. Locks: issue and label KEY SHARE, by their keys. Index: primary key.
INSERT INTO issue_to_label (issue_id, label_id) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: detach
DELETE FROM issue_to_label x WHERE x.issue_id = $1 AND x.label_id = $2;

-- name: count_attached
SELECT count(*) FROM issue_to_label x WHERE x.issue_id = $1;

-- name: lock_for_delete
-- Locks: label FOR UPDATE: from here on no issue gets it.
SELECT l.name FROM issue_label l WHERE l.id = $1 FOR UPDATE;

-- name: lock_issues
-- The issues that have a label, held against removal, before anything else of them is touched.
-- Locks: issues KEY SHARE in id order. Index: issue_to_label_label_idx.
SELECT i.id FROM issue i
 WHERE i.id IN (SELECT x.issue_id FROM issue_to_label x WHERE x.label_id = $1)
 ORDER BY i.id
   FOR KEY SHARE;

-- name: detach_everywhere
-- Each issue's timeline says who did it ($2, $3); $4 is the name of the label.
WITH gone AS (
  DELETE FROM issue_to_label x WHERE x.label_id = $1 RETURNING x.issue_id
)
INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
SELECT i.workspace_id, i.id, $2, $3, 'issue_label_removed',
       jsonb_build_object('label_id', $1::uuid, 'name', $4::text)
  FROM gone JOIN issue i ON i.id = gone.issue_id;

-- name: delete
DELETE FROM issue_label l WHERE l.id = $1;
