CREATE OR REPLACE FUNCTION public.capture_fact(issue_id uuid, event_type text, details jsonb, actor_type text DEFAULT wakeful_setting('wakeful.actor_type'::text), actor_id uuid DEFAULT wakeful_setting_uuid('wakeful.actor_id'::text))
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF wakeup_listens(issue_id, ARRAY[event_type]) THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, actor_type, actor_id, details)
    SELECT i.workspace_id, i.id, capture_fact.event_type, capture_fact.actor_type,
           capture_fact.actor_id, capture_fact.details
      FROM issue i WHERE i.id = capture_fact.issue_id;
  END IF;
END $function$
;
