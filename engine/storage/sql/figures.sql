-- What /metrics tells of the database (W-256, W-258). Reads alone, of one snapshot, and nothing that
-- grows with history: pending receipts and queued runs by their partial indexes, of the processed
-- receipts those since the last reading.

-- name: mark
-- Where this reading stands: its snapshot, and the database's clock.
SELECT s.snapshot::text AS snapshot, pg_snapshot_xmin(s.snapshot)::text::bigint AS xmin,
       pg_snapshot_xmax(s.snapshot)::text::bigint AS xmax, wakeful_now() AS now
  FROM (SELECT pg_current_snapshot() AS snapshot) s;

-- name: ignored
-- Seven narrow rows a rule, and no index that counting would have to keep up: read as a whole.
SELECT g.reason, sum(g.count)::bigint AS facts FROM wakeup_ignored g WHERE g.count > 0 GROUP BY 1;

-- name: pin
-- Pins the plans of this transaction to the indexes below.
SELECT set_config('enable_seqscan', 'off', true);

-- name: pending
-- What waits, for each workspace: receipts, and the facts in those that capture wrote (only they have
-- a coalesce_key). Index: issue_wakeup_receipt_free_idx, issue_wakeup_receipt_reserved_idx.
SELECT r.workspace_id, x.is_free, count(*) AS receipts, min(x.created_at) AS since,
       count(x.coalesce_key) AS captured,
       coalesce(sum(x.facts) FILTER (WHERE x.coalesce_key IS NOT NULL), 0)::bigint AS facts
  FROM (SELECT f.wakeup_id, true AS is_free, f.created_at, f.coalesce_key,
               coalesce((f.payload -> 'coalesced_count')::bigint, 1) AS facts
          FROM issue_wakeup_receipt f WHERE f.processed_at IS NULL AND f.task_id IS NULL
         UNION ALL
        SELECT v.wakeup_id, false, v.created_at, v.coalesce_key,
               coalesce((v.payload -> 'coalesced_count')::bigint, 1)
          FROM issue_wakeup_receipt v WHERE v.processed_at IS NULL AND v.task_id IS NOT NULL) x
  LEFT JOIN issue_wakeup r ON r.id = x.wakeup_id
 GROUP BY r.workspace_id, x.is_free;

-- name: processed
-- What stopped waiting since a snapshot ($1): receipts that were processed by transactions which that
-- snapshot did not see. None of them was processed before $2. A processed receipt never changes again,
-- so each is in one reading. xmin has 32 bits of its transaction's number; the rest is the present's.
-- Index: issue_wakeup_receipt_processed_idx.
SELECT x.task_id IS NOT NULL AS is_consumed, count(*) AS receipts,
       count(x.coalesce_key) AS captured,
       coalesce(sum((x.payload -> 'coalesced_count')::bigint)
                  FILTER (WHERE x.coalesce_key IS NOT NULL), 0)::bigint AS facts
  FROM issue_wakeup_receipt x,
       (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax OFFSET 0) present
 WHERE x.processed_at >= $2::timestamptz
   AND NOT pg_visible_in_snapshot(
     (present.xmax - ((present.xmax - x.xmin::text::bigint) & 4294967295))::text::xid8,
     $1::text::pg_snapshot)
 GROUP BY is_consumed;

-- name: queued
-- Since when the oldest unclaimed run of a rule waits, for each workspace.
-- Index: agent_task_wakeup_active_idx.
SELECT a.workspace_id, min(coalesce(q.queued_at, q.created_at)) AS since
  FROM agent_task_queue q
  JOIN agent a ON a.id = q.agent_id
 WHERE q.wakeup_id IS NOT NULL AND q.status = 'queued'
 GROUP BY a.workspace_id;
