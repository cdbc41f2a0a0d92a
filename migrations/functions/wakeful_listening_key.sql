CREATE OR REPLACE FUNCTION public.wakeful_listening_key(issue_id uuid)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT (uuid_hash_extended(issue_id, 4321) & 1023)::integer
$function$
;
