-- Purpose: facts are captured in the transaction of the change and merged at its commit (W-038).
-- Rollback refuses when: never; rules and receipts stay, nothing is captured any more.

-- What this transaction did, until its commit. Unlogged: no row outlives its transaction. Who did
-- it comes from the transaction's settings alone (W-049), unless a trigger knows better.
-- `recurs` is false for a fact whose key is the same whenever it is captured.
CREATE UNLOGGED TABLE capture_buffer (
  xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
  workspace_id uuid NOT NULL,
  issue_id uuid NOT NULL,
  event_type text NOT NULL,
  event_id text NOT NULL DEFAULT gen_random_uuid(),
  recurs boolean NOT NULL DEFAULT true,
  coalesced_count bigint NOT NULL DEFAULT 1,
  occurred_at timestamptz NOT NULL DEFAULT wakeful_now(),
  first_occurred_at timestamptz NOT NULL DEFAULT wakeful_now(),
  version integer NOT NULL DEFAULT 1,
  actor_type text DEFAULT wakeful_setting('wakeful.actor_type'),
  actor_id uuid DEFAULT wakeful_setting_uuid('wakeful.actor_id'),
  agent_id uuid,
  source_task_id uuid DEFAULT wakeful_setting_uuid('wakeful.source_task_id'),
  details jsonb NOT NULL
) WITH (
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX capture_buffer_xact_idx ON capture_buffer (xact);

-- One fact, as `wakeup_match` sees it.
CREATE TYPE wakeup_fact AS (
  issue_id uuid,
  event_type text,
  actor_type text,
  actor_id uuid,
  agent_id uuid,
  source_task_id uuid,
  source_wakeup_ids uuid[],
  issue_closed boolean
);

-- The one place that decides whether a fact reaches a rule: null, or why not (W-053 to W-058,
-- ignore codes of W-254). A single expression, so that the planner can inline it.
CREATE FUNCTION wakeup_match(rule issue_wakeup, fact wakeup_fact) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN rule.issue_id <> fact.issue_id THEN 'other_issue'
    WHEN NOT rule.enabled OR rule.kind <> 'event' THEN 'not_listening'
    WHEN fact.event_type <> ALL (rule.event_types) THEN 'other_event'
    WHEN fact.issue_closed THEN 'issue_closed'
    WHEN rule.filter_actor_type IS NOT NULL
      AND (rule.filter_actor_type IS DISTINCT FROM fact.actor_type
           OR rule.filter_actor_id IS DISTINCT FROM fact.actor_id) THEN 'filtered_actor'
    WHEN rule.filter_agent_id IS NOT NULL
      AND rule.filter_agent_id IS DISTINCT FROM fact.agent_id THEN 'filtered_agent'
    WHEN rule.filter_task_id IS NOT NULL
      AND rule.filter_task_id IS DISTINCT FROM fact.source_task_id THEN 'filtered_task'
    WHEN rule.source_task_id = fact.source_task_id THEN 'self_loop_registering_run'
    WHEN rule.id = ANY (fact.source_wakeup_ids) THEN 'self_loop_own_run'
  END
$$;

-- Takes part in the listening lock of an issue and tells whether any rule listens to one of these
-- types. Whoever switches listening on takes the same lock alone, before it commits; so either
-- this transaction sees the rule, or it commits before the rule does (W-016). An issue without
-- rules thereby costs its writers one lookup (W-039).
CREATE FUNCTION wakeup_listens(issue_id uuid, types text[]) RETURNS boolean
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

-- Takes the listening lock of an issue alone, within a second. It asks in short turns: whoever
-- writes queues behind somebody who waits for the lock alone, so an idle transaction that has
-- written to the issue must not make others wait for longer than such a turn; on a busy issue,
-- whose transactions are short, the first turn is enough. Raises lock_not_available (55P03).
CREATE FUNCTION wakeup_listen_alone(issue_id uuid) RETURNS void
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

CREATE FUNCTION wakeup_starts_listening() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM wakeup_listen_alone(NEW.issue_id);
  RETURN NEW;
END $$;
CREATE TRIGGER wakeup_starts_listening_insert BEFORE INSERT ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.kind = 'event')
  EXECUTE FUNCTION wakeup_starts_listening();
CREATE TRIGGER wakeup_starts_listening_update BEFORE UPDATE ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.kind = 'event' AND (
    NOT OLD.enabled OR OLD.kind <> 'event' OR NOT OLD.event_types @> NEW.event_types))
  EXECUTE FUNCTION wakeup_starts_listening();

-- Who stands behind a payload: its set, else its one actor; null for a payload that does not say.
CREATE FUNCTION wakeup_actors(payload jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN jsonb_typeof(payload -> 'actors') = 'array' THEN payload -> 'actors'
    WHEN payload ? 'actor_type' THEN jsonb_build_array(jsonb_build_object(
      'type', payload -> 'actor_type', 'id', payload -> 'actor_id'))
  END
$$;

-- The runs behind a payload.
CREATE FUNCTION wakeup_sources(payload jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN jsonb_typeof(payload -> 'source_task_ids') = 'array' THEN payload -> 'source_task_ids'
    WHEN payload ->> 'source_task_id' IS NOT NULL
    THEN jsonb_build_array(payload -> 'source_task_id')
    ELSE '[]'
  END
$$;

-- The union of two JSON arrays under a key, in order of first appearance: at most 32 members, and
-- a marker if there are more (W-065).
CREATE FUNCTION wakeup_set_union(key text, old jsonb, new jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT jsonb_build_object(
           key, coalesce(jsonb_agg(x.value ORDER BY x.place) FILTER (WHERE x.rank <= 32), '[]'))
      || CASE WHEN count(*) > 32 THEN jsonb_build_object(key || '_more', true) ELSE '{}' END
    FROM (
      SELECT e.value, min(e.place) AS place, row_number() OVER (ORDER BY min(e.place)) AS rank
        FROM jsonb_array_elements(old || new) WITH ORDINALITY AS e (value, place)
       GROUP BY e.value) x
$$;

-- A newer fact of the same type laid over an older one: newest payload, counts added, first time
-- kept, sets of actors and source runs united, a set that does not name everybody marked (W-063,
-- W-065). Older payloads may lack the newer fields (W-040). Facts of one actor and source need no
-- sets. The reference is `merge` in engine/domain/receipts.py.
CREATE FUNCTION wakeup_merge_payload(old jsonb, new jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  merged jsonb := new || jsonb_build_object(
    'coalesced_count', greatest((old -> 'coalesced_count')::bigint, 1)
                     + greatest((new -> 'coalesced_count')::bigint, 1),
    'first_occurred_at', coalesce(old -> 'first_occurred_at', old -> 'occurred_at',
                                  new -> 'first_occurred_at', new -> 'occurred_at'));
  had jsonb;
  got jsonb;
BEGIN
  IF NOT old ?| '{actors,source_task_ids}' AND NOT new ?| '{actors,source_task_ids}'
     AND old -> 'actor_type' = new -> 'actor_type' AND old -> 'actor_id' = new -> 'actor_id'
     AND old -> 'source_task_id' = new -> 'source_task_id' THEN
    RETURN merged;
  END IF;
  had := wakeup_actors(old);
  got := wakeup_actors(new);
  IF had IS NULL OR got IS NULL OR old ? 'actors_more' OR new ? 'actors_more' THEN
    merged := merged || '{"actors_more": true}';
  END IF;
  merged := merged || wakeup_set_union('actors', coalesce(had, '[]'), coalesce(got, '[]'));
  IF old ? 'source_task_ids_more' OR new ? 'source_task_ids_more' THEN
    merged := merged || '{"source_task_ids_more": true}';
  END IF;
  RETURN merged
      || wakeup_set_union('source_task_ids', wakeup_sources(old), wakeup_sources(new));
END $$;

-- What differs in nothing that a rule looks at is one fact with a count, so that a bulk change stays
-- linear; in the order of their issues' locks, and of one issue the newest last (W-063).
CREATE FUNCTION wakeup_fold_facts(facts capture_buffer[]) RETURNS capture_buffer[]
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

-- Merges what this transaction captured into receipts, under the advisory locks of the touched
-- issues, and returns the issues that got a new free receipt (W-038, W-051, W-062 to W-064).
-- An engine calls it as its last statement; for every other writer the commit does.
--
-- It is one function of small statements on purpose: what it costs a writer is the start of each
-- statement and of each function, and nearly always there is one fact. Index scans are pinned: a
-- plan made while the tables are small is kept when they are not.
CREATE FUNCTION wakeful_flush() RETURNS uuid[]
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

-- W-069: wakes the engines for a writer that is not one of them. The first row of a transaction
-- brings all of them along; for each of the others there is nothing left to look for.
CREATE FUNCTION capture_at_commit() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  opened uuid[];
BEGIN
  IF wakeful_setting('wakeful.buffered') IS NULL THEN RETURN NULL; END IF;
  opened := wakeful_flush();
  IF opened <> '{}' AND wakeful_setting('wakeful.hinted') IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify('wakeful_wakeups', issue_id::text) FROM unnest(opened) AS issue_id;
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER capture_at_commit AFTER INSERT ON capture_buffer
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION capture_at_commit();

-- comment.created: the author is the actor (W-045); the run that wrote it is the source.
CREATE FUNCTION capture_comment_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF wakeup_listens(NEW.issue_id, '{comment.created}') THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, actor_type, actor_id,
                                source_task_id, details)
    VALUES (NEW.workspace_id, NEW.issue_id, 'comment.created', NEW.author_type, NEW.author_id,
            coalesce(NEW.source_task_id, wakeful_setting_uuid('wakeful.source_task_id')),
            jsonb_build_object(
              'comment_id', NEW.id, 'parent_comment_id', NEW.parent_id,
              'thread_id', CASE WHEN NEW.parent_id IS NULL THEN NEW.id
                                ELSE comment_thread_root(NEW.id) END,
              'author_type', NEW.author_type, 'author_id', NEW.author_id));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_comment_insert AFTER INSERT ON comment
  FOR EACH ROW EXECUTE FUNCTION capture_comment_insert();

-- issue.status_changed: the key shares its prefix with the other facts of the same update (W-044).
CREATE FUNCTION capture_issue_update() RETURNS trigger
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
CREATE TRIGGER capture_issue_update AFTER UPDATE ON issue
  REFERENCING OLD TABLE AS before NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION capture_issue_update();

CREATE FUNCTION run_event_type(status text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'task.' || CASE status WHEN 'running' THEN 'started' ELSE status END
$$;

CREATE FUNCTION run_is_over(status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT status IN ('completed', 'failed', 'cancelled')
$$;

-- W-042: the terminal facts have a key of their own and cannot recur.
CREATE FUNCTION run_event_key(run_id uuid, status text) RETURNS text
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT CASE WHEN run_is_over(status) THEN run_id || ':' || status
              ELSE gen_random_uuid()::text END
$$;

-- task.*: a row appeared (W-041); the source is the run itself. Daemons that wait for work of a
-- runtime learn of queued runs by one notification per runtime and transaction.
CREATE FUNCTION capture_run_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, recurs,
                              source_task_id, agent_id, details)
  SELECT i.workspace_id, q.issue_id, run_event_type(q.status), run_event_key(q.id, q.status),
         NOT run_is_over(q.status), q.id, q.agent_id,
         jsonb_build_object(
           'task_id', q.id, 'status', q.status, 'previous_status', NULL,
           'retry_of_task_id', q.retry_of_task_id, 'rerun_of_task_id', q.rerun_of_task_id)
    FROM added q JOIN issue i ON i.id = q.issue_id
   WHERE wakeup_listens(q.issue_id, ARRAY[run_event_type(q.status)]);
  PERFORM pg_notify('wakeful_runs', r.runtime_id::text)
     FROM (SELECT DISTINCT q.runtime_id FROM added q
            WHERE q.status = 'queued' AND q.runtime_id IS NOT NULL) r;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_run_insert AFTER INSERT ON agent_task_queue
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION capture_run_insert();

-- task.*: a status changed (W-041).
CREATE FUNCTION capture_run_update() RETURNS trigger
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
CREATE TRIGGER capture_run_update AFTER UPDATE ON agent_task_queue
  REFERENCING OLD TABLE AS before NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION capture_run_update();

-- W-119: an earlier or new due time written by somebody who is not an engine re-arms the engines.
CREATE FUNCTION notify_timer() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF wakeful_setting('wakeful.hinted') IS NULL THEN
    PERFORM pg_notify('wakeful_timers', '');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER notify_timer_insert AFTER INSERT ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.next_fire_at IS NOT NULL) EXECUTE FUNCTION notify_timer();
CREATE TRIGGER notify_timer_update AFTER UPDATE ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.next_fire_at IS NOT NULL AND (
    NOT OLD.enabled OR NEW.next_fire_at IS DISTINCT FROM OLD.next_fire_at))
  EXECUTE FUNCTION notify_timer();
