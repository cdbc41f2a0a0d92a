-- Recovery: what time does to runs (W-097, W-100, W-105, W-109). One transaction: rules, then issues
-- (KEY SHARE), leases and runs, and what capture takes on an issue. None of them is waited for, so the
-- order harms nobody; what somebody holds is looked at again soon. $1 is always the instant of `now`, by which everything is judged.
-- What belongs to one run is looked up by scalar subqueries: a join may be planned as a walk of the
-- whole other index for each run, by statistics of a time when it was empty.

-- name: now
-- The instant of this call. Pins its plans to look-ups by index: one made for an empty queue reads
-- all of a full one.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
       set_config('enable_bitmapscan', 'off', true), wakeful_now() AS now;

-- name: mark_waiting
-- W-100: rules whose run was claimed $3 seconds ago, has not started and has no live lease say so
-- ($2); at most $4. Locks: the rules. Index: agent_task_claimed_idx.
UPDATE issue_wakeup r
   SET last_error = $2, updated_at = wakeful_now()
 WHERE r.id IN (
   SELECT k.id
     FROM agent_task_queue q
     JOIN issue_wakeup k ON k.id = q.wakeup_id
    WHERE q.status = 'dispatched'
      AND q.dispatched_at <= $1::timestamptz - make_interval(secs => $3)
      AND (SELECT l.expires_at FROM run_lease l WHERE l.task_id = q.id AND l.expires_at > $1) IS NULL
      AND k.disabled_at IS NULL AND k.last_error IS DISTINCT FROM $2
    ORDER BY q.dispatched_at
    LIMIT $4
      FOR NO KEY UPDATE OF k SKIP LOCKED);

-- name: unmark_recovered
-- W-253: rules that say so although their claim was recovered meanwhile say nothing any more.
-- Locks: the rules. Index: issue_wakeup_error_idx, agent_task_wakeup_active_idx.
UPDATE issue_wakeup r
   SET last_error = NULL, updated_at = wakeful_now()
 WHERE r.id IN (
   SELECT k.id
     FROM issue_wakeup k
    WHERE k.last_error IS NOT NULL AND k.disabled_at IS NULL AND k.last_error = $2
      AND NOT EXISTS (
        SELECT FROM agent_task_queue q
         WHERE q.wakeup_id = k.id AND q.status = 'dispatched'
           AND q.dispatched_at <= $1::timestamptz - make_interval(secs => $3)
           AND NOT EXISTS (SELECT FROM run_lease l WHERE l.task_id = q.id AND l.expires_at > $1))
    LIMIT $4
      FOR NO KEY UPDATE OF k SKIP LOCKED);

-- name: lost
-- W-097: claims that were not started within $2 seconds and have no live lease, on a runtime that is
-- online ($4 seconds) or has been silent for longer than the grace ($5); and runs that have worked
-- for longer than $3 seconds on a runtime that has been silent for so long. At most $6.
-- Locks: their agents, rules and issues, if they are there, so that a retry has them (W-190); leases
-- that are over, so that a renewal comes before, or after; the runs.
-- Index: agent_task_claimed_idx, agent_task_running_idx.
WITH lost AS MATERIALIZED (
  SELECT c.id, c.agent_id, c.issue_id, c.wakeup_id, c.has_agent, c.has_issue, c.has_rule,
         c.leased_until IS NOT NULL AS has_lease
    FROM (
      SELECT q.id, q.agent_id, q.issue_id, q.wakeup_id,
             (SELECT a.id FROM agent a WHERE a.id = q.agent_id) IS NOT NULL AS has_agent,
             (SELECT r.id FROM issue_wakeup r WHERE r.id = q.wakeup_id) IS NOT NULL AS has_rule,
             (SELECT i.id FROM issue i WHERE i.id = q.issue_id) IS NOT NULL AS has_issue,
             (SELECT l.expires_at FROM run_lease l WHERE l.task_id = q.id) AS leased_until,
             (SELECT t.last_seen_at FROM agent_runtime t WHERE t.id = q.runtime_id) AS seen_at
        FROM agent_task_queue q
       WHERE q.status IN ('dispatched', 'waiting_local_directory')
         AND q.dispatched_at <= $1::timestamptz - make_interval(secs => $2)
      OFFSET 0) c
   WHERE (c.leased_until IS NULL OR c.leased_until <= $1)
     AND (c.seen_at >= $1 - make_interval(secs => $4)
          OR coalesce(c.seen_at, '-infinity') <= $1 - make_interval(secs => $5))
  UNION ALL
  SELECT q.id, q.agent_id, q.issue_id, q.wakeup_id,
         (SELECT a.id FROM agent a WHERE a.id = q.agent_id) IS NOT NULL,
         (SELECT i.id FROM issue i WHERE i.id = q.issue_id) IS NOT NULL,
         (SELECT r.id FROM issue_wakeup r WHERE r.id = q.wakeup_id) IS NOT NULL, false
    FROM agent_task_queue q
   WHERE q.status = 'running' AND q.started_at <= $1 - make_interval(secs => $3)
     AND coalesce((SELECT t.last_seen_at FROM agent_runtime t WHERE t.id = q.runtime_id),
                  '-infinity') <= $1 - make_interval(secs => $5)
   LIMIT $6
), owner AS MATERIALIZED (
  SELECT a.id FROM agent a WHERE a.id = ANY (ARRAY(SELECT c.agent_id FROM lost c))
     FOR KEY SHARE SKIP LOCKED
), ruled AS MATERIALIZED (
  SELECT r.id FROM issue_wakeup r WHERE r.id = ANY (ARRAY(SELECT c.wakeup_id FROM lost c))
     FOR NO KEY UPDATE SKIP LOCKED
), kept AS MATERIALIZED (
  SELECT i.id FROM issue i WHERE i.id = ANY (ARRAY(SELECT c.issue_id FROM lost c))
     FOR KEY SHARE SKIP LOCKED
), over AS MATERIALIZED (
  SELECT l.task_id FROM run_lease l
   WHERE l.task_id = ANY (ARRAY(SELECT c.id FROM lost c)) AND l.expires_at <= $1
     FOR NO KEY UPDATE SKIP LOCKED
)
SELECT q.id, q.issue_id, q.wakeup_id, q.runtime_id
  FROM lost c
  JOIN agent_task_queue q ON q.id = c.id
 WHERE (NOT c.has_issue OR c.issue_id IN (SELECT k.id FROM kept k))
   AND (NOT c.has_agent OR c.agent_id IN (SELECT a.id FROM owner a))
   AND (NOT c.has_rule OR c.wakeup_id IN (SELECT r.id FROM ruled r))
   AND (NOT c.has_lease OR c.id IN (SELECT o.task_id FROM over o))
   AND (q.status = 'running' AND q.started_at <= $1 - make_interval(secs => $3)
        OR q.status IN ('dispatched', 'waiting_local_directory')
           AND q.dispatched_at <= $1 - make_interval(secs => $2))
   AND wakeup_try_listening(q.issue_id)
 ORDER BY q.id
   FOR NO KEY UPDATE OF q SKIP LOCKED;

-- name: expired
-- W-109: ordinary runs that have been queued for $2 seconds, at most $3, those that have waited
-- longest first. What was lost with an offline runtime goes on waiting for it.
-- Locks: these runs. Index: agent_task_expiry_idx.
SELECT q.id
  FROM agent_task_queue q
 WHERE q.status = 'queued' AND q.wakeup_id IS NULL
   AND coalesce(q.queued_at, q.created_at) <= $1::timestamptz - make_interval(secs => $2)
   AND (SELECT p.failure_reason FROM agent_task_queue p WHERE p.id = q.retry_of_task_id)
       IS DISTINCT FROM 'runtime_offline'
   AND wakeup_try_listening(q.issue_id)
 ORDER BY coalesce(q.queued_at, q.created_at)
 LIMIT $3
   FOR NO KEY UPDATE OF q SKIP LOCKED;

-- name: cancel_superseded
-- W-110: deferred retries whose time has come while a later run of their scope waits already.
-- Locks: these runs. Index: agent_task_due_idx, agent_task_pending_idx.
UPDATE agent_task_queue q
   SET status = 'cancelled', completed_at = wakeful_now(), error = $2
 WHERE q.id IN (
   SELECT d.id FROM agent_task_queue d
    WHERE d.status = 'deferred' AND d.fire_at <= $1::timestamptz AND d.retry_of_task_id IS NOT NULL
      AND (SELECT p.id FROM agent_task_queue p
            WHERE p.issue_id = d.issue_id AND p.agent_id = d.agent_id
              AND coalesce(p.comment_thread_id, '00000000-0000-0000-0000-000000000000')
                = coalesce(d.comment_thread_id, '00000000-0000-0000-0000-000000000000')
              AND p.status IN ('queued', 'dispatched')) IS NOT NULL
      AND wakeup_try_listening(d.issue_id)
    LIMIT $3
      FOR NO KEY UPDATE SKIP LOCKED);

-- name: due
-- W-097: deferred runs whose time has come, at most $3, whose slot is free and whose agent has a
-- runtime that is online ($2 seconds). Index: agent_task_due_idx, agent_task_pending_idx.
SELECT d.id
  FROM agent_task_queue d
 WHERE d.status = 'deferred' AND d.fire_at <= $1::timestamptz
   AND (SELECT t.last_seen_at FROM agent a JOIN agent_runtime t ON t.id = a.runtime_id
         WHERE a.id = d.agent_id AND a.archived_at IS NULL) >= $1 - make_interval(secs => $2)
   AND (SELECT p.id FROM agent_task_queue p
         WHERE p.issue_id = d.issue_id AND p.agent_id = d.agent_id
           AND coalesce(p.comment_thread_id, '00000000-0000-0000-0000-000000000000')
             = coalesce(d.comment_thread_id, '00000000-0000-0000-0000-000000000000')
           AND p.status IN ('queued', 'dispatched')) IS NULL
 ORDER BY d.fire_at
 LIMIT $3;

-- name: next_due
-- When any of the above has something to do again; in the past where a bound or a lock left something
-- behind. A claim or run of a runtime that is online is looked at when its own time is over, else
-- when the runtime's is, too. $2: the text of a marked rule; then the seconds until a claim is marked,
-- is lost, until work is lost, until a runtime is offline, until it is gone, until the queue expires.
-- Index: as above; claims and running runs are as many as agents may work at once.
WITH claimed AS MATERIALIZED (
  SELECT q.status, q.dispatched_at, q.wakeup_id,
         (SELECT l.expires_at FROM run_lease l WHERE l.task_id = q.id) AS leased_until,
         (SELECT t.last_seen_at FROM agent_runtime t WHERE t.id = q.runtime_id) AS seen_at
    FROM agent_task_queue q
   WHERE q.status IN ('dispatched', 'waiting_local_directory')
)
SELECT least(
  (SELECT min(q.fire_at) FROM agent_task_queue q WHERE q.status = 'deferred' AND q.fire_at > $1),
  (SELECT min(greatest(c.dispatched_at + make_interval(secs => $3), c.leased_until))
     FROM claimed c
    WHERE c.status = 'dispatched'
      AND (SELECT r.last_error IS DISTINCT FROM $2 FROM issue_wakeup r
            WHERE r.id = c.wakeup_id AND r.disabled_at IS NULL)),
  (SELECT min(CASE WHEN c.seen_at >= $1::timestamptz - make_interval(secs => $6) THEN c.at
                   ELSE greatest(c.at, c.seen_at + make_interval(secs => $7)) END)
     FROM (SELECT greatest(c.dispatched_at + make_interval(secs => $4), c.leased_until) AS at,
                  c.seen_at
             FROM claimed c) c),
  (SELECT min(greatest(q.started_at + make_interval(secs => $5),
                       (SELECT t.last_seen_at FROM agent_runtime t WHERE t.id = q.runtime_id)
                         + make_interval(secs => $7)))
     FROM agent_task_queue q
    WHERE q.status = 'running'),
  (SELECT coalesce(q.queued_at, q.created_at) + make_interval(secs => $8)
     FROM agent_task_queue q
    WHERE q.status = 'queued' AND q.wakeup_id IS NULL
      AND (SELECT p.failure_reason FROM agent_task_queue p WHERE p.id = q.retry_of_task_id)
          IS DISTINCT FROM 'runtime_offline'
    ORDER BY coalesce(q.queued_at, q.created_at)
    LIMIT 1));
