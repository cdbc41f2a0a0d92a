CREATE OR REPLACE FUNCTION public.dispatch_candidates(issue_ids uuid[], barred uuid[], most integer)
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
  SELECT coalesce(array_agg(c.id ORDER BY c.id), '{}')
    FROM (
      SELECT r.id
        FROM unnest(issue_ids) WITH ORDINALITY AS wanted (id, place)
        JOIN issue_wakeup r ON r.issue_id = wanted.id
       WHERE r.id <> ALL (barred)
         AND ((r.enabled AND r.next_fire_at <= (SELECT wakeful_now()))
              OR (SELECT x.seq FROM issue_wakeup_receipt x
                   WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL
                   LIMIT 1) IS NOT NULL)
       ORDER BY wanted.place, r.id
       LIMIT most) c
$function$
;
