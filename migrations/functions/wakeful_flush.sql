CREATE OR REPLACE FUNCTION public.wakeful_flush()
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  here xid8 := pg_current_xact_id_if_assigned();
  facts capture_buffer[];
  fact capture_buffer;
  folded capture_buffer;
  held text;
  opened uuid[] := '{}';
BEGIN
  IF here IS NULL THEN RETURN opened; END IF;
  FOR fact IN DELETE FROM capture_buffer b WHERE b.xact = here RETURNING b.* LOOP
    facts := array_append(facts, fact);
  END LOOP;
  IF facts IS NULL THEN RETURN opened; END IF;
  IF cardinality(facts) > 1 THEN
    SELECT array_agg(f ORDER BY wakeful_issue_key(f.issue_id), f.event_type, f.actor_id,
                     f.source_task_id, f.occurred_at)
      INTO facts FROM unnest(facts) f;
  END IF;
  -- Rules are read only after their issue's lock is held: whoever changes one holds it, too. All
  -- locks first, in the order of their keys.
  FOREACH fact IN ARRAY facts LOOP
    held := pg_advisory_xact_lock(wakeful_issue_key(fact.issue_id));
  END LOOP;
  -- What differs in nothing that a rule looks at is one fact with a count, so that a bulk change
  -- stays linear.
  FOREACH fact IN ARRAY facts LOOP
    -- Without settings an actor is the run's agent if one is known, else the system (W-049).
    IF fact.actor_type IS NULL THEN
      fact.actor_type := CASE WHEN fact.agent_id IS NULL THEN 'system' ELSE 'agent' END;
      fact.actor_id := fact.agent_id;
    ELSIF fact.agent_id IS NULL AND fact.actor_type = 'agent' THEN
      fact.agent_id := fact.actor_id;
    END IF;
    IF folded.recurs AND fact.recurs AND fact.issue_id = folded.issue_id
       AND fact.event_type = folded.event_type
       AND (fact.actor_type, fact.actor_id, fact.agent_id, fact.source_task_id)
         IS NOT DISTINCT FROM
           (folded.actor_type, folded.actor_id, folded.agent_id, folded.source_task_id) THEN
      fact.coalesced_count := folded.coalesced_count + 1;
      fact.first_occurred_at := folded.first_occurred_at;
    ELSIF folded.issue_id IS NOT NULL AND wakeup_merge_fact(folded) THEN
      opened := opened || folded.issue_id;
    END IF;
    folded := fact;
  END LOOP;
  IF wakeup_merge_fact(folded) THEN
    opened := opened || folded.issue_id;
  END IF;
  RETURN opened;
END $function$
;
