CREATE OR REPLACE FUNCTION public.wakeful_flush()
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  here xid8 := pg_current_xact_id_if_assigned();
  taken capture_buffer;
  fact capture_buffer;
  facts capture_buffer[];
  count integer := 0;
  held text;
  source_wakeup_ids uuid[];
  payload jsonb;
  same_source jsonb;
  rule record;
  ignored uuid[];
  reasons text[];
  is_new boolean;
  opened uuid[] := '{}';
BEGIN
  IF here IS NULL THEN RETURN opened; END IF;
  FOR taken IN DELETE FROM capture_buffer b WHERE b.xact = here RETURNING b.* LOOP
    count := count + 1;
    IF count = 1 THEN
      fact := taken;
    ELSE
      IF count = 2 THEN facts := ARRAY[fact]; END IF;
      facts := array_append(facts, taken);
    END IF;
  END LOOP;
  held := set_config('wakeful.buffered', '', true);
  IF count = 0 THEN RETURN opened; END IF;
  -- Rules are read only after their issue's lock is held: whoever changes one holds it, too. All
  -- locks first, in the order of their keys.
  IF count = 1 THEN
    held := pg_advisory_xact_lock(wakeful_issue_key(fact.issue_id));
  ELSE
    facts := wakeup_fold_facts(facts);
    count := cardinality(facts);
    FOREACH fact IN ARRAY facts LOOP
      held := pg_advisory_xact_lock(wakeful_issue_key(fact.issue_id));
    END LOOP;
  END IF;
  FOR place IN 1 .. count LOOP
    IF facts IS NOT NULL THEN fact := facts[place]; END IF;
    IF fact.event_type = 'issue.closed' THEN
      UPDATE issue_wakeup_receipt x SET processed_at = wakeful_now(), task_id = NULL
       WHERE x.wakeup_id IN (SELECT r.id FROM issue_wakeup r WHERE r.issue_id = fact.issue_id)
         AND x.processed_at IS NULL;
      CONTINUE;
    END IF;
    -- Without settings an actor is the run's agent if one is known, else the system (W-049).
    IF fact.actor_type IS NULL THEN
      fact.actor_type := CASE WHEN fact.agent_id IS NULL THEN 'system' ELSE 'agent' END;
      fact.actor_id := fact.agent_id;
    ELSIF fact.agent_id IS NULL AND fact.actor_type = 'agent' THEN
      fact.agent_id := fact.actor_id;
    END IF;
    source_wakeup_ids := NULL;
    IF fact.source_task_id IS NOT NULL THEN
      SELECT ARRAY[q.wakeup_id] INTO source_wakeup_ids
        FROM agent_task_queue q WHERE q.id = fact.source_task_id;
    END IF;
    payload := NULL;
    ignored := NULL;
    reasons := NULL;
    FOR rule IN
      SELECT r.id, r.revision,
             wakeup_match(r, ROW(
               fact.issue_id, fact.event_type, fact.actor_type, fact.actor_id, fact.agent_id,
               fact.source_task_id, source_wakeup_ids,
               status_is_closed(i.workspace_id, i.status))::wakeup_fact) AS mismatch
        FROM issue_wakeup r JOIN issue i ON i.id = r.issue_id
       WHERE r.issue_id = fact.issue_id AND r.enabled AND r.kind = 'event'
         AND fact.event_type = ANY (r.event_types)
       ORDER BY r.id
    LOOP
      IF rule.mismatch IS NOT NULL THEN
        ignored := array_append(ignored, rule.id);
        reasons := array_append(reasons, rule.mismatch);
        CONTINUE;
      END IF;
      IF payload IS NULL THEN
        payload := fact.details || to_jsonb(fact) - '{xact,recurs,details}'::text[]
          || jsonb_build_object('occurred_at', wakeful_time(fact.occurred_at),
                                'first_occurred_at', wakeful_time(
                                  coalesce(fact.first_occurred_at, fact.occurred_at)));
        same_source := jsonb_build_object('version', 1, 'actor_type', fact.actor_type,
          'actor_id', fact.actor_id, 'source_task_id', fact.source_task_id);
      END IF;
      -- A key that is known already counts for nothing, nor does a repeat of the newest fact
      -- (W-062).
      IF NOT fact.recurs AND EXISTS (
        SELECT FROM issue_wakeup_receipt seen
         WHERE seen.wakeup_id = rule.id AND seen.revision = rule.revision
           AND seen.event_key = fact.event_id) THEN
        ignored := array_append(ignored, rule.id);
        reasons := array_append(reasons, 'duplicate_key');
        CONTINUE;
      END IF;
      INSERT INTO issue_wakeup_receipt AS x (
        wakeup_id, revision, event_key, event_type, coalesce_key, payload)
      VALUES (rule.id, rule.revision, fact.event_id, fact.event_type, fact.event_type, payload)
      ON CONFLICT (wakeup_id, revision, coalesce_key)
        WHERE processed_at IS NULL AND task_id IS NULL
      DO UPDATE SET id = gen_random_uuid(),
                    -- The plain case of `wakeup_merge_payload`, which is what most merges are.
                    payload = CASE
                      WHEN x.payload @> same_source
                       AND NOT x.payload ?| '{actors,source_task_ids}'
                      THEN EXCLUDED.payload || jsonb_build_object(
                        'coalesced_count', coalesce((x.payload -> 'coalesced_count')::bigint, 1)
                                         + fact.coalesced_count,
                        'first_occurred_at', coalesce(x.payload -> 'first_occurred_at',
                                                      x.payload -> 'occurred_at'))
                      ELSE wakeup_merge_payload(x.payload, EXCLUDED.payload)
                    END
       WHERE x.payload ->> 'event_id' IS DISTINCT FROM EXCLUDED.event_key
      RETURNING x.xmax = 0 INTO is_new;
      IF is_new THEN
        opened := opened || fact.issue_id;
      ELSIF is_new IS NULL THEN
        ignored := array_append(ignored, rule.id);
        reasons := array_append(reasons, 'duplicate_key');
      END IF;
    END LOOP;
    IF ignored IS NOT NULL THEN
      PERFORM wakeup_ignore(fact, ignored, reasons);
    END IF;
  END LOOP;
  RETURN opened;
END $function$
;
