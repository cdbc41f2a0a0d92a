CREATE OR REPLACE FUNCTION public.wakeup_sources(payload jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT CASE
    WHEN jsonb_typeof(payload -> 'source_task_ids') = 'array' THEN payload -> 'source_task_ids'
    WHEN payload ->> 'source_task_id' IS NOT NULL
    THEN jsonb_build_array(payload -> 'source_task_id')
    ELSE '[]'
  END
$function$
;
