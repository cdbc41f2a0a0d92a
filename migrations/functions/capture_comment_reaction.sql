CREATE OR REPLACE FUNCTION public.capture_comment_reaction()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM capture_fact(
      comment_issue(NEW.comment_id), 'reaction.added',
      reaction_details(
        NEW.id, 'comment', NEW.comment_id, NEW.emoji, NEW.actor_type, NEW.actor_id),
      NEW.actor_type, NEW.actor_id);
  ELSE
    PERFORM capture_fact(
      comment_issue(OLD.comment_id), 'reaction.removed',
      reaction_details(
        OLD.id, 'comment', OLD.comment_id, OLD.emoji, OLD.actor_type, OLD.actor_id));
  END IF;
  RETURN NULL;
END $function$
;
