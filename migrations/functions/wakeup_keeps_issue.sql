CREATE OR REPLACE FUNCTION public.wakeup_keeps_issue()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF NEW.enabled THEN
    PERFORM FROM issue i WHERE i.id = NEW.issue_id AND i.workspace_id = NEW.workspace_id FOR SHARE;
  ELSE
    PERFORM FROM issue i WHERE i.id = NEW.issue_id AND i.workspace_id = NEW.workspace_id
      FOR KEY SHARE;
  END IF;
  IF NOT FOUND THEN
    RAISE foreign_key_violation USING CONSTRAINT = 'issue_wakeup_issue', TABLE = 'issue_wakeup',
      MESSAGE = 'the workspace of a wakeup has no such issue', DETAIL = 'issue ' || NEW.issue_id;
  END IF;
  RETURN NEW;
END $function$
;
