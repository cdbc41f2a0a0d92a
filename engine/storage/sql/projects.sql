-- Projects.

-- name: list
-- Projects of a workspace, by name. Index: project_workspace_name_idx.
SELECT count(*) OVER () AS total, p.id, p.workspace_id, p.name, p.description, p.archived_at,
       p.created_at, p.updated_at
  FROM project p
 WHERE p.workspace_id = $1
 ORDER BY lower(p.name), p.id
 LIMIT $2 OFFSET $3;

-- name: get
SELECT p.id, p.workspace_id, p.name, p.description, p.archived_at, p.created_at, p.updated_at
  FROM project p WHERE p.id = $1;

-- name: insert
INSERT INTO project (workspace_id, name, description) VALUES ($1, $2, $3) RETURNING id;

-- name: lock
-- Locks: project NO KEY UPDATE; issues come and go meanwhile.
SELECT p.name, p.description FROM project p WHERE p.id = $1 FOR NO KEY UPDATE;

-- name: update
UPDATE project SET name = $2, description = $3, updated_at = wakeful_now() WHERE id = $1;

-- name: archive
-- A second time keeps the first time.
UPDATE project SET archived_at = coalesce(archived_at, wakeful_now()), updated_at = wakeful_now()
 WHERE id = $1;

-- name: unarchive
UPDATE project SET archived_at = NULL, updated_at = wakeful_now() WHERE id = $1;

-- name: is_archived
-- Whether a project of the workspace is archived; no row: there is none. The key of the issue will
-- lock it KEY SHARE.
SELECT p.archived_at IS NOT NULL FROM project p WHERE p.id = $1 AND p.workspace_id = $2;
