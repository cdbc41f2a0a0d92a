CREATE OR REPLACE FUNCTION public.capture_issue_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, details)
  SELECT n.workspace_id, n.id, 'issue.status_changed',
         gen_random_uuid() || ':status',
         jsonb_build_object(
           'previous_status', o.status, 'status', n.status,
           'previous_category', status_category(o.workspace_id, o.status),
           'category', status_category(n.workspace_id, n.status))
    FROM before o JOIN after n USING (id)
   WHERE n.status IS DISTINCT FROM o.status
     AND wakeup_listens(n.id, '{issue.status_changed}');
  RETURN NULL;
END $function$
;
