CREATE OR REPLACE FUNCTION public.comment_issue(comment_id uuid)
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
AS $function$
  SELECT c.issue_id FROM comment c WHERE c.id = comment_id
$function$
;
