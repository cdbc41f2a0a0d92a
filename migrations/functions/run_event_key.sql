CREATE OR REPLACE FUNCTION public.run_event_key(run_id uuid, status text)
 RETURNS text
 LANGUAGE sql
 PARALLEL SAFE
AS $function$
  SELECT CASE WHEN run_is_over(status) THEN run_id || ':' || status
              ELSE gen_random_uuid()::text END
$function$
;
