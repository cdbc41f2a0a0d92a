-- Purpose: facts that a rule ignores are counted, one row for each rule and reason (W-254).
-- Rollback refuses when: never; the counts go.

-- Why a fact of a type that a rule listens to does not reach it: what `wakeup_match` says of rules that
-- listen, and a key that is known already (W-062).
CREATE FUNCTION wakeup_ignore_reasons() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT '{filtered_actor,filtered_agent,filtered_task,self_loop_registering_run,self_loop_own_run,
           duplicate_key,issue_closed}'::text[]
$$;

-- The last fact that was ignored stays as a reference: what it was, who did it, in which run.
CREATE TABLE wakeup_ignored (
  wakeup_id uuid NOT NULL,
  reason text NOT NULL CHECK (reason = ANY (wakeup_ignore_reasons())),
  count bigint NOT NULL DEFAULT 0,
  last_at timestamptz,
  last_event_type text,
  last_actor_type text,
  last_actor_id uuid,
  last_agent_id uuid,
  last_source_task_id uuid,
  PRIMARY KEY (wakeup_id, reason)
) WITH (fillfactor = 50);
INSERT INTO wakeup_ignored (wakeup_id, reason)
SELECT r.id, reason FROM issue_wakeup r, unnest(wakeup_ignore_reasons()) AS reason;

-- The rows come and go with their rule, whoever writes it: who counts never makes one, and so never
-- waits for anybody else who does.
CREATE FUNCTION wakeup_keep_ignored() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO wakeup_ignored (wakeup_id, reason)
    SELECT NEW.id, reason FROM unnest(wakeup_ignore_reasons()) AS reason;
  ELSE
    DELETE FROM wakeup_ignored g WHERE g.wakeup_id = OLD.id;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER wakeup_keep_ignored AFTER INSERT OR DELETE ON issue_wakeup
  FOR EACH ROW EXECUTE FUNCTION wakeup_keep_ignored();

-- Counts a fact that these rules ignore, each for its reason. A row that somebody holds is left out: a
-- count may be a little low, and no change ever waits or fails for it. In REPEATABLE READ and
-- SERIALIZABLE nothing is counted, because there a row that somebody has counted in since the snapshot
-- is an error. Locks: the counts, after everything else and never waited for.
CREATE FUNCTION wakeup_ignore(fact capture_buffer, rules uuid[], reasons text[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
END $$;

-- Merges what this transaction captured into receipts, under the advisory locks of the touched
-- issues, and returns the issues that got a new free receipt (W-038, W-051, W-062 to W-064). The
-- inputs of an issue that was closed go here, too (W-186). A fact of a type that a rule listens to, and
-- that does not reach it, is counted (W-254).
-- An engine calls it as its last statement; for every other writer the commit does.
--
-- It is one function of small statements on purpose: what it costs a writer is the start of each
-- statement and of each function, and nearly always there is one fact. Index scans are pinned: a
-- plan made while the tables are small is kept when they are not.
CREATE OR REPLACE FUNCTION wakeful_flush() RETURNS uuid[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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
END $$;
