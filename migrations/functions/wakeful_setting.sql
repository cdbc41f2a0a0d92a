CREATE OR REPLACE FUNCTION public.wakeful_setting(name text)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$ SELECT nullif(current_setting(name, true), '') $function$
;
