-- People and their memberships.

-- name: list
-- Members of a workspace, by name.
SELECT count(*) OVER () AS total, m.id, m.user_id, u.email, u.name, m.role, m.created_at
  FROM member m JOIN app_user u ON u.id = m.user_id
 WHERE m.workspace_id = $1
 ORDER BY lower(u.name), m.id
 LIMIT $2 OFFSET $3;

-- name: find_person
-- A user by e-mail address. Locks: the user KEY SHARE, as the membership's key will, too.
SELECT u.id, u.name FROM app_user u WHERE u.email = $1 FOR KEY SHARE;

-- name: insert_person
-- No row when the address is taken by now. Index: the unique one on email decides.
INSERT INTO app_user (email, name, instance_admin) VALUES ($1, $2, $3)
ON CONFLICT (email) DO NOTHING
RETURNING id;

-- name: insert
INSERT INTO member (workspace_id, user_id, role) VALUES ($1, $2, $3) RETURNING id, created_at;

-- name: lock_owners
-- Owners, the member $2 and the caller $3, so that of two who end each other's membership, or who
-- go together as the last owners, one is refused: the caller's own row is held from here on.
-- Locks: workspace KEY SHARE, then members NO KEY UPDATE in id order; FOR UPDATE would make
-- dispatches wait.
WITH place AS MATERIALIZED (SELECT w.id FROM workspace w WHERE w.id = $1 FOR KEY SHARE)
SELECT m.id, m.user_id, m.role FROM member m
 WHERE m.workspace_id = (SELECT p.id FROM place p)
   AND (m.role = 'owner' OR m.id = $2 OR m.user_id = $3)
 ORDER BY m.id
   FOR NO KEY UPDATE OF m;

-- name: delete
DELETE FROM member m WHERE m.id = $1;

-- name: is_member
-- Whether the user $2 is a member; KEY SHARE, so that this stays so until COMMIT.
SELECT true FROM member m WHERE m.workspace_id = $1 AND m.user_id = $2 FOR KEY SHARE;

-- name: count_members
-- How many of these users are members of the workspace.
SELECT count(*) FROM member m WHERE m.workspace_id = $1 AND m.user_id = ANY ($2);
