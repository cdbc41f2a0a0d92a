-- Properties of a workspace's issues; the values are in issue.properties, by the property's id.

-- name: list
-- Properties of a workspace, by name. Index: issue_property_workspace_name_idx.
SELECT count(*) OVER () AS total, p.id, p.workspace_id, p.name, p.type, p.config, p.archived_at,
       p.created_at, p.updated_at
  FROM issue_property p
 WHERE p.workspace_id = $1
 ORDER BY lower(p.name), p.id
 LIMIT $2 OFFSET $3;

-- name: get
SELECT p.id, p.workspace_id, p.name, p.type, p.config, p.archived_at, p.created_at, p.updated_at
  FROM issue_property p WHERE p.id = $1;

-- name: insert
INSERT INTO issue_property (workspace_id, name, type, config) VALUES ($1, $2, $3, $4)
RETURNING id;

-- name: lock
-- Locks: property NO KEY UPDATE; values are set meanwhile.
SELECT p.name, p.type, p.config FROM issue_property p WHERE p.id = $1 FOR NO KEY UPDATE;

-- name: update
UPDATE issue_property SET name = $2, config = $3, updated_at = wakeful_now() WHERE id = $1;

-- name: archive
-- A second time keeps the first time.
UPDATE issue_property
   SET archived_at = coalesce(archived_at, wakeful_now()), updated_at = wakeful_now()
 WHERE id = $1;

-- name: unarchive
UPDATE issue_property SET archived_at = NULL, updated_at = wakeful_now() WHERE id = $1;

-- name: of_workspace
-- What a value has to know of its property. Not locked: a property never goes while its workspace
-- is held, and a value set while it changes is one set before.
SELECT p.workspace_id, p.name, p.type, p.config, p.archived_at IS NOT NULL AS is_archived
  FROM issue_property p WHERE p.id = $1 AND p.workspace_id = $2;

-- name: set_value
-- $3 is the value as JSON; no row where the issue has it already. Returns the size of all values.
-- Locks: issue NO KEY UPDATE, which the caller has already.
UPDATE issue i
   SET properties = i.properties || jsonb_build_object($2::text, $3::jsonb),
       revision = i.revision + 1, updated_at = wakeful_now()
 WHERE i.id = $1 AND (i.properties -> $2::text) IS DISTINCT FROM $3::jsonb
RETURNING octet_length(i.properties::text);

-- name: clear_value
-- Touches no row where there is no value. Locks as above.
UPDATE issue i
   SET properties = i.properties - $2::text, revision = i.revision + 1, updated_at = wakeful_now()
 WHERE i.id = $1 AND i.properties ? $2::text;
