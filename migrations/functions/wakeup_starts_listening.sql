CREATE OR REPLACE FUNCTION public.wakeup_starts_listening()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM wakeup_listen_alone(NEW.issue_id);
  UPDATE wakeup_generation g SET generation = g.generation + 1
   WHERE g.key = wakeful_listening_key(NEW.issue_id);
  RETURN NEW;
END $function$
;
