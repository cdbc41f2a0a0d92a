CREATE OR REPLACE FUNCTION public.attachment_unbound()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  NEW.unbound_at := CASE
    WHEN coalesce(NEW.issue_id, NEW.comment_id) IS NOT NULL THEN NULL
    WHEN TG_OP = 'UPDATE' THEN coalesce(OLD.unbound_at, wakeful_now())
    ELSE wakeful_now() END;
  RETURN NEW;
END $function$
;
