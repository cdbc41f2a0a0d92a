-- Purpose: several engines share one database: who is there, who does the planned work, and what
-- they tell each other (W-071, W-074, W-082, W-083).
-- Rollback refuses when: never, nothing is stored here that outlives its use.

-- The engines that live: each holds this lock, shared, on the connection that listens. The server
-- ends the session of a process that has died, so nobody has to send signs of life, and an engine
-- with nothing to do runs no SQL and is known all the same. 2 keeps the lock apart from the
-- listening locks of issues, whose first number is 1.
CREATE VIEW live_engine AS
  SELECT l.pid AS backend, a.backend_start AS listening_since, a.client_addr, a.client_port
    FROM pg_locks l
    JOIN pg_stat_activity a ON a.pid = l.pid
   WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = 2 AND l.objid = 0 AND l.granted
     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());

-- W-082: one row for each planned time of a job: who took it, and what came of it. `stale_after`
-- moves on with every heartbeat; behind it another engine may take the plan, with a new token.
CREATE TABLE sys_cron_executions (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  job_name text NOT NULL,
  scope_kind text NOT NULL DEFAULT 'global',
  scope_id text NOT NULL DEFAULT '',
  plan_time timestamptz NOT NULL,
  status text NOT NULL DEFAULT 'RUNNING' CHECK (status IN ('RUNNING', 'SUCCESS', 'FAILED')),
  attempt integer NOT NULL DEFAULT 1,
  max_attempts integer NOT NULL DEFAULT 1,
  next_retry_at timestamptz,
  runner_id text NOT NULL,
  lease_token uuid NOT NULL DEFAULT gen_random_uuid(),
  heartbeat_at timestamptz NOT NULL DEFAULT wakeful_now(),
  stale_after timestamptz NOT NULL,
  started_at timestamptz NOT NULL DEFAULT wakeful_now(),
  finished_at timestamptz,
  duration_ms bigint,
  rows_affected bigint,
  result jsonb CHECK (octet_length(result::text) <= 16384),
  error_code text,
  error_msg text CHECK (char_length(error_msg) <= 4000),
  UNIQUE (job_name, scope_kind, scope_id, plan_time)
);
CREATE INDEX sys_cron_executions_running_idx ON sys_cron_executions (stale_after)
  WHERE status = 'RUNNING';

-- W-068: the oldest processed receipts, for retention. A receipt enters it when it is consumed, so
-- writers of facts do not pay for it.
CREATE INDEX issue_wakeup_receipt_processed_idx ON issue_wakeup_receipt (processed_at)
  WHERE processed_at IS NOT NULL;
-- W-071: what a run carries and has not consumed yet.
CREATE INDEX issue_wakeup_receipt_reserved_idx ON issue_wakeup_receipt (task_id)
  WHERE processed_at IS NULL AND task_id IS NOT NULL;

-- The issues of this transaction whose inputs may go on. Only an engine asks, as it commits.
CREATE FUNCTION wakeful_freed() RETURNS uuid[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(wakeful_setting('wakeful.freed')::uuid[], '{}')
$$;

-- W-071: a run left the queue, or ended: what its issue has waiting can go on. An engine gets the
-- issue back from `wakeful_freed` with its last statement, everybody else tells the engines. An
-- issue without pending receipts costs a look into the index of its rules. Rules that somebody
-- switched off have nothing pending, however many there were.
CREATE FUNCTION wake_waiting_inputs() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  IF NOT EXISTS (
       SELECT FROM issue_wakeup_receipt x WHERE x.task_id = NEW.id AND x.processed_at IS NULL)
     AND NOT EXISTS (
       SELECT FROM issue_wakeup r
        WHERE r.issue_id = NEW.issue_id AND r.disabled_at IS NULL
          AND EXISTS (SELECT FROM issue_wakeup_receipt x
                       WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL))
  THEN
    RETURN NULL;
  END IF;
  IF wakeful_setting('wakeful.hinted') IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify('wakeful_wakeups', NEW.issue_id::text);
  ELSIF NEW.issue_id <> ALL (wakeful_freed()) THEN
    PERFORM set_config('wakeful.freed', (wakeful_freed() || NEW.issue_id)::text, true);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER wake_waiting_inputs AFTER UPDATE OF status ON agent_task_queue
  FOR EACH ROW WHEN (
    OLD.status IS DISTINCT FROM NEW.status AND NEW.issue_id IS NOT NULL
    AND (OLD.status IN ('queued', 'dispatched')
         OR NEW.status IN ('completed', 'failed', 'cancelled')))
  EXECUTE FUNCTION wake_waiting_inputs();

-- W-119, W-083: a due time is announced by engines too, so that whichever of them lives then rings;
-- with its instant, for which the others need no look into the database.
CREATE OR REPLACE FUNCTION notify_timer() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('wakeful_timers', CASE WHEN wakeful_setting('wakeful.hinted') = 'on'
                                           THEN wakeful_time(NEW.next_fire_at) ELSE '' END);
  RETURN NULL;
END $$;
