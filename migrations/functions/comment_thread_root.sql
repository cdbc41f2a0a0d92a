CREATE OR REPLACE FUNCTION public.comment_thread_root(comment_id uuid)
 RETURNS uuid
 LANGUAGE sql
 STABLE
AS $function$
  WITH RECURSIVE up AS (
    SELECT c.id, c.parent_id, 0 AS hops FROM comment c WHERE c.id = comment_id
    UNION ALL
    SELECT c.id, c.parent_id, up.hops + 1
      FROM up JOIN comment c ON c.id = up.parent_id
     WHERE up.hops < 256
  )
  SELECT id FROM up ORDER BY hops DESC LIMIT 1
$function$
;
