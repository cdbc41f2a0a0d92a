CREATE OR REPLACE FUNCTION public.notify_timer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_notify('wakeful_timers', CASE WHEN wakeful_setting('wakeful.hinted') = 'on'
                                           THEN wakeful_time(NEW.next_fire_at) ELSE '' END);
  RETURN NULL;
END $function$
;
