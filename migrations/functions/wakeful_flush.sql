CREATE OR REPLACE FUNCTION public.wakeful_flush()
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
  here xid8 := pg_current_xact_id_if_assigned();
  facts capture_buffer[];
  fact capture_buffer;
  held text;
  opened uuid[] := '{}';
BEGIN
  IF here IS NULL THEN RETURN opened; END IF;
  FOR fact IN DELETE FROM capture_buffer b WHERE b.xact = here RETURNING b.* LOOP
    facts := array_append(facts, fact);
  END LOOP;
  held := set_config('wakeful.buffered', '', true);
  IF facts IS NULL THEN RETURN opened; END IF;
  IF cardinality(facts) > 1 THEN
    facts := wakeup_fold_facts(facts);
  END IF;
  -- Rules are read only after their issue's lock is held: whoever changes one holds it, too. All
  -- locks first, in the order of their keys.
  FOREACH fact IN ARRAY facts LOOP
    held := pg_advisory_xact_lock(wakeful_issue_key(fact.issue_id));
  END LOOP;
  FOREACH fact IN ARRAY facts LOOP
    -- Without settings an actor is the run's agent if one is known, else the system (W-049).
    IF fact.actor_type IS NULL THEN
      fact.actor_type := CASE WHEN fact.agent_id IS NULL THEN 'system' ELSE 'agent' END;
      fact.actor_id := fact.agent_id;
    ELSIF fact.agent_id IS NULL AND fact.actor_type = 'agent' THEN
      fact.agent_id := fact.actor_id;
    END IF;
    IF wakeup_merge_fact(fact) THEN
      opened := opened || fact.issue_id;
    END IF;
  END LOOP;
  RETURN opened;
END $function$
;
