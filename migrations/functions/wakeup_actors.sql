CREATE OR REPLACE FUNCTION public.wakeup_actors(payload jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT CASE
    WHEN jsonb_typeof(payload -> 'actors') = 'array' THEN payload -> 'actors'
    WHEN payload ? 'actor_type' THEN jsonb_build_array(jsonb_build_object(
      'type', payload -> 'actor_type', 'id', payload -> 'actor_id'))
  END
$function$
;
