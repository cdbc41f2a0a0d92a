CREATE OR REPLACE FUNCTION public.dispatch_read(rule_ids uuid[])
 RETURNS SETOF dispatch_row
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
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
END $function$
;
