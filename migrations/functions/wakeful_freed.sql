CREATE OR REPLACE FUNCTION public.wakeful_freed()
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
AS $function$
  SELECT coalesce(wakeful_setting('wakeful.freed')::uuid[], '{}')
$function$
;
