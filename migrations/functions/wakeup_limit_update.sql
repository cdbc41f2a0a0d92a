CREATE OR REPLACE FUNCTION public.wakeup_limit_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM wakeup_limit(ARRAY[NEW.workspace_id], ARRAY[NEW.issue_id]);
  RETURN NULL;
END $function$
;
