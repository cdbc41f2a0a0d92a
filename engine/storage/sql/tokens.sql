-- Credentials of people and daemons. Only hashes are stored.

-- name: insert
-- The lifetime ($6, seconds) starts at the clock of the database (W-084); null is without end.
INSERT INTO access_token (kind, name, user_id, workspace_id, token_hash, expires_at)
VALUES ($1, $2, $3, $4, $5, wakeful_now() + make_interval(secs => $6))
RETURNING id, expires_at, created_at;

-- name: list
-- Tokens that are not revoked, newest first: those of the user $1, and daemon tokens of the
-- workspace $2, all of them with $3, else their own.
SELECT count(*) OVER () AS total, t.id, t.name, t.kind, t.workspace_id, t.expires_at, t.created_at
  FROM access_token t
 WHERE t.revoked_at IS NULL
   AND (t.kind = 'member' AND t.user_id = $1
        OR t.kind = 'daemon' AND t.workspace_id = $2 AND (t.user_id = $1 OR $3))
 ORDER BY t.created_at DESC, t.id DESC
 LIMIT $4 OFFSET $5;

-- name: revoke
-- One token, if the caller may: the conditions are those of the list. Locks: the token.
UPDATE access_token t SET revoked_at = wakeful_now()
 WHERE t.id = $4 AND t.revoked_at IS NULL
   AND (t.kind = 'member' AND t.user_id = $1
        OR t.kind = 'daemon' AND t.workspace_id = $2 AND (t.user_id = $1 OR $3));

-- name: workspace_of
-- The workspace of a daemon token, null for a member token.
SELECT t.workspace_id FROM access_token t WHERE t.id = $1;

-- name: revoke_with_membership
-- What a person who has left a workspace ($2) may no longer use: daemon tokens of it, and with the
-- last workspace their own. An instance administrator needs no workspace. Locks: the tokens.
UPDATE access_token t SET revoked_at = wakeful_now()
 WHERE t.user_id = $1 AND t.revoked_at IS NULL
   AND (t.workspace_id = $2
        OR t.kind = 'member'
           AND NOT EXISTS (SELECT FROM member m WHERE m.user_id = $1)
           AND NOT EXISTS (SELECT FROM app_user u WHERE u.id = $1 AND u.instance_admin));
