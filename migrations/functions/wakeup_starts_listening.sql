CREATE OR REPLACE FUNCTION public.wakeup_starts_listening()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_advisory_xact_lock(1, wakeful_listening_key(NEW.issue_id));
  RETURN NEW;
END $function$
;
