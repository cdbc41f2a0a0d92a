-- Purpose: what a dispatch writes is found by keys, whatever the statistics say.
-- Rollback refuses when: never, nothing is stored here.

-- Everything that a group of decisions brings about, for each rule as a whole or not at all: where
-- another pending run stands in the way of the new one, nothing of that rule is touched (W-081).
-- Returns the rules that were carried out, with their run if there is one.
-- One statement, so that no part sees what another has written. Each part that changes rows names
-- their keys in an array: with a join the planner may walk all queued runs, or all rules, for each
-- of a group, as long as the statistics call the table small. Locks: all taken by the load.
CREATE FUNCTION dispatch_apply(effects jsonb)
RETURNS TABLE (
  rule_id uuid, run_id uuid, runtime_id uuid, enabled boolean, next_fire_at timestamptz,
  now timestamptz)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH d AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(effects) AS d (
      rule_id uuid, revision bigint, workspace_id uuid, issue_id uuid, enabled boolean,
      disable boolean, next_fire_at timestamptz, last_error text, cancel_unstarted text,
      delete_rule boolean, consume bigint[], consume_ids uuid[], discard bigint[],
      discard_ids uuid[], due_key text, due jsonb, due_consumed boolean, start jsonb,
      refresh_run_id uuid, refresh jsonb, activities jsonb)
  ), started AS (
    INSERT INTO agent_task_queue (
      agent_id, issue_id, runtime_id, priority, trigger_comment_id, trigger_summary, handoff_note,
      context, originator_user_id, accountable_user_id, originator_source, trigger_evidence_kind,
      trigger_evidence_ref_id, delegated_from_task_id)
    SELECT s.agent_id, d.issue_id, s.runtime_id, priority_rank(s.priority), s.trigger_comment_id,
           s.trigger_summary, s.handoff_note, s.context, s.originator_user_id,
           s.originator_user_id, 'trigger_owner', 'issue_wakeup', d.rule_id,
           s.delegated_from_task_id
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
     WHERE q.id = ANY (ARRAY(SELECT o.refresh_run_id FROM d o WHERE o.refresh IS NOT NULL))
       AND q.id = d.refresh_run_id AND q.status = 'queued'
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
      FROM settled t
     WHERE x.seq = ANY (ARRAY(SELECT unnest(o.consume) FROM settled o))
       AND x.id = ANY (ARRAY(SELECT unnest(o.consume_ids) FROM settled o))
       AND x.wakeup_id = t.rule_id AND x.processed_at IS NULL
  ), discarded AS (
    UPDATE issue_wakeup_receipt x
       SET processed_at = wakeful_now(), task_id = NULL
     WHERE x.seq = ANY (ARRAY(
             SELECT unnest(o.discard) FROM settled o WHERE NOT o.delete_rule AND NOT o.disable))
       AND x.id = ANY (ARRAY(SELECT unnest(o.discard_ids) FROM settled o))
       AND x.processed_at IS NULL
  ), emptied AS (
    UPDATE issue_wakeup_receipt x
       SET processed_at = wakeful_now(), task_id = NULL
     WHERE x.wakeup_id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE o.disable))
       AND x.processed_at IS NULL
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
     WHERE q.wakeup_id = ANY (ARRAY(
             SELECT o.rule_id FROM settled o WHERE o.cancel_unstarted IS NOT NULL))
       AND q.wakeup_id = t.rule_id
       AND q.status IN ('queued', 'deferred') AND q.started_at IS NULL
  ), told AS (
    INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
    SELECT t.workspace_id, t.issue_id, a.actor_type, a.actor_id, a.action,
           a.details || jsonb_build_object('task_id', t.run_id)
      FROM settled t, jsonb_to_recordset(t.activities) AS a (
             action text, actor_type text, actor_id uuid, details jsonb)
  ), removed AS (
    DELETE FROM issue_wakeup_receipt x
     WHERE x.wakeup_id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE o.delete_rule))
  ), gone AS (
    DELETE FROM issue_wakeup r
     WHERE r.id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE o.delete_rule))
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
     WHERE r.id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE NOT o.delete_rule))
       AND r.id = t.rule_id
  )
  SELECT t.rule_id, t.run_id, t.runtime_id, t.enabled, t.next_fire_at, wakeful_now()
    FROM settled t;
END $$;

-- Everything the decisions rest on, read after all of it is locked. Who may have the agent invoked is
-- asked once for each agent and creator, and the runs once for all rules: a group of timers has
-- few of either.
CREATE OR REPLACE FUNCTION dispatch_read(rule_ids uuid[]) RETURNS SETOF dispatch_row
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN QUERY
  WITH invokers AS MATERIALIZED (
    SELECT o.agent_id, o.created_by, may_invoke(o.created_by, a) AS may
      FROM (SELECT DISTINCT r.agent_id, r.created_by FROM issue_wakeup r
             WHERE r.id = ANY (rule_ids)) o
      JOIN agent a ON a.id = o.agent_id
  ), runs AS MATERIALIZED (
    SELECT q.wakeup_id, q.id, q.status, q.handoff_note, q.context, q.dispatched_at, q.created_at
      FROM agent_task_queue q
     WHERE q.wakeup_id = ANY (rule_ids) AND q.status IN ('queued', 'dispatched')
  )
  SELECT NULL::uuid, r, i.id IS NOT NULL,
         i.id IS NOT NULL AND status_is_closed(i.workspace_id, i.status),
         i.priority, a.id IS NULL OR a.archived_at IS NOT NULL, a.runtime_id,
         coalesce((SELECT v.may FROM invokers v
                    WHERE v.agent_id = r.agent_id AND v.created_by = r.created_by), false),
         (SELECT jsonb_build_object(
                   'id', q.id, 'status', q.status, 'handoff_note', q.handoff_note,
                   'context', q.context, 'dispatched_at', q.dispatched_at,
                   'lease_expires_at',
                   (SELECT l.expires_at FROM run_lease l WHERE l.task_id = q.id))
            FROM runs q
           WHERE q.wakeup_id = r.id
           ORDER BY q.status, q.created_at LIMIT 1),
         (SELECT coalesce(jsonb_agg(x.receipt ORDER BY x.created_at, x.seq), '[]')
            FROM (
              SELECT y.created_at, y.seq, jsonb_build_object(
                       'seq', y.seq, 'id', y.id, 'revision', y.revision,
                       'event_key', y.event_key, 'event_type', y.event_type,
                       'payload', y.payload, 'created_at', y.created_at) AS receipt
                FROM issue_wakeup_receipt y
               WHERE y.wakeup_id = r.id AND y.processed_at IS NULL AND y.task_id IS NULL
               ORDER BY y.created_at, y.seq
               LIMIT 100) x),
         wakeful_now()
    FROM unnest(rule_ids) WITH ORDINALITY AS wanted (id, place)
    JOIN issue_wakeup r ON r.id = wanted.id
    LEFT JOIN issue i ON i.id = r.issue_id
    LEFT JOIN agent a ON a.id = r.agent_id
   ORDER BY wanted.place;
END $$;
