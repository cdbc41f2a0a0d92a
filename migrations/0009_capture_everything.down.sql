DROP TRIGGER capture_attachment_moved ON attachment;
DROP TRIGGER capture_attachment ON attachment;
DROP TRIGGER capture_comment_reaction ON comment_reaction;
DROP TRIGGER capture_issue_reaction ON issue_reaction;
DROP TRIGGER capture_label ON issue_to_label;
DROP TRIGGER capture_run_update ON agent_task_queue;
DROP TRIGGER capture_issue_update ON issue;
DROP TRIGGER capture_comment_delete ON comment;
DROP TRIGGER capture_comment_update ON comment;
DROP TRIGGER wakeup_keeps_issue ON issue_wakeup;
DROP TRIGGER wakeup_starts_listening_update ON issue_wakeup;
DROP FUNCTION capture_attachment();
DROP FUNCTION capture_comment_reaction();
DROP FUNCTION comment_issue(uuid);
DROP FUNCTION capture_issue_reaction();
DROP FUNCTION reaction_details(uuid, text, uuid, text, text, uuid);
DROP FUNCTION capture_label();
DROP FUNCTION wakeup_changed_keys(jsonb, jsonb);
DROP FUNCTION capture_issue_facts(issue, issue, text[]);
DROP FUNCTION capture_comment_delete();
DROP FUNCTION capture_comment_update();
DROP FUNCTION capture_fact(uuid, text, jsonb, text, uuid);
DROP FUNCTION wakeup_close(uuid, uuid);
DROP FUNCTION wakeup_keeps_issue();

CREATE OR REPLACE FUNCTION wakeup_listens(issue_id uuid, types text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  held text := pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
BEGIN
  IF NOT EXISTS (
    SELECT FROM issue_wakeup r
     WHERE r.issue_id = wakeup_listens.issue_id AND r.enabled AND r.kind = 'event'
       AND r.event_types && types) THEN
    RETURN false;
  END IF;
  held := set_config('wakeful.buffered', 'on', true);  -- the caller is about to (see the commit)
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION wakeup_listen_alone(issue_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '1 second';
  before text := current_setting('lock_timeout');
BEGIN
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '20ms', true);
      PERFORM pg_advisory_xact_lock(1, wakeful_listening_key(issue_id));
      PERFORM set_config('lock_timeout', before, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() > deadline THEN RAISE; END IF;
      PERFORM pg_sleep(0.03);
    END;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION wakeup_starts_listening() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM wakeup_listen_alone(NEW.issue_id);
  RETURN NEW;
END $$;

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
        payload := fact.details || to_jsonb(fact) - '{xact,recurs,details}'::text[]
          || jsonb_build_object('occurred_at', wakeful_time(fact.occurred_at),
                                'first_occurred_at', wakeful_time(fact.first_occurred_at));
        same_source := jsonb_build_object('version', 1, 'actor_type', fact.actor_type,
          'actor_id', fact.actor_id, 'source_task_id', fact.source_task_id);
      END IF;
      -- A key that is known already counts for nothing, nor does a repeat of the newest fact
      -- (W-062).
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
      END IF;
    END LOOP;
  END LOOP;
  RETURN opened;
END $$;

CREATE OR REPLACE FUNCTION capture_issue_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, details)
  SELECT n.workspace_id, n.id, 'issue.status_changed',
         gen_random_uuid() || ':status',
         jsonb_build_object(
           'previous_status', o.status, 'status', n.status,
           'previous_category', status_category(o.workspace_id, o.status),
           'category', status_category(n.workspace_id, n.status))
    FROM before o JOIN after n USING (id)
   WHERE n.status IS DISTINCT FROM o.status
     AND wakeup_listens(n.id, '{issue.status_changed}');
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION capture_run_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, recurs,
                              source_task_id, agent_id, details)
  SELECT i.workspace_id, n.issue_id, run_event_type(n.status), run_event_key(n.id, n.status),
         NOT run_is_over(n.status), n.id, n.agent_id,
         jsonb_build_object(
           'task_id', n.id, 'status', n.status, 'previous_status', o.status,
           'retry_of_task_id', n.retry_of_task_id, 'rerun_of_task_id', n.rerun_of_task_id)
    FROM before o JOIN after n USING (id) JOIN issue i ON i.id = n.issue_id
   WHERE n.status IS DISTINCT FROM o.status
     AND wakeup_listens(n.issue_id, ARRAY[run_event_type(n.status)]);
  PERFORM pg_notify('wakeful_runs', r.runtime_id::text)
     FROM (SELECT DISTINCT n.runtime_id FROM before o JOIN after n USING (id)
            WHERE n.status = 'queued' AND o.status <> 'queued' AND n.runtime_id IS NOT NULL) r;
  RETURN NULL;
END $$;

CREATE TRIGGER wakeup_starts_listening_update BEFORE UPDATE ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.kind = 'event' AND (
    NOT OLD.enabled OR OLD.kind <> 'event' OR NOT OLD.event_types @> NEW.event_types))
  EXECUTE FUNCTION wakeup_starts_listening();

CREATE TRIGGER capture_issue_update AFTER UPDATE ON issue
  REFERENCING OLD TABLE AS before NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION capture_issue_update();

CREATE TRIGGER capture_run_update AFTER UPDATE ON agent_task_queue
  REFERENCING OLD TABLE AS before NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION capture_run_update();

CREATE OR REPLACE FUNCTION wakeup_fold_facts(facts capture_buffer[]) RETURNS capture_buffer[]
LANGUAGE sql STABLE AS $$
  SELECT array_agg(
           ROW(n.xact, n.workspace_id, n.issue_id, n.event_type, n.event_id, n.recurs, n.count,
               n.occurred_at, n.first, n.version, n.actor_type, n.actor_id, n.agent_id,
               n.source_task_id, n.details)::capture_buffer
           ORDER BY wakeful_issue_key(n.issue_id), n.occurred_at)
    FROM (
      SELECT f.*, sum(f.coalesced_count) OVER alike AS count,
             min(f.first_occurred_at) OVER alike AS first,
             row_number() OVER (
               PARTITION BY f.issue_id, f.event_type, f.actor_type, f.actor_id, f.agent_id,
                            f.source_task_id, CASE WHEN NOT f.recurs THEN f.event_id END
               ORDER BY f.occurred_at DESC) AS age
        FROM unnest(facts) f
      WINDOW alike AS (
        PARTITION BY f.issue_id, f.event_type, f.actor_type, f.actor_id, f.agent_id,
                     f.source_task_id, CASE WHEN NOT f.recurs THEN f.event_id END)) n
   WHERE n.age = 1
$$;

ALTER TABLE capture_buffer
  ALTER first_occurred_at SET NOT NULL, ALTER first_occurred_at SET DEFAULT wakeful_now();

DROP TABLE wakeup_generation;
