CREATE OR REPLACE FUNCTION public.capture_issue_reaction()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM capture_fact(
      NEW.issue_id, 'reaction.added',
      reaction_details(NEW.id, 'issue', NEW.issue_id, NEW.emoji, NEW.actor_type, NEW.actor_id),
      NEW.actor_type, NEW.actor_id);
  ELSE
    PERFORM capture_fact(
      OLD.issue_id, 'reaction.removed',
      reaction_details(OLD.id, 'issue', OLD.issue_id, OLD.emoji, OLD.actor_type, OLD.actor_id));
  END IF;
  RETURN NULL;
END $function$
;
