-- Agents, and who may see and wake them.

-- name: list
-- The agents of a workspace ($1) that a caller may see, by name; with $2 that one alone. $3 is the
-- person behind the caller, null for none who is a member, $4 the caller's own agent (W-194); $5
-- after how many seconds without a heartbeat a runtime is offline. The rule is `may_see_agent`.
SELECT count(*) OVER () AS total, a.id, a.workspace_id, a.name, a.instructions, a.visibility,
       a.owner_id, a.runtime_id, a.max_concurrent_tasks, a.archived_at, a.created_at, a.updated_at,
       ARRAY(SELECT t.target_id FROM agent_invocation_target t
              WHERE t.agent_id = a.id AND t.target_type = 'member' ORDER BY t.target_id)
         AS invokers,
       rt.name AS runtime_name, rt.provider, rt.last_seen_at,
       coalesce(rt.last_seen_at > wakeful_now() - make_interval(secs => $5), false) AS is_online,
       EXISTS (SELECT FROM agent_task_queue q
                WHERE q.agent_id = a.id
                  AND q.status IN ('dispatched', 'waiting_local_directory', 'running'))
         AS is_working
  FROM agent a
  LEFT JOIN agent_runtime rt ON rt.id = a.runtime_id
 WHERE a.workspace_id = $1 AND ($2::uuid IS NULL OR a.id = $2)
   AND (a.visibility = 'workspace' OR a.id = $4 OR a.owner_id = $3
        OR EXISTS (SELECT FROM agent_invocation_target t
                    WHERE t.agent_id = a.id AND t.target_type = 'member' AND t.target_id = $3))
 ORDER BY lower(a.name), a.id
 LIMIT $6 OFFSET $7;

-- name: place
-- Where an agent is.
SELECT a.workspace_id FROM agent a WHERE a.id = $1;

-- name: lock
-- Locks: agent NO KEY UPDATE; runs may be queued and claimed meanwhile.
SELECT a.name, a.instructions, a.visibility, a.owner_id, a.runtime_id, a.max_concurrent_tasks,
       a.archived_at
  FROM agent a WHERE a.id = $1
   FOR NO KEY UPDATE;

-- name: insert
INSERT INTO agent (workspace_id, owner_id, name, instructions, visibility, runtime_id,
                   max_concurrent_tasks)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING id;

-- name: update
UPDATE agent
   SET name = $2, instructions = $3, visibility = $4, runtime_id = $5, max_concurrent_tasks = $6,
       updated_at = wakeful_now()
 WHERE id = $1;

-- name: move_runs
-- Runs of the agent ($1) that nobody has claimed show where it runs now ($2). One that is queued at
-- this very moment may be missed: a claim goes by the agent's runtime, not by the run's.
-- Locks: runs NO KEY UPDATE in id order, after the agent.
-- Index: agent_task_claim_idx and agent_task_deferred_idx.
UPDATE agent_task_queue SET runtime_id = $2
 WHERE id IN (
   SELECT q.id FROM agent_task_queue q
    WHERE q.agent_id = $1 AND q.runtime_id IS DISTINCT FROM $2
      AND (q.status = 'queued' OR q.status = 'deferred')
    ORDER BY q.id
      FOR NO KEY UPDATE);

-- name: archive
-- A second time keeps the first time.
UPDATE agent SET archived_at = coalesce(archived_at, wakeful_now()), updated_at = wakeful_now()
 WHERE id = $1;

-- name: unarchive
UPDATE agent SET archived_at = NULL, updated_at = wakeful_now() WHERE id = $1;

-- name: remove_invokers
DELETE FROM agent_invocation_target t WHERE t.agent_id = $1 AND t.target_id <> ALL ($2);

-- name: add_invokers
INSERT INTO agent_invocation_target (agent_id, target_id) SELECT $1, unnest($2::uuid[])
ON CONFLICT DO NOTHING;

-- name: lent_runtime
-- The runtime $1 of the workspace $2, and whether it is on a daemon of the user $3: whose token
-- registered it. No row: there is none. Locks: KEY SHARE, so that it stays until COMMIT.
SELECT coalesce(k.user_id = $3, false) AS is_own
  FROM agent_runtime t
  LEFT JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
  LEFT JOIN access_token k ON k.id = d.token_id
 WHERE t.id = $1 AND t.workspace_id = $2
   FOR KEY SHARE OF t;

-- name: assignable
-- What an assignment has to know of an agent: is it there for the caller (arguments as in the
-- list), may the person wake it, can it work. Locks: agent KEY SHARE.
SELECT a.archived_at IS NOT NULL AS is_archived, a.runtime_id IS NOT NULL AS has_runtime,
       may_invoke($3, a) AS may_invoke
  FROM agent a
 WHERE a.workspace_id = $1 AND a.id = $2
   AND (a.visibility = 'workspace' OR a.id = $4 OR may_invoke($3, a))
   FOR KEY SHARE OF a;

-- name: addressed
-- Agents that a comment reaches, in id order: named ($2, any case) or meant by id ($3), able to
-- work, and open to the person ($4) behind the comment; its own author ($5) is left out.
-- Locks: agents KEY SHARE, before the issue. Index: agent_workspace_name_idx, primary key.
SELECT a.id
  FROM agent a
 WHERE a.workspace_id = $1
   AND (a.id = ANY ($3) OR lower(a.name) IN (SELECT lower(n) FROM unnest($2::text[]) n))
   AND a.archived_at IS NULL AND a.runtime_id IS NOT NULL
   AND a.id IS DISTINCT FROM $5
   AND may_invoke($4, a)
 ORDER BY a.id
   FOR KEY SHARE OF a;

-- name: visible
-- Those of the given agents ($2) that the caller may see; arguments 3 and 4 as in the list.
SELECT a.id
  FROM agent a
 WHERE a.workspace_id = $1 AND a.id = ANY ($2)
   AND (a.visibility = 'workspace' OR a.id = $4 OR may_invoke($3, a));
