CREATE OR REPLACE FUNCTION public.wakeup_ignore_reasons()
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT '{filtered_actor,filtered_agent,filtered_task,self_loop_registering_run,self_loop_own_run,
           duplicate_key,issue_closed}'::text[]
$function$
;
