CREATE OR REPLACE FUNCTION public.wakeup_keep_ignored()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO wakeup_ignored (wakeup_id, reason)
    SELECT NEW.id, reason FROM unnest(wakeup_ignore_reasons()) AS reason;
  ELSE
    DELETE FROM wakeup_ignored g WHERE g.wakeup_id = OLD.id;
  END IF;
  RETURN NULL;
END $function$
;
