-- name: load_group
-- What a group of issues has to dispatch, as one row a rule, under locks that were free at once.
-- Locks: see migrations/0006; everything the decision rests on, until COMMIT.
SELECT d.missed_issue_id, (d.rule).*, d.issue_exists, d.issue_closed, d.issue_priority, d.agent_archived,
       d.runtime_id, d.may_invoke, d.own_run, d.receipts, d.now
  FROM dispatch_load_group($1, $2, $3) d;

-- name: load_alone
-- The same for one issue, waiting in lock order under the transaction's lock_timeout.
SELECT d.missed_issue_id, (d.rule).*, d.issue_exists, d.issue_closed, d.issue_priority, d.agent_archived,
       d.runtime_id, d.may_invoke, d.own_run, d.receipts, d.now
  FROM dispatch_load_alone($1, $2, $3) d;

-- name: apply
-- Everything that a group of decisions ($1, an array) brings about; returns the rules that were carried
-- out, with their run if there is one. Locks and plans: see migrations/0022.
SELECT a.rule_id, a.run_id, a.runtime_id, a.enabled, a.next_fire_at, a.now
  FROM dispatch_apply($1::jsonb) a;

-- name: record_error
-- W-076: the error of one rule, in its own short transaction; a locked rule keeps its old text.
UPDATE issue_wakeup r SET last_error = $2, updated_at = wakeful_now()
 WHERE r.id = (SELECT k.id FROM issue_wakeup k WHERE k.id = $1 FOR NO KEY UPDATE SKIP LOCKED);

-- name: record_contention
-- W-071: what was left to the sweep says so, on every rule of the issue that waits and is not held
-- at this moment. Index: issue_wakeup_issue_idx.
UPDATE issue_wakeup r SET last_error = $2, updated_at = wakeful_now()
 WHERE r.id = ANY (ARRAY(
   SELECT k.id FROM issue_wakeup k
    WHERE k.issue_id = $1
      AND ((k.enabled AND k.next_fire_at <= (SELECT wakeful_now()))
           OR EXISTS (SELECT FROM issue_wakeup_receipt x
                       WHERE x.wakeup_id = k.id AND x.processed_at IS NULL
                         AND x.task_id IS NULL))
      FOR NO KEY UPDATE SKIP LOCKED));

-- name: sweep
-- W-075: issues of rules that have something to do, by partial indexes alone, longest untouched
-- first; every examined rule is touched, so that a blocked set cannot starve the others. A rule that
-- somebody holds right now is not examined: it would take the place of a free one. The ids come as
-- an array: a join is planned by statistics, which are wrong just after a long outage.
WITH candidate AS MATERIALIZED (
  SELECT k.id, k.issue_id, k.updated_at
    FROM issue_wakeup k
   WHERE k.id = ANY (ARRAY(
     SELECT r.id FROM issue_wakeup r
      WHERE r.enabled AND r.next_fire_at <= (SELECT wakeful_now())
     UNION
     SELECT x.wakeup_id FROM issue_wakeup_receipt x
      WHERE x.processed_at IS NULL AND x.task_id IS NULL))
   ORDER BY k.updated_at, k.id
   LIMIT $1
     FOR NO KEY UPDATE SKIP LOCKED
), touched AS (
  UPDATE issue_wakeup r SET updated_at = wakeful_now() FROM candidate c WHERE r.id = c.id
)
SELECT c.issue_id, count(*) AS rules
  FROM candidate c GROUP BY c.issue_id ORDER BY min(c.updated_at);

-- name: timers
-- One reading of the database's clock with what follows from it: the issues whose timers have come,
-- earliest first, since when, and the earliest time that is still to come. Index:
-- issue_wakeup_due_idx.
WITH t AS MATERIALIZED (SELECT wakeful_now() AS now), d AS MATERIALIZED (
  SELECT r.issue_id, min(r.next_fire_at) AS due FROM issue_wakeup r
   WHERE r.enabled AND r.next_fire_at <= (SELECT t.now FROM t)
   GROUP BY r.issue_id
   ORDER BY min(r.next_fire_at), r.issue_id
   LIMIT $1
)
SELECT (SELECT t.now FROM t) AS now,
       ARRAY(SELECT d.issue_id FROM d ORDER BY d.due, d.issue_id) AS issue_ids,
       ARRAY(SELECT d.due FROM d ORDER BY d.due, d.issue_id) AS since,
       (SELECT min(r.next_fire_at) FROM issue_wakeup r
         WHERE r.enabled AND r.next_fire_at > (SELECT t.now FROM t)) AS due;
