-- What happens to the rules of an issue that is deleted (W-189). One that is closed: migrations/0009.
-- Order of calls: lock_rules, lock_runs, then what else goes, share_listening, lock_inputs, and what
-- takes no further row lock.

-- name: lock_rules
-- Locks: rules NO KEY UPDATE, after the issue. Index: issue_wakeup_issue_idx.
SELECT r.id FROM issue_wakeup r WHERE r.issue_id = $1 ORDER BY r.id FOR NO KEY UPDATE;

-- name: lock_runs
-- Unstarted runs. Locks: runs NO KEY UPDATE, after the rules. Index: agent_task_issue_idx.
SELECT q.id FROM agent_task_queue q
 WHERE q.issue_id = $1 AND q.status IN ('queued', 'deferred') AND q.started_at IS NULL
 ORDER BY q.id
   FOR NO KEY UPDATE;

-- name: lock_pending
-- Ordinary runs of these agents ($2) that a new request may join: locked before a change of the issue takes
-- its listening lock, which comes after runs. Index: agent_task_issue_idx.
SELECT q.id FROM agent_task_queue q
 WHERE q.issue_id = $1 AND q.agent_id = ANY ($2) AND q.wakeup_id IS NULL
   AND q.status IN ('queued', 'deferred', 'dispatched')
 ORDER BY q.id
   FOR NO KEY UPDATE;

-- name: share_listening
-- Takes part in the listening lock: cancelled runs are captured.
SELECT pg_advisory_xact_lock_shared(1, wakeful_listening_key($1));

-- name: lock_inputs
-- The issue's lock, and with it those of all other issues that this transaction has facts of already
-- (its sub-issues lost their parent), in the order of their keys: the flush would otherwise take
-- them behind it, out of order. Index: capture_buffer_xact_idx.
SELECT pg_advisory_xact_lock(t.key)
  FROM (SELECT wakeful_issue_key($1) AS key
        UNION
        SELECT wakeful_issue_key(b.issue_id) FROM capture_buffer b
         WHERE b.xact = pg_current_xact_id()
         ORDER BY key) t;

-- name: delete_receipts
DELETE FROM issue_wakeup_receipt x WHERE x.wakeup_id = ANY ($1);

-- name: delete_rules
DELETE FROM issue_wakeup r WHERE r.id = ANY ($1);
