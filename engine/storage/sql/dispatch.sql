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
-- Everything that a group of decisions brings about, for each rule as a whole or not at all: where
-- another pending run stands in the way of the new one, nothing of that rule is touched (W-081).
-- Returns the rules that were carried out, with their run if there is one.
-- Locks: all taken by the load. Index: primary keys; agent_task_wakeup_active_idx for cancelling.
WITH d AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS d (
    rule_id uuid, revision bigint, workspace_id uuid, issue_id uuid, enabled boolean,
    disable boolean, next_fire_at timestamptz, last_error text, cancel_unstarted text,
    delete_rule boolean, consume bigint[], consume_ids uuid[], discard bigint[],
    discard_ids uuid[], due_key text, due jsonb, due_consumed boolean, start jsonb,
    refresh jsonb, activities jsonb)
), started AS (
  INSERT INTO agent_task_queue (
    agent_id, issue_id, runtime_id, priority, trigger_comment_id, trigger_summary, handoff_note,
    context, originator_user_id, accountable_user_id, originator_source, trigger_evidence_kind,
    trigger_evidence_ref_id, delegated_from_task_id)
  SELECT s.agent_id, d.issue_id, s.runtime_id, priority_rank(s.priority), s.trigger_comment_id,
         s.trigger_summary, s.handoff_note, s.context, s.originator_user_id, s.originator_user_id,
         'trigger_owner', 'issue_wakeup', d.rule_id, s.delegated_from_task_id
    FROM d, jsonb_to_record(d.start) AS s (
           agent_id uuid, runtime_id uuid, priority text, trigger_comment_id uuid,
           trigger_summary text, handoff_note text, context jsonb, originator_user_id uuid,
           delegated_from_task_id uuid)
   WHERE d.start IS NOT NULL
   ORDER BY d.rule_id
  ON CONFLICT DO NOTHING
  RETURNING id, wakeup_id AS rule_id, runtime_id
), refreshed AS (
  UPDATE agent_task_queue q
     SET handoff_note = d.refresh ->> 'handoff_note', context = d.refresh -> 'context'
    FROM d
   WHERE q.id = (d.refresh ->> 'run_id')::uuid AND q.status = 'queued'
  RETURNING q.id, d.rule_id, q.runtime_id
), settled AS MATERIALIZED (
  SELECT d.*, coalesce(s.id, r.id) AS run_id, coalesce(s.runtime_id, r.runtime_id) AS runtime_id
    FROM d
    LEFT JOIN started s USING (rule_id)
    LEFT JOIN refreshed r USING (rule_id)
   WHERE (d.start IS NULL OR s.id IS NOT NULL) AND (d.refresh IS NULL OR r.id IS NOT NULL)
), consumed AS (
  UPDATE issue_wakeup_receipt x
     SET processed_at = wakeful_now(), task_id = t.run_id
    FROM settled t, unnest(t.consume, t.consume_ids) AS c (seq, id)
   WHERE x.seq = c.seq AND x.id = c.id AND x.processed_at IS NULL
), discarded AS (
  UPDATE issue_wakeup_receipt x
     SET processed_at = wakeful_now(), task_id = NULL
    FROM settled t, unnest(t.discard, t.discard_ids) AS c (seq, id)
   WHERE x.seq = c.seq AND x.id = c.id AND x.processed_at IS NULL AND NOT t.delete_rule
     AND NOT t.disable
), emptied AS (
  UPDATE issue_wakeup_receipt x
     SET processed_at = wakeful_now(), task_id = NULL
    FROM settled t
   WHERE t.disable AND x.wakeup_id = t.rule_id AND x.processed_at IS NULL
), due AS (
  INSERT INTO issue_wakeup_receipt (
    wakeup_id, revision, event_key, event_type, payload, task_id, processed_at)
  SELECT t.rule_id, t.revision, t.due_key, 'time.due', t.due,
         CASE WHEN t.due_consumed THEN t.run_id END,
         CASE WHEN t.due_consumed THEN wakeful_now() END
    FROM settled t
   WHERE t.due_key IS NOT NULL
  ON CONFLICT (wakeup_id, revision, event_key) DO NOTHING
), cancelled AS (
  UPDATE agent_task_queue q
     SET status = 'cancelled', completed_at = wakeful_now(), error = t.cancel_unstarted
    FROM settled t
   WHERE t.cancel_unstarted IS NOT NULL AND q.wakeup_id = t.rule_id
     AND q.status IN ('queued', 'deferred') AND q.started_at IS NULL
), told AS (
  INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
  SELECT t.workspace_id, t.issue_id, a.actor_type, a.actor_id, a.action,
         a.details || jsonb_build_object('task_id', t.run_id)
    FROM settled t, jsonb_to_recordset(t.activities) AS a (
           action text, actor_type text, actor_id uuid, details jsonb)
), removed AS (
  DELETE FROM issue_wakeup_receipt x USING settled t
   WHERE t.delete_rule AND x.wakeup_id = t.rule_id
), gone AS (
  DELETE FROM issue_wakeup r USING settled t WHERE t.delete_rule AND r.id = t.rule_id
), moved AS (
  UPDATE issue_wakeup r
     SET enabled = t.enabled,
         disabled_at = CASE WHEN t.disable THEN coalesce(r.disabled_at, wakeful_now())
                            ELSE r.disabled_at END,
         next_fire_at = t.next_fire_at,
         last_error = t.last_error,
         last_task_id = coalesce(t.run_id, r.last_task_id),
         updated_at = wakeful_now()
    FROM settled t
   WHERE r.id = t.rule_id AND NOT t.delete_rule
)
SELECT t.rule_id, t.run_id, t.runtime_id, t.enabled, t.next_fire_at, wakeful_now() AS now
  FROM settled t;

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
