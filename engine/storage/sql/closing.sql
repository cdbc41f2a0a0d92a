-- What happens to the rules of an issue that is closed or deleted (W-186, W-189).
-- Order of calls: lock_rules, lock_runs, then the change of the issue itself, lock_receipts, and
-- what takes no further row lock.

-- name: lock_rules
-- Locks: rules NO KEY UPDATE, after the issue. Index: issue_wakeup_issue_idx.
SELECT r.id FROM issue_wakeup r WHERE r.issue_id = $1 ORDER BY r.id FOR NO KEY UPDATE;

-- name: lock_runs
-- Unstarted runs, with $2 only those of rules. Locks: runs NO KEY UPDATE, after the rules.
-- Index: agent_task_issue_idx.
SELECT q.id FROM agent_task_queue q
 WHERE q.issue_id = $1 AND q.status IN ('queued', 'deferred') AND q.started_at IS NULL
   AND (q.wakeup_id IS NOT NULL OR NOT $2)
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

-- name: lock_receipts
-- Listening lock, then the issue's own: nobody takes a row lock after it.
SELECT pg_advisory_xact_lock_shared(1, wakeful_listening_key($1)),
       pg_advisory_xact_lock(wakeful_issue_key($1));

-- name: has_other_rules
-- W-186: whether a rule that is not off came in between the two halves. Read under the issue lock:
-- whoever saves a rule holds it, too, and reads the status under it.
SELECT EXISTS (SELECT FROM issue_wakeup r
                WHERE r.issue_id = $1 AND r.disabled_at IS NULL AND r.id <> ALL ($2));

-- name: switch_off
-- W-186: rules ($1) off, whatever state they are in, their pending receipts discarded, reserved
-- ones included. Those that were off already keep saying why.
WITH off AS (
  UPDATE issue_wakeup r
     SET enabled = false, disabled_at = wakeful_now(), last_error = $2, updated_at = wakeful_now()
   WHERE r.id = ANY ($1) AND r.disabled_at IS NULL
)
UPDATE issue_wakeup_receipt x SET processed_at = wakeful_now(), task_id = NULL
 WHERE x.wakeup_id = ANY ($1) AND x.processed_at IS NULL;

-- name: delete_receipts
DELETE FROM issue_wakeup_receipt x WHERE x.wakeup_id = ANY ($1);

-- name: delete_rules
DELETE FROM issue_wakeup r WHERE r.id = ANY ($1);
