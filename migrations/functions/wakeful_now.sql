CREATE OR REPLACE FUNCTION public.wakeful_now()
 RETURNS timestamp with time zone
 LANGUAGE sql
 PARALLEL SAFE
AS $function$ SELECT clock_timestamp() $function$
;
