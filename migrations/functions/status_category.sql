CREATE OR REPLACE FUNCTION public.status_category(workspace_id uuid, status text)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  SELECT CASE status
    WHEN 'backlog' THEN 'backlog'
    WHEN 'todo' THEN 'todo'
    WHEN 'in_progress' THEN 'in_progress'
    WHEN 'in_review' THEN 'in_progress'
    WHEN 'blocked' THEN 'in_progress'
    WHEN 'done' THEN 'done'
    WHEN 'cancelled' THEN 'closed'
    ELSE (SELECT s.category FROM issue_status s
           WHERE s.workspace_id = status_category.workspace_id AND s.key = status_category.status)
  END
$function$
;
