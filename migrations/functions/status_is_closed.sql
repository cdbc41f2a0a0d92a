CREATE OR REPLACE FUNCTION public.status_is_closed(workspace_id uuid, status text)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  SELECT coalesce(status_category(workspace_id, status) IN ('done', 'closed'), false)
$function$
;
