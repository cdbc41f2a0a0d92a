-- What an explanation of one rule rests on: one snapshot, no row lock (W-213).

-- name: snapshot
-- What a dispatch would read of the rule $2 of the issue $1, and whether it would look at the rule; it
-- looks at $3 rules of an issue at most. `dispatch_read` locks nothing, its callers do.
SELECT (d.rule).*, d.issue_exists, d.issue_closed, d.issue_priority, d.agent_archived,
       d.runtime_id, d.may_invoke, d.own_run, d.receipts, d.now,
       $2 = ANY (dispatch_candidates(ARRAY[$1]::uuid[], '{}', $3)) AS is_candidate
  FROM dispatch_read(ARRAY[$2]::uuid[]) d
 WHERE (d.rule).issue_id = $1;

-- name: surroundings
-- The agent of the rule $1 with its daemon's last sign of life and its other runs in progress; the
-- rule's run that nobody has started, with what the claim gate reads; the last run.
-- Index: primary keys, agent_task_active_idx, agent_task_wakeup_active_idx.
SELECT a.name AS agent_name, t.last_seen_at AS seen_at, a.max_concurrent_tasks,
       (SELECT count(*) FROM agent_task_queue b
         WHERE b.agent_id = a.id AND b.id IS DISTINCT FROM w.id
           AND b.status IN ('dispatched', 'waiting_local_directory', 'running')) AS busy_runs,
       EXISTS (SELECT FROM agent_task_queue b
                WHERE b.agent_id = a.id AND b.issue_id = r.issue_id AND b.id IS DISTINCT FROM w.id
                  AND b.status IN ('dispatched', 'waiting_local_directory', 'running'))
         AS works_on_issue,
       w.id AS run_id, w.status AS run_status, w.created_at AS run_created_at,
       w.dispatched_at AS run_dispatched_at, w.fire_at AS run_fire_at,
       w.issue_id AS run_issue_id, w.agent_id AS run_agent_id,
       w.originator_user_id AS run_originator_user_id,
       w.context -> 'wakeup_revision' AS run_revision,
       c.id IS NOT NULL AND may_invoke(w.originator_user_id, c) AS run_may_invoke,
       c.archived_at IS NULL AND c.runtime_id IS NOT NULL AS run_has_runtime,
       last.failure_reason AS last_failure_reason, last.error AS last_error_of_run
  FROM issue_wakeup r
  LEFT JOIN agent a ON a.id = r.agent_id
  LEFT JOIN agent_runtime t ON t.id = a.runtime_id
  LEFT JOIN LATERAL (
    SELECT q.* FROM agent_task_queue q
     WHERE q.wakeup_id = r.id AND q.status IN ('queued', 'dispatched', 'deferred')
     ORDER BY q.status DESC, q.created_at, q.id
     LIMIT 1) w ON true
  LEFT JOIN agent c ON c.id = w.agent_id
  LEFT JOIN agent_task_queue last ON last.id = r.last_task_id
 WHERE r.id = $1;

-- name: facts
-- The latest $2 facts that reached the rule $1, newest first, with the runs that carry them.
-- Index: issue_wakeup_receipt_key_idx, its first column; payloads are read of the latest alone.
SELECT x.event_type, x.payload, x.task_id, x.processed_at, x.created_at,
       q.status AS task_status, q.created_at AS task_created_at
  FROM (SELECT y.seq FROM issue_wakeup_receipt y WHERE y.wakeup_id = $1
         ORDER BY y.seq DESC LIMIT $2) latest
  JOIN issue_wakeup_receipt x ON x.seq = latest.seq
  LEFT JOIN agent_task_queue q ON q.id = x.task_id
 ORDER BY x.seq DESC;

-- name: ignored
-- What the rule $1 has ignored, the latest first, with the agents of the runs behind it.
SELECT g.reason, g.count, g.last_at, g.last_event_type, g.last_actor_type, g.last_actor_id,
       g.last_source_task_id, coalesce(q.agent_id, g.last_agent_id) AS agent_id
  FROM wakeup_ignored g
  LEFT JOIN agent_task_queue q ON q.id = g.last_source_task_id
 WHERE g.wakeup_id = $1 AND g.count > 0
 ORDER BY g.last_at DESC, g.reason;
