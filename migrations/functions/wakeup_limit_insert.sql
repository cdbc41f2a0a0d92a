CREATE OR REPLACE FUNCTION public.wakeup_limit_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM wakeup_limit(array_agg(n.workspace_id), array_agg(n.issue_id))
     FROM added n WHERE n.enabled HAVING count(*) > 0;
  RETURN NULL;
END $function$
;
