CREATE OR REPLACE FUNCTION public.capture_issue_facts(old issue, new issue, types text[])
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  prefix text := gen_random_uuid();
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, details)
  SELECT new.workspace_id, new.id, t.type,
         prefix || ':' || split_part(substr(t.type, length('issue.') + 1), '_', 1),
         CASE t.type
           WHEN 'issue.updated' THEN jsonb_build_object('changed_fields', array_remove(ARRAY[
             CASE WHEN new.acceptance_criteria <> old.acceptance_criteria
                  THEN 'acceptance_criteria' END,
             CASE WHEN new.assignee_id IS DISTINCT FROM old.assignee_id THEN 'assignee_id' END,
             CASE WHEN new.assignee_type IS DISTINCT FROM old.assignee_type
                  THEN 'assignee_type' END,
             CASE WHEN new.context_refs <> old.context_refs THEN 'context_refs' END,
             CASE WHEN new.description <> old.description THEN 'description' END,
             CASE WHEN new.due_date IS DISTINCT FROM old.due_date THEN 'due_date' END,
             CASE WHEN new.metadata <> old.metadata THEN 'metadata' END,
             CASE WHEN new.parent_issue_id IS DISTINCT FROM old.parent_issue_id
                  THEN 'parent_issue_id' END,
             CASE WHEN new.priority <> old.priority THEN 'priority' END,
             CASE WHEN new.project_id IS DISTINCT FROM old.project_id THEN 'project_id' END,
             CASE WHEN new.properties <> old.properties THEN 'properties' END,
             CASE WHEN new.stage IS DISTINCT FROM old.stage THEN 'stage' END,
             CASE WHEN new.start_date IS DISTINCT FROM old.start_date THEN 'start_date' END,
             CASE WHEN new.status <> old.status THEN 'status' END,
             CASE WHEN new.title <> old.title THEN 'title' END], NULL))
           WHEN 'issue.status_changed' THEN jsonb_build_object(
             'previous_status', old.status, 'status', new.status,
             'previous_category', status_category(old.workspace_id, old.status),
             'category', status_category(new.workspace_id, new.status))
           WHEN 'issue.assignee_changed' THEN jsonb_build_object(
             'previous_assignee_type', old.assignee_type, 'previous_assignee_id', old.assignee_id,
             'assignee_type', new.assignee_type, 'assignee_id', new.assignee_id)
           WHEN 'issue.parent_changed' THEN jsonb_build_object(
             'previous_parent_issue_id', old.parent_issue_id,
             'parent_issue_id', new.parent_issue_id)
           WHEN 'issue.project_changed' THEN jsonb_build_object(
             'previous_project_id', old.project_id, 'project_id', new.project_id)
           WHEN 'issue.properties_changed'
             THEN wakeup_changed_keys(old.properties, new.properties)
           WHEN 'issue.metadata_changed' THEN wakeup_changed_keys(old.metadata, new.metadata)
         END
    FROM unnest(types) t (type)
   WHERE EXISTS (
     SELECT FROM issue_wakeup r
      WHERE r.issue_id = new.id AND r.enabled AND r.kind = 'event'
        AND t.type = ANY (r.event_types));
END $function$
;
