-- Wakeup rules as people and agents see and change them. Every change locks in the order of
-- architecture, "Lock order": owners, rule, runs, listening lock, issue lock; then it writes.

-- name: show
-- The rules of an issue ($1) or one of them ($2), each with the names of what it refers to. At
-- most $3: those that are switched on before the others, then the newest.
-- Index: issue_wakeup_issue_idx, then primary keys.
SELECT r.*, a.name AS agent_name, u.name AS created_by_name, latest.status AS last_task_status,
       source.agent_id AS source_agent_id, source_agent.name AS source_agent_name,
       watched.agent_id AS filter_task_agent_id, filter_agent.name AS filter_agent_name,
       coalesce(actor_user.name, actor_agent.name) AS filter_actor_name
  FROM (SELECT * FROM issue_wakeup w
         WHERE w.issue_id = $1 AND ($2::uuid IS NULL OR w.id = $2)
         ORDER BY w.enabled DESC, w.created_at DESC, w.id DESC
         LIMIT $3) r
  LEFT JOIN agent a ON a.id = r.agent_id
  LEFT JOIN app_user u ON u.id = r.created_by
  LEFT JOIN agent_task_queue latest ON latest.id = r.last_task_id
  LEFT JOIN agent_task_queue source ON source.id = r.source_task_id
  LEFT JOIN agent source_agent ON source_agent.id = source.agent_id
  LEFT JOIN agent_task_queue watched ON watched.id = r.filter_task_id
  LEFT JOIN agent filter_agent ON filter_agent.id = r.filter_agent_id
  LEFT JOIN app_user actor_user
    ON r.filter_actor_type = 'member' AND actor_user.id = r.filter_actor_id
  LEFT JOIN agent actor_agent
    ON r.filter_actor_type = 'agent' AND actor_agent.id = r.filter_actor_id
 ORDER BY r.created_at, r.id;

-- name: agents
-- What decides who may see these agents ($1). Index: primary keys.
SELECT a.id, a.workspace_id, a.visibility, a.owner_id,
       ARRAY(SELECT t.target_id FROM agent_invocation_target t
              WHERE t.agent_id = a.id AND t.target_type = 'member') AS invokers
  FROM agent a
 WHERE a.id = ANY ($1);

-- name: runs
-- The latest runs of a rule ($1), with the event types of their facts and their check-ins.
-- Index: agent_task_wakeup_terminal_idx, comment_source_task_idx.
SELECT q.id, q.status, q.created_at, q.started_at, q.completed_at,
       q.context #>> '{wakeup_checkin,note}' AS checkin_note,
       jsonb_path_query_array(
         q.context,
         '$.wakeup_evidence.facts[*].event_type ? (@.type() == "string")') AS triggers,
       EXISTS (SELECT FROM comment c WHERE c.source_task_id = q.id) AS commented
  FROM agent_task_queue q
 WHERE q.wakeup_id = $1
 ORDER BY q.created_at DESC, q.id DESC
 LIMIT $2;

-- name: get
-- A rule ($2) of an issue ($1) as it is stored, for who changes nothing of it.
SELECT r.* FROM issue_wakeup r WHERE r.id = $2 AND r.issue_id = $1;

-- name: target
-- Whom a rule ($2) of an issue ($1) wakes: its owners are locked before the rule can be.
SELECT r.agent_id, r.revision FROM issue_wakeup r WHERE r.id = $2 AND r.issue_id = $1;

-- name: now
-- The time by which a change is judged (W-084).
SELECT wakeful_now();

-- name: hold_owners
-- Everybody a rule rests on: workspace ($1), agent ($2) with its runtime, the person ($3) and the
-- issue ($4), held against removal until COMMIT; no row if one of them is not there. Who may do
-- what is read here, for this change alone (W-196). Locks, in lock order: KEY SHARE, the issue SHARE:
-- it neither closes nor opens while a rule of it is saved (W-186).
SELECT m.role, may_invoke(m.user_id, a) AS may_invoke, a.archived_at IS NULL AS can_run
  FROM workspace w
  JOIN agent a ON a.workspace_id = w.id AND a.id = $2
  JOIN agent_runtime t ON t.id = a.runtime_id
  JOIN member m ON m.workspace_id = w.id AND m.user_id = $3
  JOIN issue i ON i.workspace_id = w.id AND i.id = $4
 WHERE w.id = $1
   FOR KEY SHARE OF w, a, t, m FOR SHARE OF i;

-- name: hold_idle_owners
-- The same for an agent without a runtime, which is asked where `hold_owners` found nothing; same
-- parameters and locks.
SELECT m.role, may_invoke(m.user_id, a) AS may_invoke, false AS can_run
  FROM workspace w
  JOIN agent a ON a.workspace_id = w.id AND a.id = $2
  JOIN member m ON m.workspace_id = w.id AND m.user_id = $3
  JOIN issue i ON i.workspace_id = w.id AND i.id = $4
 WHERE w.id = $1
   FOR KEY SHARE OF w, a, m FOR SHARE OF i;

-- name: has_issue
-- Whether the issue ($2) is in the workspace ($1). Index: primary key.
SELECT EXISTS (SELECT FROM issue i WHERE i.id = $2 AND i.workspace_id = $1);

-- name: lock_rule
-- Locks: the rule NO KEY UPDATE; from here on no dispatch makes or changes a run of it.
SELECT r.* FROM issue_wakeup r WHERE r.id = $2 AND r.issue_id = $1 FOR NO KEY UPDATE;

-- name: lock_unstarted
-- The runs of a rule that no daemon has claimed. Locks: those runs NO KEY UPDATE.
-- Index: agent_task_wakeup_active_idx.
SELECT q.id FROM agent_task_queue q
 WHERE q.wakeup_id = $1 AND q.status IN ('queued', 'deferred') AND q.started_at IS NULL
 ORDER BY q.id
   FOR NO KEY UPDATE;

-- name: lock_source
-- W-017: the watched run, as it is now and until COMMIT: who ends it waits, and its capture then sees
-- the rule. Never waits itself (W-018). Locks: the run NO KEY UPDATE.
SELECT q.id FROM agent_task_queue q WHERE q.id = $1 FOR NO KEY UPDATE NOWAIT;

-- name: has_unfinished_run
-- W-024: whether a run of the rule has not ended. Index: agent_task_wakeup_active_idx.
SELECT EXISTS (
  SELECT FROM agent_task_queue q
   WHERE q.wakeup_id = $1
     AND q.status IN ('queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running'));

-- name: lock_listening
-- Takes the listening lock alone: every writer of the issue that saw no rule commits before
-- (W-016, migrations/0005).
SELECT wakeup_listen_alone($1);

-- name: share_listening
-- Takes part in the listening lock: a cancelled run is captured, and its trigger would take it
-- behind the issue's lock, out of order.
SELECT pg_advisory_xact_lock_shared(1, wakeful_listening_key($1));

-- name: lock_issue
-- The issue's advisory lock; behind it receipts may be touched, and no row is locked any more.
SELECT pg_advisory_xact_lock(wakeful_issue_key($1));

-- name: issue_is_closed
-- Read under the issue's lock: closing takes it, too.
SELECT status_is_closed(i.workspace_id, i.status) FROM issue i WHERE i.id = $1;

-- name: unmet
-- Which references of a rule on issue $2 of workspace $1 do not hold; null asks for nothing.
SELECT ($3::uuid IS NOT NULL AND NOT EXISTS (
         SELECT FROM member m WHERE m.workspace_id = $1 AND m.user_id = $3)) AS member_user_id,
       ($4::uuid IS NOT NULL AND NOT EXISTS (
         SELECT FROM agent a WHERE a.workspace_id = $1 AND a.id = $4)) AS agent_id,
       ($5::uuid IS NOT NULL AND NOT EXISTS (
         SELECT FROM agent_task_queue q WHERE q.id = $5 AND q.issue_id = $2)) AS task_id,
       ($6::uuid IS NOT NULL AND NOT EXISTS (
         SELECT FROM comment c
          WHERE c.id = $6 AND c.issue_id = $2 AND c.deleted_at IS NULL)) AS comment_id;

-- name: insert
-- A new rule, registered at $19.
INSERT INTO issue_wakeup (
  workspace_id, issue_id, agent_id, created_by, source_task_id, parent_comment_id, instruction,
  kind, mode, event_types, filter_agent_id, filter_task_id, filter_actor_type, filter_actor_id,
  interval_seconds, cron_expression, timezone, next_fire_at, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $19)
RETURNING *;

-- name: replace
-- W-020: nothing of the old configuration stays. Locks: the rule, locked before.
UPDATE issue_wakeup r
   SET agent_id = $2, created_by = $3, source_task_id = $4, parent_comment_id = $5,
       instruction = $6, kind = $7, mode = $8, event_types = $9, filter_agent_id = $10,
       filter_task_id = $11, filter_actor_type = $12, filter_actor_id = $13,
       interval_seconds = $14, cron_expression = $15, timezone = $16, next_fire_at = $17,
       updated_at = $18, enabled = true, disabled_at = NULL, revision = r.revision + 1,
       last_task_id = NULL, last_error = NULL, paused_reason = NULL
 WHERE r.id = $1;

-- name: enable
-- W-023, W-026: the stored configuration, watched anew. A one-shot may fire again; what a repeating
-- rule did last stays readable. Locks: the rule, locked before.
UPDATE issue_wakeup r
   SET created_by = $2, source_task_id = $3, next_fire_at = $4, updated_at = $5, enabled = true,
       disabled_at = NULL, paused_reason = NULL, revision = r.revision + 1, last_error = NULL,
       last_task_id = CASE WHEN r.mode = 'once' THEN NULL ELSE r.last_task_id END
 WHERE r.id = $1;

-- name: edit_instruction
-- W-029: the text and nothing else. Locks: the rule, locked before.
UPDATE issue_wakeup r SET instruction = $2, updated_at = wakeful_now() WHERE r.id = $1;

-- name: add_snapshot
-- W-017: the end of the watched run, which is locked, if it came before the rule ($1) and the rule
-- asks for it: under the key that capture would have used, so never twice. Under the issue's lock.
WITH ended AS (
  SELECT q.*, run_event_type(q.status) AS event_type, run_event_key(q.id, q.status) AS event_key,
         r.workspace_id, r.revision, r.id AS rule_id, wakeful_now() AS observed_at
    FROM issue_wakeup r
    JOIN agent_task_queue q ON q.id = r.filter_task_id AND run_is_over(q.status)
   WHERE r.id = $1
     AND wakeup_match(r, ROW(
           r.issue_id, run_event_type(q.status), 'agent', q.agent_id, q.agent_id, q.id,
           ARRAY[q.wakeup_id], false)::wakeup_fact) IS NULL
)
INSERT INTO issue_wakeup_receipt (
  wakeup_id, revision, event_key, event_type, coalesce_key, payload, created_at)
SELECT e.rule_id, e.revision, e.event_key, e.event_type, e.event_type,
       jsonb_build_object(
         'event_id', e.event_key, 'event_type', e.event_type, 'version', 1,
         'occurred_at', wakeful_time(e.completed_at),
         'first_occurred_at', wakeful_time(e.completed_at),
         'observed_at', wakeful_time(e.observed_at), 'registration_snapshot', true,
         'workspace_id', e.workspace_id, 'issue_id', e.issue_id,
         'actor_type', 'agent', 'actor_id', e.agent_id, 'agent_id', e.agent_id,
         'source_task_id', e.id, 'task_id', e.id, 'status', e.status, 'previous_status', NULL,
         'retry_of_task_id', e.retry_of_task_id, 'rerun_of_task_id', e.rerun_of_task_id,
         'coalesced_count', 1),
       e.observed_at
  FROM ended e;

-- name: disable
-- W-027: a rule that is off stays as it is. Locks: the rule, locked before.
UPDATE issue_wakeup r
   SET enabled = false, disabled_at = wakeful_now(), updated_at = wakeful_now()
 WHERE r.id = $1 AND r.disabled_at IS NULL;

-- name: discard_receipts
-- All pending inputs of a rule, reserved ones included (W-061). Under the issue's lock.
-- Index: issue_wakeup_receipt_key_idx, its first column.
UPDATE issue_wakeup_receipt x
   SET processed_at = wakeful_now(), task_id = NULL
 WHERE x.wakeup_id = $1 AND x.processed_at IS NULL;

-- name: cancel_runs
-- Ends these locked runs, with the reason. Index: primary key.
UPDATE agent_task_queue q
   SET status = 'cancelled', completed_at = wakeful_now(), error = $2
 WHERE q.id = ANY ($1);

-- name: delete
-- W-032: the rule with its receipts; runs and timeline stay. Under the issue's lock.
-- Index: issue_wakeup_receipt_key_idx.
WITH emptied AS (DELETE FROM issue_wakeup_receipt x WHERE x.wakeup_id = $1)
DELETE FROM issue_wakeup r WHERE r.id = $1;

-- name: add_manual
-- W-030: one input by hand, under a key of its own and never merged. Under the issue's lock.
WITH made AS (SELECT wakeful_now() AS at, 'manual:' || wakeful_uuid7() AS key)
INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, payload, created_at)
SELECT r.id, r.revision, made.key, 'wakeup.manual',
       jsonb_build_object(
         'event_id', made.key, 'event_type', 'wakeup.manual', 'version', 1,
         'occurred_at', wakeful_time(made.at), 'requested_at', wakeful_time(made.at),
         'first_occurred_at', wakeful_time(made.at),
         'workspace_id', r.workspace_id, 'issue_id', r.issue_id,
         'actor_type', $2::text, 'actor_id', $3::uuid, 'agent_id', $4::uuid,
         'source_task_id', $5::uuid, 'coalesced_count', 1,
         'actors', jsonb_build_array(jsonb_build_object('type', $2, 'id', $3)),
         'source_task_ids', CASE WHEN $5 IS NULL THEN '[]'::jsonb ELSE jsonb_build_array($5) END),
       made.at
  FROM issue_wakeup r, made
 WHERE r.id = $1;

-- name: lock_own_run
-- W-154: the status of the run $1, if it is of this rule ($2), issue ($3) and agent ($4).
-- Locks: the run NO KEY UPDATE, so that it does not end between check-in and COMMIT.
SELECT q.status FROM agent_task_queue q
 WHERE q.id = $1 AND q.wakeup_id = $2 AND q.issue_id = $3 AND q.agent_id = $4
   FOR NO KEY UPDATE;

-- name: check_in
-- W-155: the last check-in of the locked run counts. Index: primary key.
UPDATE agent_task_queue q
   SET context = q.context || jsonb_build_object(
         'wakeup_checkin', jsonb_build_object('note', $2::text, 'at', wakeful_now()))
 WHERE q.id = $1;
