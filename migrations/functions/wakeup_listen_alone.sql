CREATE OR REPLACE FUNCTION public.wakeup_listen_alone(issue_id uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '0.7 seconds';
  before text := current_setting('lock_timeout');
BEGIN
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '20ms', true);
      PERFORM pg_advisory_xact_lock(1, wakeful_listening_key(issue_id));
      PERFORM set_config('lock_timeout', before, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() > deadline THEN RAISE; END IF;
      PERFORM pg_sleep(0.03);
    END;
  END LOOP;
END $function$
;
