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
-- note and comments have room in it; the run is then for the agent's present runtime.
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
       END,
       priority = greatest(q.priority, $6)
 WHERE ($7::timestamptz IS NULL OR $7 <= wakeful_now())
   AND q.id = (
     SELECT o.id FROM agent_task_queue o
      WHERE o.agent_id = $2 AND o.status = 'deferred' AND o.fire_at <= wakeful_now()
        AND o.issue_id = $1 AND o.wakeup_id IS NULL
        AND o.comment_thread_id IS NOT DISTINCT FROM (SELECT comment_thread_root($4::uuid))
        AND octet_length(o.handoff_note) + octet_length($5) + 2 <= $8
        AND jsonb_array_length(coalesce(o.context -> 'coalesced_comment_ids', '[]')) < $9
      ORDER BY o.created_at, o.id
      LIMIT 1
        FOR NO KEY UPDATE)
RETURNING q.id, q.status, q.runtime_id, false AS created;

-- name: enqueue
-- W-098, W-081: one statement makes the run or joins the queued one of its scope, whoever comes
-- first. No row: a claimed run holds the slot, or the queued one has no room; then $15 keeps the
-- new run deferred until the slot is free. The row in the way stays locked, so that requests of
-- one scope follow each other. Index: agent_task_pending_idx decides.
INSERT INTO agent_task_queue AS q (
  issue_id, agent_id, runtime_id, status, priority, trigger_comment_id, handoff_note, context,
  trigger_summary, originator_user_id, accountable_user_id, originator_source,
  trigger_evidence_kind, trigger_evidence_ref_id, delegated_from_task_id, fire_at)
SELECT $1, $2, $3,
       CASE WHEN $15::boolean OR $7::timestamptz > wakeful_now() THEN 'deferred' ELSE 'queued' END,
       $6, $4::uuid, $5::text, jsonb_build_object('reason', $10::text), $11::text, $12, $12, $13,
       CASE WHEN $4 IS NULL THEN $10 ELSE 'comment' END, coalesce($4, $1), $14,
       CASE WHEN $15 THEN coalesce($7, wakeful_now()) ELSE $7 END
ON CONFLICT (issue_id, agent_id, coalesce(comment_thread_id, '00000000-0000-0000-0000-000000000000'))
  WHERE status IN ('queued', 'dispatched')
DO UPDATE
   SET runtime_id = EXCLUDED.runtime_id,
       handoff_note = concat_ws(E'\n\n', nullif(q.handoff_note, ''), nullif($5, '')),
       context = CASE
         WHEN $4 IS NULL OR $4 = q.trigger_comment_id
           OR coalesce(q.context -> 'coalesced_comment_ids' ? ($4::uuid)::text, false)
         THEN q.context
         ELSE q.context || jsonb_build_object(
                'coalesced_comment_ids',
                coalesce(q.context -> 'coalesced_comment_ids', '[]') || to_jsonb($4))
       END,
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
-- registered its daemon. Only runs of the daemon's workspace ($2). Locks: the issue (KEY SHARE), that
-- a comment needs later and that may be gone (W-189), then the run.
WITH kept AS MATERIALIZED (
  SELECT i.id FROM issue i
   WHERE i.id = (SELECT q.issue_id FROM agent_task_queue q WHERE q.id = $1)
     FOR KEY SHARE)
SELECT q.*, t.workspace_id, d.token_id = $3 AS owned
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
  JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
  LEFT JOIN kept k ON true
 WHERE q.id = $1 AND t.workspace_id = $2
   FOR NO KEY UPDATE OF q;

-- name: claimed
-- The same without a lock, for what does not touch the row.
SELECT q.*, t.workspace_id, d.token_id = $3 AS owned
  FROM agent_task_queue q
  JOIN agent_runtime t ON t.id = q.runtime_id
  JOIN daemon d ON d.workspace_id = t.workspace_id AND d.daemon_id = t.daemon_id
 WHERE q.id = $1 AND t.workspace_id = $2;

-- name: start
-- The claim becomes work; its lease has done its duty.
WITH unleased AS (DELETE FROM run_lease l WHERE l.task_id = $1)
UPDATE agent_task_queue q
   SET status = 'running', started_at = wakeful_now(), wait_reason = NULL
 WHERE q.id = $1
RETURNING q.*;

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

-- name: fallback_comment
-- W-112: the output as a comment in the run's thread, unless the agent has written on the issue
-- since the run started or the run has checked in (W-155), and unless the issue is gone.
-- Index: comment_issue_idx.
INSERT INTO comment (
  issue_id, workspace_id, author_type, author_id, content, parent_id, source_task_id)
SELECT i.id, i.workspace_id, 'agent', q.agent_id, $2,
       (SELECT p.id FROM comment p WHERE p.id = q.trigger_comment_id AND p.issue_id = i.id), q.id
  FROM agent_task_queue q
  JOIN issue i ON i.id = q.issue_id
 WHERE q.id = $1
   AND NOT q.context ? 'wakeup_checkin'
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
