-- Daemons and their runtimes: registration, signs of life, and what a restart left in flight.

-- name: hold
-- The token's workspace, so that nobody removes it before COMMIT (W-189). No row: it is gone, and
-- the token with it. Locks: workspace KEY SHARE.
SELECT w.id FROM workspace w WHERE w.id = $1 FOR KEY SHARE OF w;

-- name: bind
-- W-102: a daemon's name belongs to the token that registered it first. When that is revoked or has
-- expired, the name is for a token of the same person, or of an owner or admin of the workspace: who
-- takes it gets the agents that are bound to its runtimes. No row: it belongs to somebody else.
INSERT INTO daemon AS d (workspace_id, daemon_id, token_id, device_name, version)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (workspace_id, daemon_id) DO UPDATE
   SET token_id = EXCLUDED.token_id, device_name = EXCLUDED.device_name,
       version = EXCLUDED.version
 WHERE d.token_id = EXCLUDED.token_id
    OR EXISTS (
      SELECT FROM access_token k
        JOIN access_token n ON n.id = EXCLUDED.token_id
       WHERE k.id = d.token_id AND (k.revoked_at IS NOT NULL OR k.expires_at <= wakeful_now())
         AND (n.user_id = k.user_id
              OR EXISTS (SELECT FROM member m
                          WHERE m.workspace_id = d.workspace_id AND m.user_id = n.user_id
                            AND m.role IN ('owner', 'admin'))))
RETURNING d.daemon_id;

-- name: register_runtimes
-- One row a runtime, known by its name within the daemon; registering is a sign of life.
INSERT INTO agent_runtime AS t (workspace_id, daemon_id, name, provider, last_seen_at)
SELECT $1, $2, n.name, n.provider, wakeful_now()
  FROM unnest($3::text[], $4::text[]) AS n (name, provider)
 ORDER BY n.name
ON CONFLICT (workspace_id, daemon_id, name) DO UPDATE
   SET provider = EXCLUDED.provider, last_seen_at = EXCLUDED.last_seen_at
RETURNING t.id, t.name, t.provider;

-- name: owner
-- Whether the token ($3) registered this daemon. No row: nobody did.
SELECT d.token_id = $3 AS owned FROM daemon d WHERE d.workspace_id = $1 AND d.daemon_id = $2;

-- name: seen
-- Signs of life; returns the runtimes that had been offline, whose runs can be claimed again.
-- Locks: the runtimes, in id order.
UPDATE agent_runtime t
   SET last_seen_at = wakeful_now()
  FROM (SELECT r.id, r.last_seen_at FROM agent_runtime r
         WHERE r.workspace_id = $1 AND r.daemon_id = $2 AND r.id = ANY ($3::uuid[])
         ORDER BY r.id
           FOR NO KEY UPDATE) before
 WHERE t.id = before.id
RETURNING t.id, before.last_seen_at IS NULL
            OR before.last_seen_at < t.last_seen_at - make_interval(secs => $4) AS was_offline;

-- name: in_flight
-- What a daemon that starts cannot be working on any more: claimed runs of its runtimes.
SELECT q.id, q.agent_id, q.issue_id, q.wakeup_id
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
 WHERE t.workspace_id = $1 AND t.daemon_id = $2
   AND q.status IN ('dispatched', 'waiting_local_directory', 'running');

-- name: hold_agents
-- Those of these runs ($1), so that another attempt has one (W-190). Locks: agents KEY SHARE.
SELECT a.id FROM agent a WHERE a.id = ANY ($1::uuid[]) ORDER BY a.id FOR KEY SHARE;

-- name: hold_issues
-- Likewise. Locks: issues KEY SHARE.
SELECT i.id FROM issue i WHERE i.id = ANY ($1::uuid[]) ORDER BY i.id FOR KEY SHARE;

-- name: lock_rules
-- Likewise: a rule that is switched off or whose issue closes knows of the attempt (W-186).
-- Locks: rules NO KEY UPDATE.
SELECT r.id FROM issue_wakeup r WHERE r.id = ANY ($1::uuid[]) ORDER BY r.id FOR NO KEY UPDATE;

-- name: lock_in_flight
-- Those of these runs ($1) that are still claimed. Locks: these runs, in id order.
SELECT q.id, q.status, q.issue_id, q.runtime_id, q.wakeup_id
  FROM agent_task_queue q
 WHERE q.id = ANY ($1::uuid[])
   AND q.status IN ('dispatched', 'waiting_local_directory', 'running')
 ORDER BY q.id
   FOR NO KEY UPDATE;

-- name: give_back
-- Claims that were never started have cost no attempt: they are queued again, where their agent
-- runs now.
UPDATE agent_task_queue q
   SET status = 'queued', dispatched_at = NULL, queued_at = wakeful_now(),
       runtime_id = coalesce(a.runtime_id, q.runtime_id)
  FROM agent a
 WHERE q.id = ANY ($1::uuid[]) AND a.id = q.agent_id
RETURNING q.runtime_id;
