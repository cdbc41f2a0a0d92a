CREATE OR REPLACE FUNCTION public.capture_comment_delete()
 RETURNS trigger
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, coalesced_count, details)
  SELECT l.workspace_id, l.issue_id, 'comment.deleted', l.count,
         jsonb_build_object(
           'comment_id', l.id, 'parent_comment_id', l.parent_id,
           'thread_id', (
             WITH RECURSIVE up AS (
               SELECT l.id, l.parent_id, 0 AS hops
               UNION ALL
               SELECT p.id, p.parent_id, up.hops + 1
                 FROM up
                CROSS JOIN LATERAL (
                  SELECT c.id, c.parent_id FROM comment c WHERE c.id = up.parent_id
                  UNION ALL
                  SELECT g.id, g.parent_id FROM gone g WHERE g.id = up.parent_id) p
                WHERE up.hops < 256)
             SELECT up.id FROM up ORDER BY up.hops DESC LIMIT 1),
           'author_type', l.author_type, 'author_id', l.author_id)
    FROM (
      SELECT DISTINCT ON (g.issue_id) g.*, count(*) OVER (PARTITION BY g.issue_id) AS count
        FROM gone g
       WHERE g.deleted_at IS NULL
       ORDER BY g.issue_id, g.created_at DESC, g.id DESC) l
   WHERE wakeup_listens(l.issue_id, '{comment.deleted}');
  RETURN NULL;
END $function$
;
