-- Statuses of a workspace's own. The built-in ones are no rows: the domain knows them.

-- name: list
-- The built-in statuses ($2 to $4: keys, names, categories, in their order), then the workspace's
-- own by place and name. Index: the unique one on workspace and key.
SELECT count(*) OVER () AS total, s.*
  FROM (SELECT b.place AS first, NULL::uuid AS id, $1::uuid AS workspace_id, b.key, b.name,
               b.category, NULL::text AS color, true AS is_system,
               NULL::timestamptz AS archived_at, NULL::timestamptz AS created_at,
               NULL::timestamptz AS updated_at, 0::double precision AS position
          FROM unnest($2::text[], $3::text[], $4::text[])
               WITH ORDINALITY AS b (key, name, category, place)
        UNION ALL
        SELECT NULL, t.id, t.workspace_id, t.key, t.name, t.category, t.color, false,
               t.archived_at, t.created_at, t.updated_at, t.position
          FROM issue_status t
         WHERE t.workspace_id = $1) s
 ORDER BY s.first NULLS LAST, s.position, lower(s.name), s.key
 LIMIT $5 OFFSET $6;

-- name: get
SELECT t.id, t.workspace_id, t.key, t.name, t.category, t.color, false AS is_system,
       t.archived_at, t.created_at, t.updated_at
  FROM issue_status t WHERE t.id = $1;

-- name: by_key
-- What an issue with this status has to know. Index: the unique one on workspace and key.
SELECT t.key, t.name, t.category, t.archived_at IS NOT NULL AS is_archived
  FROM issue_status t WHERE t.workspace_id = $1 AND t.key = $2;

-- name: lock_workspace
-- Statuses of a workspace change one after the other, so that no two get the same name.
-- Locks: workspace NO KEY UPDATE, first in lock order.
SELECT w.id FROM workspace w WHERE w.id = $1 FOR NO KEY UPDATE;

-- name: lock
-- Locks: status NO KEY UPDATE, after the workspace.
SELECT t.name, t.category, t.color FROM issue_status t WHERE t.id = $1 FOR NO KEY UPDATE;

-- name: has_name
-- Whether another status ($3 is this one, null for a new one) has the name, in any case. Asked
-- under the lock of the workspace.
SELECT EXISTS (SELECT FROM issue_status t
                WHERE t.workspace_id = $1 AND lower(t.name) = lower($2)
                  AND t.id IS DISTINCT FROM $3);

-- name: insert
INSERT INTO issue_status (workspace_id, key, name, category, color)
VALUES ($1, $2, $3, $4, $5)
RETURNING id;

-- name: update
UPDATE issue_status SET name = $2, color = $3, updated_at = wakeful_now() WHERE id = $1;

-- name: archive
-- A second time keeps the first time.
UPDATE issue_status
   SET archived_at = coalesce(archived_at, wakeful_now()), updated_at = wakeful_now()
 WHERE id = $1;

-- name: unarchive
UPDATE issue_status SET archived_at = NULL, updated_at = wakeful_now() WHERE id = $1;
