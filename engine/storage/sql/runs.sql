-- Runs as people and agents see them: queue, list, read, cancel; and the reports of daemons.
-- Row locks are NO KEY UPDATE on the run alone, or KEY SHARE on its owners before it.

-- name: owners
-- What a new run takes from its issue and agent; KEY SHARE keeps both from being deleted meanwhile.
SELECT a.runtime_id, a.archived_at IS NOT NULL AS archived, priority_rank(i.priority) AS priority
  FROM agent a
  JOIN issue i ON i.workspace_id = a.workspace_id
 WHERE a.id = $2 AND i.id = $1
   FOR KEY SHARE OF a, i;

-- name: merge_held
-- A request joins the run of its scope that waits behind a claimed one, if there is such a run and
-- note and comments have room in it; the run is then for the agent's present runtime, with the
-- context of the request ($10).
-- Index: agent_task_deferred_idx.
UPDATE agent_task_queue q
   SET runtime_id = $3,
       handoff_note = concat_ws(E'\n\n', nullif(q.handoff_note, ''), nullif($5::text, '')),
       context = CASE
         WHEN $4::uuid IS NULL OR $4 = q.trigger_comment_id
           OR coalesce(q.context -> 'coalesced_comment_ids' ? ($4::uuid)::text, false)
         THEN q.context
         ELSE q.context || jsonb_build_object(
                'coalesced_comment_ids',
                coalesce(q.context -> 'coalesced_comment_ids', '[]') || to_jsonb($4::uuid))
       END || $10::jsonb,
       priority = greatest(q.priority, $6)
 WHERE ($7::timestamptz IS NULL OR $7 <= wakeful_now())
   AND q.id = (
     SELECT o.id FROM agent_task_queue o
      WHERE o.agent_id = $2 AND o.status = 'deferred' AND o.fire_at <= wakeful_now()
        AND o.issue_id = $1 AND o.wakeup_id IS NULL AND o.retry_of_task_id IS NULL
        AND o.comment_thread_id IS NOT DISTINCT FROM (SELECT comment_thread_root($4::uuid))
        AND octet_length(o.handoff_note) + octet_length($5) + 2 <= $8
        AND jsonb_array_length(coalesce(o.context -> 'coalesced_comment_ids', '[]')) < $9
      ORDER BY o.created_at, o.id
      LIMIT 1
        FOR NO KEY UPDATE)
RETURNING q.id, q.status, q.runtime_id, false AS created;

-- name: enqueue
-- W-098, W-081: one statement makes the run or joins the queued one of its scope, whoever comes
-- first; a run that takes a further request waits anew (W-109). No row: a claimed run holds the slot,
-- or the queued one has no room; then $15 keeps the new run deferred until the slot is free. The row in the way stays locked, so that requests of
-- one scope follow each other. Index: agent_task_pending_idx decides.
INSERT INTO agent_task_queue AS q (
  issue_id, agent_id, runtime_id, status, priority, trigger_comment_id, handoff_note, context,
  trigger_summary, originator_user_id, accountable_user_id, originator_source,
  trigger_evidence_kind, trigger_evidence_ref_id, delegated_from_task_id, fire_at)
SELECT $1, $2, $3,
       CASE WHEN $15::boolean OR $7::timestamptz > wakeful_now() THEN 'deferred' ELSE 'queued' END,
       $6, $4::uuid, $5::text, jsonb_build_object('reason', $10::text) || $16::jsonb, $11::text, $12,
       $12, $13,
       CASE WHEN $4 IS NULL THEN $10 ELSE 'comment' END, coalesce($4, $1), $14,
       CASE WHEN $15 THEN coalesce($7, wakeful_now()) ELSE $7 END
ON CONFLICT (issue_id, agent_id, coalesce(comment_thread_id, '00000000-0000-0000-0000-000000000000'))
  WHERE status IN ('queued', 'dispatched')
DO UPDATE
   SET runtime_id = EXCLUDED.runtime_id, queued_at = wakeful_now(),
       handoff_note = concat_ws(E'\n\n', nullif(q.handoff_note, ''), nullif($5, '')),
       context = CASE
         WHEN $4 IS NULL OR $4 = q.trigger_comment_id
           OR coalesce(q.context -> 'coalesced_comment_ids' ? ($4::uuid)::text, false)
         THEN q.context
         ELSE q.context || jsonb_build_object(
                'coalesced_comment_ids',
                coalesce(q.context -> 'coalesced_comment_ids', '[]') || to_jsonb($4))
       END || $16::jsonb,
       priority = greatest(q.priority, EXCLUDED.priority)
 WHERE q.status = 'queued'
   AND octet_length(q.handoff_note) + octet_length($5) + 2 <= $8
   AND jsonb_array_length(coalesce(q.context -> 'coalesced_comment_ids', '[]')) < $9
RETURNING q.id, q.status, q.runtime_id, q.xmax = 0 AS created;

-- name: may_invoke
-- Whether a person ($3) may invoke an agent of this issue's workspace; no row: one of them is not
-- there. Decided here, from the rows of this moment (W-196).
SELECT may_invoke($3, a)
  FROM issue i
  JOIN agent a ON a.workspace_id = i.workspace_id
 WHERE i.id = $1 AND a.id = $2;

-- name: run
-- One run with the workspace that it belongs to: its agent's, for a run outlives its issue (W-189).
SELECT q.*, a.workspace_id
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id
 WHERE q.id = $1;

-- name: list
-- The runs of an issue, newest first, of one status or of all. Index: agent_task_issue_idx.
SELECT q.*, count(*) OVER () AS total
  FROM agent_task_queue q
 WHERE q.issue_id = $1 AND ($2::text IS NULL OR q.status = $2)
 ORDER BY q.created_at DESC, q.id DESC
 LIMIT $3 OFFSET $4;

-- name: messages
-- A part of a transcript, by primary key.
SELECT m.seq, m.line, m.created_at, count(*) OVER () AS total
  FROM run_message m
 WHERE m.task_id = $1
 ORDER BY m.seq
 LIMIT $2 OFFSET $3;

-- name: lock
-- The run to stop, and whether the person ($2) may invoke its agent. Locks: the run.
SELECT q.*, a.workspace_id, may_invoke($2, a) AS may_invoke
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id
 WHERE q.id = $1
   FOR NO KEY UPDATE OF q;

-- name: cancel
-- Ends a run that is locked. Index: primary key.
UPDATE agent_task_queue q
   SET status = 'cancelled', completed_at = wakeful_now()
 WHERE q.id = $1
RETURNING q.*;

-- name: lock_claimed
-- The run that a daemon reports on, and whose it is: `owned` tells whether the caller's token ($3)
-- registered its daemon. Only runs of the daemon's workspace ($2). `marked_rule_id` is the rule behind
-- it, if that says ($4) that it waits for this claim. Locks: with $5, which is for another attempt, the
-- agent (KEY SHARE, W-190); the issue (KEY SHARE), that a comment needs later and that may be gone
-- (W-189); then such a rule, or any with $5; then the run.
WITH owner AS MATERIALIZED (
  SELECT a.id FROM agent a
   WHERE $5::boolean AND a.id = (SELECT q.agent_id FROM agent_task_queue q WHERE q.id = $1)
     FOR KEY SHARE
), kept AS MATERIALIZED (
  SELECT i.id FROM issue i
   WHERE i.id = (SELECT q.issue_id FROM agent_task_queue q
                  WHERE q.id = $1 AND (SELECT count(*) FROM owner) >= 0)
     FOR KEY SHARE
), ruled AS MATERIALIZED (
  SELECT r.id, r.last_error FROM issue_wakeup r
   WHERE r.id = (SELECT q.wakeup_id FROM agent_task_queue q
                  WHERE q.id = $1 AND (SELECT count(*) FROM kept) >= 0)
     AND ($5::boolean OR r.last_error = $4)
     FOR NO KEY UPDATE)
SELECT q.*, t.workspace_id, d.token_id = $3 AS owned,
       CASE WHEN r.last_error = $4 THEN r.id END AS marked_rule_id
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
  JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
  LEFT JOIN kept k ON true
  LEFT JOIN ruled r ON true
 WHERE q.id = $1 AND t.workspace_id = $2
   FOR NO KEY UPDATE OF q;

-- name: unmark
-- W-253: a rule that waited for a claim goes on. Locks: the rule, locked before.
UPDATE issue_wakeup r SET last_error = NULL, updated_at = wakeful_now() WHERE r.id = $1;

-- name: hold_claimed
-- The same for a report that writes beside the run and never touches it: its workspace is held, so that
-- run and report go together (W-189). Locks: workspace KEY SHARE.
WITH held AS MATERIALIZED (
  SELECT w.id FROM workspace w WHERE w.id = $2 FOR KEY SHARE
)
SELECT q.*, t.workspace_id, d.token_id = $3 AS owned
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
  JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
 WHERE q.id = $1 AND t.workspace_id = (SELECT h.id FROM held h);

-- name: claimed
-- The same without a lock, for who only asks.
SELECT q.*, t.workspace_id, d.token_id = $3 AS owned
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
  JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
 WHERE q.id = $1 AND t.workspace_id = $2;

-- name: lock_reported
-- The runs ($1) that one call reports on, as `lock_claimed`, but nobody is waited for: what somebody
-- else holds `is_held`, and leaves the others free. The row is as it is once it is locked. Pins the
-- plans of this transaction to look-ups by index, as `claims.caller` does.
-- Locks: issues (KEY SHARE), rules that are marked ($4), runs, what capture takes. Index: primary keys.
WITH pinned AS MATERIALIZED (
  SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
         set_config('enable_mergejoin', 'off', true)
), wanted AS MATERIALIZED (
  SELECT q.id, q.issue_id, d.token_id = $3 AS owned,
         (SELECT i.id FROM issue i WHERE i.id = q.issue_id) IS NOT NULL AS has_issue,
         (SELECT r.id FROM issue_wakeup r
           WHERE r.id = q.wakeup_id AND r.last_error = $4) AS marked_rule_id
    FROM pinned, unnest($1::uuid[]) AS asked (id)
   CROSS JOIN LATERAL (SELECT n.* FROM agent_task_queue n WHERE n.id = asked.id OFFSET 0) q
    JOIN agent_runtime t ON t.id = q.runtime_id
    JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
   WHERE t.workspace_id = $2
), kept AS MATERIALIZED (
  SELECT i.id FROM issue i
   WHERE i.id = ANY (ARRAY(SELECT w.issue_id FROM wanted w WHERE w.owned))
     FOR KEY SHARE SKIP LOCKED
), marked AS MATERIALIZED (
  SELECT r.id FROM issue_wakeup r
   WHERE r.id = ANY (ARRAY(SELECT w.marked_rule_id FROM wanted w WHERE w.owned))
     AND (SELECT count(*) FROM kept) >= 0
     FOR NO KEY UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
  SELECT q.id, q.status, q.dispatched_at FROM agent_task_queue q
   WHERE q.id = ANY (ARRAY(SELECT w.id FROM wanted w WHERE w.owned))
     AND (SELECT count(*) FROM marked) >= 0
     FOR NO KEY UPDATE SKIP LOCKED
)
SELECT w.id, w.owned, w.marked_rule_id, l.status, l.dispatched_at,
       l.id IS NULL OR (w.has_issue AND k.id IS NULL)
         OR (w.marked_rule_id IS NOT NULL AND m.id IS NULL)
         OR NOT wakeup_try_listening(w.issue_id) AS is_held
  FROM wanted w
  LEFT JOIN locked l ON l.id = w.id
  LEFT JOIN kept k ON k.id = w.issue_id
  LEFT JOIN marked m ON m.id = w.marked_rule_id;

-- name: start
-- The claim becomes work; its lease has done its duty.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = $1)
UPDATE agent_task_queue q
   SET status = 'running', started_at = wakeful_now(), wait_reason = NULL
 WHERE q.id = $1
RETURNING q.*;

-- name: start_many
-- `start`, and what the timeline says of it, for many runs that are locked.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = ANY ($1::uuid[])
), started AS (
  UPDATE agent_task_queue q
     SET status = 'running', started_at = wakeful_now(), wait_reason = NULL
   WHERE q.id = ANY ($1)
  RETURNING q.id, q.issue_id, q.agent_id
)
INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
SELECT i.workspace_id, i.id, 'agent', s.agent_id, 'run_started',
       jsonb_build_object('task_id', s.id)
  FROM started s
  JOIN issue i ON i.id = s.issue_id
 ORDER BY s.id;

-- name: wait_for_directory
-- The claim stays the daemon's, with its lease begun anew.
WITH leased AS (
  INSERT INTO run_lease AS l (task_id, expires_at)
  VALUES ($1, wakeful_now() + make_interval(secs => $3))
  ON CONFLICT (task_id) DO UPDATE SET expires_at = EXCLUDED.expires_at)
UPDATE agent_task_queue q
   SET status = 'waiting_local_directory', wait_reason = $2
 WHERE q.id = $1
RETURNING q.*;

-- name: renew_lease
-- W-105: in a table of its own, so that a daemon that prepares never touches the run.
INSERT INTO run_lease AS l (task_id, expires_at)
VALUES ($1, wakeful_now() + make_interval(secs => $2))
ON CONFLICT (task_id) DO UPDATE SET expires_at = EXCLUDED.expires_at;

-- name: progress
-- The newest report replaces the one before; never captured.
INSERT INTO run_progress AS p (task_id, summary, step, total) VALUES ($1, $2, $3, $4)
ON CONFLICT (task_id) DO UPDATE
   SET summary = EXCLUDED.summary, step = EXCLUDED.step, total = EXCLUDED.total,
       updated_at = wakeful_now();

-- name: append_messages
-- Lines in the order in which they were sent.
INSERT INTO run_message (task_id, line)
SELECT $1, e.line
  FROM jsonb_array_elements($2::jsonb) WITH ORDINALITY AS e (line, place)
 ORDER BY e.place;

-- name: complete
-- Ends a run that is locked, with what it brought.
UPDATE agent_task_queue q
   SET status = 'completed', completed_at = wakeful_now(), result = $2::jsonb
 WHERE q.id = $1
RETURNING q.*;

-- name: complete_many
-- `complete`, `end_claim` and what the timeline says of it, for many runs ($1) that are locked, each
-- with its result ($2). Returns what is free now.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = ANY ($1::uuid[])
), spent AS (DELETE FROM task_token k WHERE k.task_id = ANY ($1)
), ended AS (
  UPDATE agent_task_queue q
     SET status = 'completed', completed_at = wakeful_now(), result = n.result
    FROM unnest($1, $2::jsonb[]) AS n (id, result)
   WHERE q.id = n.id
  RETURNING q.id, q.issue_id, q.agent_id, q.runtime_id
), told AS (
  INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
  SELECT i.workspace_id, i.id, 'agent', e.agent_id, 'run_completed',
         jsonb_build_object('task_id', e.id)
    FROM ended e
    JOIN issue i ON i.id = e.issue_id
   ORDER BY e.id
)
SELECT e.runtime_id FROM ended e;

-- name: fail
-- Ends a run that is locked, with the reason.
UPDATE agent_task_queue q
   SET status = 'failed', completed_at = wakeful_now(), error = $2, failure_reason = $3,
       wait_reason = NULL
 WHERE q.id = $1
RETURNING q.*;

-- name: end_claim
-- What a claim brought ends with its run: credential and lease.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = $1)
DELETE FROM task_token k WHERE k.task_id = $1;

-- name: end_claims
-- The same for many runs.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = ANY ($1::uuid[]))
DELETE FROM task_token k WHERE k.task_id = ANY ($1::uuid[]);

-- name: fail_many
-- Ends runs ($1) that are locked and that nobody reports on, each with its entry in the timeline.
WITH failed AS (
  UPDATE agent_task_queue q
     SET status = 'failed', completed_at = wakeful_now(), wait_reason = NULL, error = $2,
         failure_reason = $3::text
   WHERE q.id = ANY ($1::uuid[])
  RETURNING q.id, q.issue_id
)
INSERT INTO activity_log (workspace_id, issue_id, actor_type, action, details)
SELECT i.workspace_id, i.id, 'system', 'run_failed',
       jsonb_build_object('task_id', f.id, 'failure_reason', $3)
  FROM failed f
  JOIN issue i ON i.id = f.issue_id
 ORDER BY f.id;

-- name: retry
-- W-110: another attempt with the same note, context and attribution where the agent runs now,
-- unless the run has had its attempts (of some reasons at least $2), a successor of its scope is
-- pending already, the issue is gone, or the rule behind the run is gone, off or of another revision
-- by now: no claim would ever get it. The last attempt comes $3 seconds later. The rule is locked
-- already, or closing might miss the new run (W-186); issue and agent are held, or their deletion
-- might (W-190).
-- The trigger derives the scope. Index: agent_task_pending_idx.
INSERT INTO agent_task_queue (
  agent_id, issue_id, runtime_id, status, fire_at, priority, attempt, max_attempts, context,
  handoff_note, trigger_summary, trigger_comment_id, originator_user_id, accountable_user_id,
  originator_source, trigger_evidence_kind, trigger_evidence_ref_id, delegated_from_task_id,
  retry_of_task_id)
SELECT q.agent_id, q.issue_id, coalesce(a.runtime_id, q.runtime_id),
       CASE WHEN late.at IS NULL THEN 'queued' ELSE 'deferred' END, late.at, q.priority,
       q.attempt + 1, greatest(q.max_attempts, q.attempt + 1), q.context - 'wakeup_checkin',
       q.handoff_note, q.trigger_summary, q.trigger_comment_id, q.originator_user_id,
       q.accountable_user_id, q.originator_source, q.trigger_evidence_kind,
       q.trigger_evidence_ref_id, q.delegated_from_task_id, q.id
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id
  JOIN issue i ON i.id = q.issue_id
 CROSS JOIN LATERAL (
   SELECT CASE WHEN $3 > 0 AND q.attempt + 1 >= greatest(q.max_attempts, $2)
               THEN wakeful_now() + make_interval(secs => $3) END AS at) late
 WHERE q.id = ANY ($1::uuid[]) AND q.attempt < greatest(q.max_attempts, $2::integer)
   AND (q.wakeup_id IS NULL OR EXISTS (
     SELECT FROM issue_wakeup r
      WHERE r.id = q.wakeup_id AND r.disabled_at IS NULL
        AND to_jsonb(r.revision) = q.context -> 'wakeup_revision'))
   AND NOT EXISTS (
     SELECT FROM agent_task_queue p
      WHERE p.issue_id = q.issue_id AND p.agent_id = q.agent_id
        AND coalesce(p.comment_thread_id, '00000000-0000-0000-0000-000000000000')
          = coalesce(q.comment_thread_id, '00000000-0000-0000-0000-000000000000')
        AND p.status IN ('queued', 'dispatched'))
 ORDER BY q.id
ON CONFLICT DO NOTHING
RETURNING id, runtime_id, fire_at;

-- name: fallback_comments
-- W-112: outputs ($2) of runs ($1) as comments in the runs' threads, unless the agent has written on
-- the issue since its run started or the run has checked in (W-155), and unless the issue is gone.
-- Index: primary keys, one after the other; comment_issue_idx.
INSERT INTO comment (
  issue_id, workspace_id, author_type, author_id, content, parent_id, source_task_id)
SELECT i.id, i.workspace_id, 'agent', q.agent_id, o.content,
       (SELECT p.id FROM comment p WHERE p.id = q.trigger_comment_id AND p.issue_id = i.id), q.id
  FROM unnest($1::uuid[], $2::text[]) AS o (run_id, content)
 CROSS JOIN LATERAL (SELECT r.* FROM agent_task_queue r WHERE r.id = o.run_id OFFSET 0) q
 CROSS JOIN LATERAL (
   SELECT n.id, n.workspace_id FROM issue n WHERE n.id = q.issue_id OFFSET 0) i
 WHERE NOT q.context ? 'wakeup_checkin'
   AND NOT EXISTS (
     SELECT FROM comment c
      WHERE c.issue_id = i.id AND c.author_type = 'agent' AND c.author_id = q.agent_id
        AND c.created_at >= q.started_at);

-- name: tell
-- One entry of the timeline about a run, if its issue is there.
INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
SELECT i.workspace_id, i.id, $2, $3, $4, jsonb_build_object('task_id', q.id) || $5::jsonb
  FROM agent_task_queue q
  JOIN issue i ON i.id = q.issue_id
 WHERE q.id = $1;
