-- Rollback refuses when: never, nothing is stored here.

DROP FUNCTION dispatch_apply(jsonb);

CREATE OR REPLACE FUNCTION dispatch_read(rule_ids uuid[]) RETURNS SETOF dispatch_row
LANGUAGE sql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT NULL::uuid, r, i.id IS NOT NULL,
         i.id IS NOT NULL AND status_is_closed(i.workspace_id, i.status),
         i.priority, a.id IS NULL OR a.archived_at IS NOT NULL, a.runtime_id,
         a.id IS NOT NULL AND may_invoke(r.created_by, a),
         (SELECT jsonb_build_object(
                   'id', q.id, 'status', q.status, 'handoff_note', q.handoff_note,
                   'context', q.context, 'dispatched_at', q.dispatched_at,
                   'lease_expires_at', l.expires_at)
            FROM agent_task_queue q LEFT JOIN run_lease l ON l.task_id = q.id
           WHERE q.wakeup_id = r.id AND q.status IN ('queued', 'dispatched')
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
   ORDER BY wanted.place
$$;
