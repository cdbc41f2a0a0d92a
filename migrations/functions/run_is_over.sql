CREATE OR REPLACE FUNCTION public.run_is_over(status text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT status IN ('completed', 'failed', 'cancelled')
$function$
;
