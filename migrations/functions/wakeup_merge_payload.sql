CREATE OR REPLACE FUNCTION public.wakeup_merge_payload(old jsonb, new jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
DECLARE
  merged jsonb := new || jsonb_build_object(
    'coalesced_count', greatest((old -> 'coalesced_count')::bigint, 1)
                     + greatest((new -> 'coalesced_count')::bigint, 1),
    'first_occurred_at', coalesce(old -> 'first_occurred_at', old -> 'occurred_at',
                                  new -> 'first_occurred_at', new -> 'occurred_at'));
  had jsonb;
  got jsonb;
BEGIN
  IF NOT old ?| '{actors,source_task_ids}' AND NOT new ?| '{actors,source_task_ids}'
     AND old -> 'actor_type' = new -> 'actor_type' AND old -> 'actor_id' = new -> 'actor_id'
     AND old -> 'source_task_id' = new -> 'source_task_id' THEN
    RETURN merged;
  END IF;
  had := wakeup_actors(old);
  got := wakeup_actors(new);
  IF had IS NULL OR got IS NULL OR old ? 'actors_more' OR new ? 'actors_more' THEN
    merged := merged || '{"actors_more": true}';
  END IF;
  merged := merged || wakeup_set_union('actors', coalesce(had, '[]'), coalesce(got, '[]'));
  IF old ? 'source_task_ids_more' OR new ? 'source_task_ids_more' THEN
    merged := merged || '{"source_task_ids_more": true}';
  END IF;
  RETURN merged
      || wakeup_set_union('source_task_ids', wakeup_sources(old), wakeup_sources(new));
END $function$
;
