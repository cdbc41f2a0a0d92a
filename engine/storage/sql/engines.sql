-- Several engines on one database: who lives, and who does the planned work (W-082, W-083).

-- name: arrive
-- Run by the connection that listens, once it does: from now on this engine lives, until the session
-- ends. Locks: the engines' lock, shared, for the whole session.
SELECT pg_advisory_lock_shared(2, 0), pg_notify('wakeful_engines', 'here');

-- name: leave
-- An engine that stops says so; of one that dies the others find out by what it leaves undone.
SELECT pg_notify('wakeful_engines', 'gone ' || $1::text);

-- name: live
-- The listening connections of the engines that live.
SELECT e.backend FROM live_engine e;

-- name: busy
-- In a transaction of an engine, at most every 30 s: the others do not pause meanwhile, so that they
-- find what it leaves behind if it dies (W-074).
SELECT pg_notify('wakeful_engines', 'busy');

-- name: waiting
-- Which of these issues still have an input that nobody took: looked at by the engines that left it
-- to another one. Index: issue_wakeup_issue_idx, issue_wakeup_receipt_free_idx.
SELECT wanted.id
  FROM unnest($1::uuid[]) AS wanted (id)
 WHERE EXISTS (
   SELECT FROM issue_wakeup r
    WHERE r.issue_id = wanted.id
      AND EXISTS (SELECT FROM issue_wakeup_receipt x
                   WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL));

-- name: take_plan
-- W-082: takes the latest plan of these jobs, $2 seconds apart and never older than an hour, for the
-- runner $3: of each job that nobody has taken, or whose holder has been silent for so long that its
-- lease is stale. Returns the plan, when the next one begins, and the leases that were got.
-- Locks: the rows of the plan; whoever comes second waits for the first for the length of this
-- statement. Index: the unique one, and sys_cron_executions_running_idx for what is left to close.
WITH t AS MATERIALIZED (SELECT wakeful_now() AS now), plan AS MATERIALIZED (
  SELECT t.now, date_bin(make_interval(secs => $2), t.now, 'epoch') AS plan_time FROM t
), closed AS (
  UPDATE sys_cron_executions e
     SET status = 'FAILED', finished_at = plan.now, error_code = 'lease_expired',
         error_msg = 'its engine went away'
    FROM plan
   WHERE e.status = 'RUNNING' AND e.stale_after < plan.now AND e.job_name = ANY ($1)
     AND e.plan_time < plan.plan_time
), taken AS (
  INSERT INTO sys_cron_executions AS e (job_name, plan_time, runner_id, stale_after)
  SELECT job.name, plan.plan_time, $3, plan.now + make_interval(secs => $4)
    FROM plan, unnest($1::text[]) AS job (name)
   ORDER BY job.name
  ON CONFLICT (job_name, scope_kind, scope_id, plan_time) DO UPDATE
    SET runner_id = EXCLUDED.runner_id, lease_token = gen_random_uuid(),
        heartbeat_at = wakeful_now(), stale_after = EXCLUDED.stale_after,
        started_at = wakeful_now()
    WHERE e.status = 'RUNNING' AND e.stale_after < wakeful_now()
  RETURNING e.job_name, e.id, e.lease_token
)
SELECT plan.plan_time, plan.plan_time + make_interval(secs => $2) AS next_plan, t.job_name, t.id,
       t.lease_token
  FROM plan LEFT JOIN taken t ON true;

-- name: heartbeat
-- The holder of a lease lives; no row when it has lost the lease.
UPDATE sys_cron_executions e
   SET heartbeat_at = wakeful_now(), stale_after = wakeful_now() + make_interval(secs => $3)
 WHERE e.id = $1 AND e.lease_token = $2 AND e.status = 'RUNNING';

-- name: finish
-- What came of a plan; nothing when its holder has lost the lease.
UPDATE sys_cron_executions e
   SET status = CASE WHEN $5::text IS NULL THEN 'SUCCESS' ELSE 'FAILED' END,
       finished_at = wakeful_now(), rows_affected = $3, result = $4::jsonb, error_code = $5,
       error_msg = left($6, 4000), next_retry_at = NULL,
       duration_ms = greatest(0, 1000 * extract(epoch FROM wakeful_now() - e.started_at))
 WHERE e.id = $1 AND e.lease_token = $2 AND e.status = 'RUNNING';

-- name: announce_plan
-- A plan was carried out: the others pause with this knowledge of what comes next (W-074).
SELECT pg_notify('wakeful_engines', 'plan ' || $1::text);

-- name: retain
-- W-068: processed receipts of more than seven days ago, a fixed batch that was free to take; a
-- pending receipt has no `processed_at`. No issue's lock: a processed receipt never changes again.
-- Index: issue_wakeup_receipt_processed_idx, then the primary key.
WITH batch AS MATERIALIZED (
  SELECT x.seq FROM issue_wakeup_receipt x
   WHERE x.processed_at < (SELECT wakeful_now()) - make_interval(days => $2)
   ORDER BY x.processed_at
   LIMIT $1
     FOR UPDATE SKIP LOCKED
)
DELETE FROM issue_wakeup_receipt x WHERE x.seq = ANY (ARRAY(SELECT b.seq FROM batch b));

-- name: forget_plans
-- Rows of plans are kept for a day. Index: the unique one.
DELETE FROM sys_cron_executions e
 WHERE e.job_name = ANY ($1) AND e.scope_kind = 'global' AND e.scope_id = ''
   AND e.plan_time < (SELECT wakeful_now()) - interval '1 day';

-- name: next_retention
-- When the oldest processed receipt comes of age ($1 days), the oldest idempotency key ($2 seconds) or
-- the file that has hung on nothing for longest ($3 seconds).
-- Index: issue_wakeup_receipt_processed_idx, idempotency_key_created_idx, attachment_unbound_idx.
SELECT least((SELECT min(x.processed_at) + make_interval(days => $1)
                FROM issue_wakeup_receipt x WHERE x.processed_at IS NOT NULL),
             (SELECT min(k.created_at) + make_interval(secs => $2) FROM idempotency_key k),
             (SELECT min(a.unbound_at) + make_interval(secs => $3)
                FROM attachment a WHERE a.unbound_at IS NOT NULL));
