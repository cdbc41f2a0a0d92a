CREATE OR REPLACE FUNCTION public.wakeup_try_listening(issue_id uuid)
 RETURNS boolean
 LANGUAGE sql
 COST 10000
AS $function$
  SELECT issue_id IS NULL OR pg_try_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id))
$function$
;
