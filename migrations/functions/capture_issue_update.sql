CREATE OR REPLACE FUNCTION public.capture_issue_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
  types text[];
BEGIN
  IF NEW.status <> OLD.status AND status_is_closed(NEW.workspace_id, NEW.status) THEN
    PERFORM wakeup_close(NEW.workspace_id, NEW.id);
    RETURN NULL;
  END IF;
  types := array_remove(ARRAY[
    'issue.updated',
    CASE WHEN NEW.status <> OLD.status THEN 'issue.status_changed' END,
    CASE WHEN NEW.assignee_type IS DISTINCT FROM OLD.assignee_type
           OR NEW.assignee_id IS DISTINCT FROM OLD.assignee_id THEN 'issue.assignee_changed' END,
    CASE WHEN NEW.parent_issue_id IS DISTINCT FROM OLD.parent_issue_id
         THEN 'issue.parent_changed' END,
    CASE WHEN NEW.project_id IS DISTINCT FROM OLD.project_id THEN 'issue.project_changed' END,
    CASE WHEN NEW.properties <> OLD.properties THEN 'issue.properties_changed' END,
    CASE WHEN NEW.metadata <> OLD.metadata THEN 'issue.metadata_changed' END], NULL);
  IF wakeup_listens(NEW.id, types) THEN
    PERFORM capture_issue_facts(OLD, NEW, types);
  END IF;
  RETURN NULL;
END $function$
;
