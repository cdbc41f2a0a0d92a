CREATE OR REPLACE FUNCTION public.run_scope()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF NEW.context ? 'wakeup_id' THEN
    NEW.comment_thread_id := (NEW.context ->> 'wakeup_id')::uuid;
  ELSIF NEW.trigger_comment_id IS NOT NULL THEN
    NEW.comment_thread_id := comment_thread_root(NEW.trigger_comment_id);
  END IF;
  RETURN NEW;
END $function$
;
