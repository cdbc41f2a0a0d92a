CREATE OR REPLACE FUNCTION public.capture_comment_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF wakeup_listens(NEW.issue_id, '{comment.created}') THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, actor_type, actor_id,
                                source_task_id, details)
    VALUES (NEW.workspace_id, NEW.issue_id, 'comment.created', NEW.author_type, NEW.author_id,
            coalesce(NEW.source_task_id, wakeful_setting_uuid('wakeful.source_task_id')),
            jsonb_build_object(
              'comment_id', NEW.id, 'parent_comment_id', NEW.parent_id,
              'thread_id', CASE WHEN NEW.parent_id IS NULL THEN NEW.id
                                ELSE comment_thread_root(NEW.id) END,
              'author_type', NEW.author_type, 'author_id', NEW.author_id));
  END IF;
  RETURN NULL;
END $function$
;
