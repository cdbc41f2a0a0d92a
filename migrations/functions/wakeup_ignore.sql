CREATE OR REPLACE FUNCTION public.wakeup_ignore(fact capture_buffer, rules uuid[], reasons text[])
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
BEGIN
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    RETURN;
  END IF;
  UPDATE wakeup_ignored g
     SET count = g.count + fact.coalesced_count, last_at = fact.occurred_at,
         last_event_type = fact.event_type, last_actor_type = fact.actor_type,
         last_actor_id = fact.actor_id, last_agent_id = fact.agent_id,
         last_source_task_id = fact.source_task_id
    FROM (SELECT k.wakeup_id, k.reason
            FROM unnest(rules, reasons) AS wanted (id, reason)
            JOIN wakeup_ignored k ON k.wakeup_id = wanted.id AND k.reason = wanted.reason
             FOR NO KEY UPDATE OF k SKIP LOCKED) free
   WHERE g.wakeup_id = free.wakeup_id AND g.reason = free.reason;
END $function$
;
