CREATE OR REPLACE FUNCTION public.may_invoke(person uuid, agent agent)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  SELECT EXISTS (
           SELECT FROM member m WHERE m.workspace_id = agent.workspace_id AND m.user_id = person)
     AND (agent.visibility = 'workspace'
          OR agent.owner_id = person
          OR EXISTS (
               SELECT FROM agent_invocation_target t
                WHERE t.agent_id = agent.id AND t.target_type = 'member' AND t.target_id = person))
$function$
;
