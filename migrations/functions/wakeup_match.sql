CREATE OR REPLACE FUNCTION public.wakeup_match(rule issue_wakeup, fact wakeup_fact)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT CASE
    WHEN rule.issue_id <> fact.issue_id THEN 'other_issue'
    WHEN NOT rule.enabled OR rule.kind <> 'event' THEN 'not_listening'
    WHEN fact.event_type <> ALL (rule.event_types) THEN 'other_event'
    WHEN fact.issue_closed THEN 'issue_closed'
    WHEN rule.filter_actor_type IS NOT NULL
      AND (rule.filter_actor_type IS DISTINCT FROM fact.actor_type
           OR rule.filter_actor_id IS DISTINCT FROM fact.actor_id) THEN 'filtered_actor'
    WHEN rule.filter_agent_id IS NOT NULL
      AND rule.filter_agent_id IS DISTINCT FROM fact.agent_id THEN 'filtered_agent'
    WHEN rule.filter_task_id IS NOT NULL
      AND rule.filter_task_id IS DISTINCT FROM fact.source_task_id THEN 'filtered_task'
    WHEN rule.source_task_id = fact.source_task_id THEN 'self_loop_registering_run'
    WHEN rule.id = ANY (fact.source_wakeup_ids) THEN 'self_loop_own_run'
  END
$function$
;
