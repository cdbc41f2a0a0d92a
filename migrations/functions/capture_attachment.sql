CREATE OR REPLACE FUNCTION public.capture_attachment()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  IF coalesce(OLD.issue_id, OLD.comment_id) IS NOT NULL THEN
    PERFORM capture_fact(
      coalesce(OLD.issue_id, comment_issue(OLD.comment_id)), 'attachment.detached',
      jsonb_build_object(
        'attachment_id', OLD.id,
        'target_type', CASE WHEN OLD.issue_id IS NULL THEN 'comment' ELSE 'issue' END,
        'target_id', coalesce(OLD.issue_id, OLD.comment_id)));
  END IF;
  IF coalesce(NEW.issue_id, NEW.comment_id) IS NOT NULL THEN
    PERFORM capture_fact(
      coalesce(NEW.issue_id, comment_issue(NEW.comment_id)), 'attachment.attached',
      jsonb_build_object(
        'attachment_id', NEW.id,
        'target_type', CASE WHEN NEW.issue_id IS NULL THEN 'comment' ELSE 'issue' END,
        'target_id', coalesce(NEW.issue_id, NEW.comment_id)));
  END IF;
  RETURN NULL;
END $function$
;
