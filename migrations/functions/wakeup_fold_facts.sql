CREATE OR REPLACE FUNCTION public.wakeup_fold_facts(facts capture_buffer[])
 RETURNS capture_buffer[]
 LANGUAGE sql
 STABLE
AS $function$
  SELECT array_agg(
           ROW(n.xact, n.workspace_id, n.issue_id, n.event_type, n.event_id, n.recurs, n.count,
               n.occurred_at, n.first, n.version, n.actor_type, n.actor_id, n.agent_id,
               n.source_task_id, n.details)::capture_buffer
           ORDER BY wakeful_issue_key(n.issue_id), n.occurred_at)
    FROM (
      SELECT f.*, sum(f.coalesced_count) OVER alike AS count,
             min(f.occurred_at) OVER alike AS first,
             row_number() OVER (
               PARTITION BY f.issue_id, f.event_type, f.actor_type, f.actor_id, f.agent_id,
                            f.source_task_id, CASE WHEN NOT f.recurs THEN f.event_id END
               ORDER BY f.occurred_at DESC) AS age
        FROM unnest(facts) f
      WINDOW alike AS (
        PARTITION BY f.issue_id, f.event_type, f.actor_type, f.actor_id, f.agent_id,
                     f.source_task_id, CASE WHEN NOT f.recurs THEN f.event_id END)) n
   WHERE n.age = 1
$function$
;
