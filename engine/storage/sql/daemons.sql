-- Daemons and their runtimes: registration, signs of life, and what a restart left in flight.

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
-- Locks: these runs, in id order.
SELECT q.id, q.status, q.issue_id, q.runtime_id, q.wakeup_id
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
 WHERE t.workspace_id = $1 AND t.daemon_id = $2
   AND q.status IN ('dispatched', 'waiting_local_directory', 'running')
 ORDER BY q.id
   FOR NO KEY UPDATE OF q;

-- name: give_back
-- Claims that were never started have cost no attempt: they are queued again, where their agent
-- runs now.
UPDATE agent_task_queue q
   SET status = 'queued', dispatched_at = NULL, runtime_id = coalesce(a.runtime_id, q.runtime_id)
  FROM agent a
 WHERE q.id = ANY ($1::uuid[]) AND a.id = q.agent_id
RETURNING q.runtime_id;

-- name: fail_lost
-- W-110: work that was under way ends, each with its entry in the timeline.
WITH failed AS (
  UPDATE agent_task_queue q
     SET status = 'failed', completed_at = wakeful_now(), wait_reason = NULL,
         failure_reason = 'runtime_recovery', error = $2
   WHERE q.id = ANY ($1::uuid[])
  RETURNING q.id, q.issue_id
)
INSERT INTO activity_log (workspace_id, issue_id, actor_type, action, details)
SELECT i.workspace_id, i.id, 'system', 'run_failed',
       jsonb_build_object('task_id', f.id, 'failure_reason', 'runtime_recovery')
  FROM failed f
  JOIN issue i ON i.id = f.issue_id
 ORDER BY f.id;

-- name: retry
-- W-110: another attempt with the same note, context and attribution where the agent runs now,
-- unless the run has had its attempts, a successor of its scope is pending already, the agent is
-- archived or the issue gone. The trigger derives the scope.
INSERT INTO agent_task_queue (
  agent_id, issue_id, runtime_id, priority, attempt, max_attempts, context, handoff_note,
  trigger_summary, trigger_comment_id, originator_user_id, accountable_user_id, originator_source,
  trigger_evidence_kind, trigger_evidence_ref_id, delegated_from_task_id, retry_of_task_id)
SELECT q.agent_id, q.issue_id, coalesce(a.runtime_id, q.runtime_id), q.priority, q.attempt + 1,
       q.max_attempts, q.context - 'wakeup_checkin', q.handoff_note, q.trigger_summary,
       q.trigger_comment_id, q.originator_user_id, q.accountable_user_id, q.originator_source,
       q.trigger_evidence_kind, q.trigger_evidence_ref_id, q.delegated_from_task_id, q.id
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id AND a.archived_at IS NULL
  JOIN issue i ON i.id = q.issue_id
 WHERE q.id = ANY ($1::uuid[]) AND q.attempt < q.max_attempts
 ORDER BY q.id
ON CONFLICT DO NOTHING
RETURNING runtime_id;

-- name: end_claims
-- Credentials and leases of these runs end.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = ANY ($1::uuid[]))
DELETE FROM task_token k WHERE k.task_id = ANY ($1::uuid[]);
