CREATE OR REPLACE FUNCTION public.capture_at_commit()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
  opened uuid[];
BEGIN
  IF wakeful_setting('wakeful.buffered') IS NULL THEN RETURN NULL; END IF;
  opened := wakeful_flush();
  IF opened <> '{}' AND wakeful_setting('wakeful.hinted') IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify('wakeful_wakeups', issue_id::text) FROM unnest(opened) AS issue_id;
  END IF;
  RETURN NULL;
END $function$
;
