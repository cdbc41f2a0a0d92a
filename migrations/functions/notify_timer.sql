CREATE OR REPLACE FUNCTION public.notify_timer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF wakeful_setting('wakeful.hinted') IS NULL THEN
    PERFORM pg_notify('wakeful_timers', '');
  END IF;
  RETURN NULL;
END $function$
;
