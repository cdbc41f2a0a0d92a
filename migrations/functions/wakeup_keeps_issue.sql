CREATE OR REPLACE FUNCTION public.wakeup_keeps_issue()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM FROM issue i WHERE i.id = NEW.issue_id FOR SHARE;
  RETURN NEW;
END $function$
;
