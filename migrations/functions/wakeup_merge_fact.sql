CREATE OR REPLACE FUNCTION public.wakeup_merge_fact(fact capture_buffer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
DECLARE
  source_wakeup_ids uuid[];
  payload jsonb;
  rule record;
  is_new boolean;
  opened boolean := false;
BEGIN
  IF fact.source_task_id IS NOT NULL THEN
    SELECT ARRAY[q.wakeup_id] INTO source_wakeup_ids
      FROM agent_task_queue q WHERE q.id = fact.source_task_id;
  END IF;
  FOR rule IN
    SELECT r.id, r.revision
      FROM issue_wakeup r JOIN issue i ON i.id = r.issue_id
     WHERE r.issue_id = fact.issue_id AND r.enabled AND r.kind = 'event'
       AND wakeup_match(r, ROW(
             fact.issue_id, fact.event_type, fact.actor_type, fact.actor_id, fact.agent_id,
             fact.source_task_id, source_wakeup_ids,
             status_is_closed(i.workspace_id, i.status))::wakeup_fact) IS NULL
     ORDER BY r.id
  LOOP
    IF payload IS NULL THEN
      payload := fact.details || to_jsonb(fact) - '{xact,recurs,details}'::text[];
    END IF;
    CONTINUE WHEN NOT fact.recurs AND EXISTS (
      SELECT FROM issue_wakeup_receipt seen
       WHERE seen.wakeup_id = rule.id AND seen.revision = rule.revision
         AND seen.event_key = fact.event_id);
    INSERT INTO issue_wakeup_receipt AS x (
      wakeup_id, revision, event_key, event_type, coalesce_key, payload)
    VALUES (rule.id, rule.revision, fact.event_id, fact.event_type, fact.event_type, payload)
    ON CONFLICT (wakeup_id, revision, coalesce_key)
      WHERE processed_at IS NULL AND task_id IS NULL
    DO UPDATE SET id = gen_random_uuid(),
                  payload = wakeup_merge_payload(x.payload, EXCLUDED.payload)
     WHERE x.payload ->> 'event_id' IS DISTINCT FROM EXCLUDED.event_key
    RETURNING x.xmax = 0 INTO is_new;
    opened := opened OR coalesce(is_new, false);
  END LOOP;
  RETURN opened;
END $function$
;
