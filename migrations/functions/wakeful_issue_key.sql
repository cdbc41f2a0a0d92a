CREATE OR REPLACE FUNCTION public.wakeful_issue_key(issue_id uuid)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ SELECT uuid_hash_extended(issue_id, 8765) $function$
;
