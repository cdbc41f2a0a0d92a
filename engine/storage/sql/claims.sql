-- Claims: which runs a daemon gets, and what comes with them (W-101 to W-106).
-- Lock order: agents (in id order, waited for), then runs (never waited for). Two claims of one
-- agent thereby follow each other, and what the second reads after its lock is exact.

-- name: caller
-- Whether the caller's token ($3) is valid and registered this daemon ($2), and which of the wanted
-- runtimes ($4) are its own and had a sign of life within $5 seconds. No row: no such daemon.
-- Pins the plans of this transaction to look-ups by index in its order: others read the whole queue,
-- compare every waiting run with every active one, or sort them all to take the first (70 ms instead
-- of 2 with 50,000 runs).
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
       set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
       n.now, d.token_id = $3 AND k.revoked_at IS NULL
         AND (k.expires_at IS NULL OR k.expires_at > n.now) AS owned,
       ARRAY(SELECT t.id FROM agent_runtime t
              WHERE t.workspace_id = $1 AND t.daemon_id = $2 AND t.id = ANY ($4::uuid[])
                AND t.last_seen_at >= n.now - make_interval(secs => $5)) AS fresh
  FROM (SELECT wakeful_now() AS now) n, daemon d
  JOIN access_token k ON k.id = d.token_id
 WHERE d.workspace_id = $1 AND d.daemon_id = $2;

-- name: daemon_of
-- The daemon that registered a runtime ($2) of this workspace ($1).
SELECT t.daemon_id FROM agent_runtime t WHERE t.workspace_id = $1 AND t.id = $2;

-- name: candidates
-- The best run of each agent ($3: of these agents, null: of all) of these runtimes ($1) that could be
-- handed out now, at most $4: claims that were lost first, then by priority, age and id; beside them
-- the deferred runs whose time has come and whose slot is free, at most $6. Runs $5 are left out; $2
-- is now, $7 the seconds after which a claim without start and live lease counts as lost.
-- Agents that are free come first, so that what waits for a busy one is never walked. Where a run is
-- carried out its agent says: the run's own runtime is what it was when it was queued.
-- Index: agent_runtime_id_idx; agent_task_claim_idx in its order; agent_task_active_idx for the
-- fence, the agents' limits and lost claims; agent_task_deferred_idx.
WITH waiting AS (
  SELECT c.*
    FROM agent a
   CROSS JOIN LATERAL (
     SELECT q.id, q.agent_id, q.status, q.priority, q.created_at
       FROM agent_task_queue q
      WHERE q.agent_id = a.id AND q.status = 'queued' AND q.id <> ALL ($5::uuid[])
        AND NOT EXISTS (
          SELECT FROM agent_task_queue f
           WHERE f.agent_id = q.agent_id AND f.issue_id = q.issue_id
             AND f.status IN ('dispatched', 'waiting_local_directory', 'running'))
      ORDER BY q.priority DESC, q.created_at, q.id
      LIMIT 1) c
   WHERE a.runtime_id = ANY ($1::uuid[]) AND a.archived_at IS NULL
     AND ($3::uuid[] IS NULL OR a.id = ANY ($3))
     AND a.max_concurrent_tasks > (
       SELECT count(*) FROM agent_task_queue b
        WHERE b.agent_id = a.id
          AND b.status IN ('dispatched', 'waiting_local_directory', 'running'))
), lost AS (
  SELECT q.id, q.agent_id, q.status, q.priority, q.created_at
    FROM agent a
    JOIN agent_task_queue q ON q.agent_id = a.id
   WHERE a.runtime_id = ANY ($1) AND a.archived_at IS NULL
     AND ($3 IS NULL OR a.id = ANY ($3)) AND q.id <> ALL ($5)
     AND q.status = 'dispatched' AND q.started_at IS NULL
     AND q.dispatched_at <= $2::timestamptz - make_interval(secs => $7)
     AND NOT EXISTS (SELECT FROM run_lease l WHERE l.task_id = q.id AND l.expires_at > $2)
), due AS (
  SELECT c.id, c.agent_id, c.status, c.priority, c.created_at
    FROM agent a
   CROSS JOIN LATERAL (
     SELECT q.id, q.agent_id, q.status, q.priority, q.created_at, q.fire_at
       FROM agent_task_queue q
      WHERE q.agent_id = a.id AND q.status = 'deferred' AND q.fire_at <= $2
        AND NOT EXISTS (
          SELECT FROM agent_task_queue p
           WHERE p.issue_id = q.issue_id AND p.agent_id = q.agent_id
             AND coalesce(p.comment_thread_id, '00000000-0000-0000-0000-000000000000')
               = coalesce(q.comment_thread_id, '00000000-0000-0000-0000-000000000000')
             AND p.status IN ('queued', 'dispatched'))
      ORDER BY q.fire_at
      LIMIT $6) c
   WHERE a.runtime_id = ANY ($1) AND a.archived_at IS NULL AND ($3 IS NULL OR a.id = ANY ($3))
   ORDER BY c.fire_at
   LIMIT $6
), best AS (
  SELECT DISTINCT ON (c.agent_id) c.*
    FROM (SELECT * FROM waiting UNION ALL SELECT * FROM lost) c
   ORDER BY c.agent_id, c.status, c.priority DESC, c.created_at, c.id
)
(SELECT * FROM best ORDER BY status, priority DESC, created_at, id LIMIT $4)
UNION ALL
SELECT * FROM due;

-- name: lock_agents
-- Two claims of one agent follow each other; an archived one gets nothing any more.
SELECT a.id
  FROM agent a
 WHERE a.id = ANY ($1) AND a.archived_at IS NULL
 ORDER BY a.id
   FOR NO KEY UPDATE;

-- name: promote
-- Deferred runs ($1) whose time has come get the slots that are free, one a slot, by priority, age
-- and id. A request that takes the slot at this very moment breaks agent_task_pending_idx: then the
-- whole transaction is repeated. Returns where their agents run. Locks: the runs and what capture
-- takes, without waiting.
UPDATE agent_task_queue q
   SET status = 'queued', queued_at = wakeful_now()
 WHERE q.id IN (
   SELECT d.id FROM agent_task_queue d
    WHERE d.id = ANY ($1::uuid[]) AND d.status = 'deferred'
      AND NOT EXISTS (
        SELECT FROM agent_task_queue p
         WHERE p.issue_id = d.issue_id AND p.agent_id = d.agent_id
           AND p.comment_thread_id IS NOT DISTINCT FROM d.comment_thread_id
           AND p.id <> d.id
           AND (p.status IN ('queued', 'dispatched')
                OR (p.id = ANY ($1) AND p.status = 'deferred'
                    AND (-p.priority, p.created_at, p.id) < (-d.priority, d.created_at, d.id))))
      AND wakeup_try_listening(d.issue_id)
      FOR NO KEY UPDATE SKIP LOCKED)
RETURNING (SELECT a.runtime_id FROM agent a WHERE a.id = q.agent_id) AS runtime_id;

-- name: hold
-- The picked runs ($1) that nobody else holds, with what the gate (W-106, W-107) and the response need;
-- others are looked at again soon. The rule is read without a lock: whoever switches it off cancels
-- its queued runs under their locks. A lost claim is held by its lease as well, so that a renewal
-- comes before, and keeps it, or after (W-105): a daemon that prepares never touches the run.
-- Locks: leases that are over at $2, then the runs and what capture takes on their issues, none of
-- them with waiting.
WITH over AS MATERIALIZED (
  SELECT l.task_id FROM run_lease l
   WHERE l.task_id = ANY ($1::uuid[]) AND l.expires_at <= $2::timestamptz
     FOR NO KEY UPDATE SKIP LOCKED)
SELECT q.*, a.name AS agent_name, a.instructions AS agent_instructions,
       w.issue_prefix || '-' || i.number AS issue_identifier, i.title AS issue_title,
       i.description AS issue_description, i.status AS issue_status,
       r.id AS rule_id, r.issue_id AS rule_issue_id, r.agent_id AS rule_agent_id,
       r.revision AS rule_revision, r.enabled AS rule_enabled,
       r.disabled_at AS rule_disabled_at, r.created_by AS rule_created_by,
       i.id IS NOT NULL AS has_issue, may_invoke(q.originator_user_id, a) AS may_invoke,
       a.archived_at IS NULL AND a.runtime_id IS NOT NULL AS has_runtime
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id
  JOIN workspace w ON w.id = a.workspace_id
  LEFT JOIN issue i ON i.id = q.issue_id
  LEFT JOIN issue_wakeup r ON r.id = q.wakeup_id
 WHERE q.id = ANY ($1) AND q.started_at IS NULL
   AND (q.status = 'queued'
        OR (q.status = 'dispatched'
            AND (q.id IN (SELECT o.task_id FROM over o)
                 OR NOT EXISTS (SELECT FROM run_lease l WHERE l.task_id = q.id))))
   AND wakeup_try_listening(q.issue_id)
 ORDER BY q.id
   FOR NO KEY UPDATE OF q SKIP LOCKED;

-- name: hand_out
-- W-104, W-105, W-192: each held run ($1) gets a new generation, a lease of $3 seconds and a
-- credential ($2, its SHA-256) for $4 seconds; those of earlier claims end. The run is carried out
-- on the runtime that its agent has now; the agent is locked.
WITH minted AS (
  SELECT * FROM unnest($1::uuid[], $2::bytea[]) AS n (task_id, token_hash)
), claimed AS (
  UPDATE agent_task_queue q
     SET status = 'dispatched',
         dispatched_at = greatest(wakeful_now(), q.dispatched_at + interval '1 microsecond'),
         runtime_id = a.runtime_id
    FROM minted n, agent a
   WHERE q.id = n.task_id AND a.id = q.agent_id
  RETURNING q.id, q.agent_id, q.originator_user_id, q.runtime_id, q.dispatched_at,
            a.workspace_id, n.token_hash
), leased AS (
  INSERT INTO run_lease AS l (task_id, expires_at)
  SELECT c.id, c.dispatched_at + make_interval(secs => $3) FROM claimed c
  ON CONFLICT (task_id) DO UPDATE SET expires_at = EXCLUDED.expires_at
), ended AS (
  DELETE FROM task_token k USING claimed c WHERE k.task_id = c.id
), stored AS (
  INSERT INTO task_token (
    token_hash, task_id, agent_id, workspace_id, user_id, dispatched_at, expires_at)
  SELECT c.token_hash, c.id, c.agent_id, c.workspace_id, c.originator_user_id, c.dispatched_at,
         c.dispatched_at + make_interval(secs => $4)
    FROM claimed c
)
SELECT c.id, c.runtime_id, c.dispatched_at FROM claimed c;

-- name: give_back
-- W-104: exactly this claim ($1, claimed at $2) is queued again, as if nobody had had it.
UPDATE agent_task_queue q
   SET status = 'queued', dispatched_at = NULL, queued_at = wakeful_now()
 WHERE q.id = $1 AND q.status = 'dispatched' AND q.dispatched_at = $2 AND q.started_at IS NULL;

-- name: next_look
-- When looking again can help without an event: the next deferred run, or the instant at which a
-- claim that is neither started nor renewed counts as lost. Index: as candidates.
SELECT least(
  (SELECT min(d.fire_at)
     FROM agent a
    CROSS JOIN LATERAL (
      SELECT q.fire_at FROM agent_task_queue q
       WHERE q.agent_id = a.id AND q.status = 'deferred' AND q.fire_at > $2
       ORDER BY q.fire_at
       LIMIT 1) d
    WHERE a.runtime_id = ANY ($1::uuid[])),
  (SELECT min(x.lost_at)
     FROM (SELECT greatest(q.dispatched_at + make_interval(secs => $3), l.expires_at) AS lost_at
             FROM agent a
             JOIN agent_task_queue q ON q.agent_id = a.id
             LEFT JOIN run_lease l ON l.task_id = q.id
            WHERE a.runtime_id = ANY ($1) AND q.status = 'dispatched'
              AND q.started_at IS NULL) x
    WHERE x.lost_at > $2));
