-- Squads: an agent that leads, and who works with it.

-- name: list
-- Squads of a workspace, by name. Index: squad_workspace_name_idx.
SELECT count(*) OVER () AS total, s.id, s.workspace_id, s.name, s.leader_id, s.instructions,
       s.archived_at, s.created_at, s.updated_at
  FROM squad s
 WHERE s.workspace_id = $1
 ORDER BY lower(s.name), s.id
 LIMIT $2 OFFSET $3;

-- name: get
SELECT s.id, s.workspace_id, s.name, s.leader_id, s.instructions, s.archived_at, s.created_at,
       s.updated_at
  FROM squad s WHERE s.id = $1;

-- name: members
-- The members of these squads in their order, without people who have left the workspace.
-- Index: primary key.
SELECT n.squad_id, n.member_type AS type, n.member_id AS id
  FROM squad_member n
  JOIN squad s ON s.id = n.squad_id
 WHERE n.squad_id = ANY ($1)
   AND (n.member_type = 'agent'
        OR EXISTS (SELECT FROM member m
                    WHERE m.workspace_id = s.workspace_id AND m.user_id = n.member_id))
 ORDER BY n.squad_id, n.position;

-- name: lock
-- Locks: squad NO KEY UPDATE; assignments to it go on.
SELECT s.name, s.leader_id, s.instructions FROM squad s WHERE s.id = $1 FOR NO KEY UPDATE;

-- name: insert
-- Locks: the leader KEY SHARE, by its key.
INSERT INTO squad (workspace_id, name, leader_id, instructions) VALUES ($1, $2, $3, $4)
RETURNING id;

-- name: update
UPDATE squad SET name = $2, leader_id = $3, instructions = $4, updated_at = wakeful_now()
 WHERE id = $1;

-- name: remove_members
DELETE FROM squad_member n WHERE n.squad_id = $1;

-- name: add_members
-- Types ($2) and ids ($3), in their order.
INSERT INTO squad_member (squad_id, member_type, member_id, position)
SELECT $1, n.type, n.id, n.place
  FROM unnest($2::text[], $3::uuid[]) WITH ORDINALITY AS n (type, id, place);

-- name: archive
-- A second time keeps the first time.
UPDATE squad SET archived_at = coalesce(archived_at, wakeful_now()), updated_at = wakeful_now()
 WHERE id = $1;

-- name: unarchive
UPDATE squad SET archived_at = NULL, updated_at = wakeful_now() WHERE id = $1;

-- name: assignable
-- What an assignment has to know of a squad ($2) of the workspace ($1) and of its leader, also of
-- one that the person ($3) cannot see. Locks: leader and squad KEY SHARE.
SELECT s.id, s.name, s.instructions, s.leader_id, s.archived_at IS NOT NULL AS is_archived,
       a.archived_at IS NOT NULL AS has_archived_leader,
       a.runtime_id IS NOT NULL AS has_runtime, may_invoke($3, a) AS may_invoke
  FROM squad s
  JOIN agent a ON a.id = s.leader_id
 WHERE s.workspace_id = $1 AND s.id = $2
   FOR KEY SHARE OF a, s;
