CREATE OR REPLACE FUNCTION public.run_event_type(status text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT 'task.' || CASE status WHEN 'running' THEN 'started' ELSE status END
$function$
;
