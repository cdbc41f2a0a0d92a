CREATE OR REPLACE FUNCTION public.wakeful_begin(actor_type text, actor_id uuid, source_task_id uuid)
 RETURNS void
 LANGUAGE sql
AS $function$
  SELECT set_config('wakeful.actor_type', coalesce(actor_type, ''), true),
         set_config('wakeful.actor_id', coalesce(actor_id::text, ''), true),
         set_config('wakeful.source_task_id', coalesce(source_task_id::text, ''), true),
         set_config('wakeful.hinted', 'on', true);
$function$
;
