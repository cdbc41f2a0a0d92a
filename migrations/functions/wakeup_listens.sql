CREATE OR REPLACE FUNCTION public.wakeup_listens(issue_id uuid, types text[])
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
DECLARE
  held text := pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
BEGIN
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    PERFORM FROM wakeup_generation g
      WHERE g.key = wakeful_listening_key(wakeup_listens.issue_id) FOR SHARE;
  END IF;
  IF NOT EXISTS (
    SELECT FROM issue_wakeup r
     WHERE r.issue_id = wakeup_listens.issue_id AND r.enabled AND r.kind = 'event'
       AND r.event_types && types) THEN
    RETURN false;
  END IF;
  held := set_config('wakeful.buffered', 'on', true);  -- the caller is about to (see the commit)
  RETURN true;
END $function$
;
