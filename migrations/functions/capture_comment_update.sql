CREATE OR REPLACE FUNCTION public.capture_comment_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM capture_fact(
    NEW.issue_id,
    CASE WHEN NEW.deleted_at IS NOT NULL THEN 'comment.deleted'
         WHEN OLD.resolved_at IS NULL AND NEW.resolved_at IS NOT NULL THEN 'comment.resolved'
         WHEN OLD.resolved_at IS NOT NULL AND NEW.resolved_at IS NULL THEN 'comment.unresolved'
         ELSE 'comment.updated' END,
    jsonb_build_object(
      'comment_id', NEW.id, 'parent_comment_id', NEW.parent_id,
      'thread_id', CASE WHEN NEW.parent_id IS NULL THEN NEW.id
                        ELSE comment_thread_root(NEW.id) END,
      'author_type', NEW.author_type, 'author_id', NEW.author_id));
  RETURN NULL;
END $function$
;
