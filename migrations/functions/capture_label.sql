CREATE OR REPLACE FUNCTION public.capture_label()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM capture_fact(NEW.issue_id, 'issue.labels_changed',
      jsonb_build_object('label_id', NEW.label_id, 'action', 'added'));
  ELSE
    PERFORM capture_fact(OLD.issue_id, 'issue.labels_changed',
      jsonb_build_object('label_id', OLD.label_id, 'action', 'removed'));
  END IF;
  RETURN NULL;
END $function$
;
