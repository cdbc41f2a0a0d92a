CREATE OR REPLACE FUNCTION public.reaction_details(id uuid, target_type text, target_id uuid, emoji text, actor_type text, actor_id uuid)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT jsonb_build_object(
    'reaction_id', id, 'target_type', target_type, 'target_id', target_id, 'emoji', emoji,
    'reaction_actor_type', actor_type, 'reaction_actor_id', actor_id)
$function$
;
