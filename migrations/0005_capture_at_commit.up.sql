-- Purpose: facts are captured in the transaction of the change and merged at its commit (W-038).
-- Rollback refuses when: never; rules and receipts stay, nothing is captured any more.

-- What this transaction did, until its commit. Unlogged: no row outlives its transaction. Who did
-- it comes from the transaction's settings alone (W-049), unless a trigger knows better.
CREATE UNLOGGED TABLE capture_buffer (
  xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 100),
  leads boolean NOT NULL,
  workspace_id uuid NOT NULL,
  issue_id uuid NOT NULL,
  event_type text NOT NULL,
  event_key text NOT NULL DEFAULT gen_random_uuid(),
  count bigint NOT NULL DEFAULT 1,
  occurred_at timestamptz NOT NULL DEFAULT wakeful_now(),
  first_occurred_at timestamptz NOT NULL DEFAULT wakeful_now(),
  actor_type text DEFAULT wakeful_setting('wakeful.actor_type'),
  actor_id uuid DEFAULT wakeful_setting('wakeful.actor_id')::uuid,
  source_task_id uuid DEFAULT wakeful_setting('wakeful.source_task_id')::uuid,
  agent_id uuid,
  details jsonb NOT NULL
) WITH (
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0);
CREATE INDEX capture_buffer_xact_idx ON capture_buffer (xact);

-- Without settings an actor is the run's agent if one is known, else the system (W-049).
CREATE VIEW captured AS
  SELECT xact, seq, workspace_id, issue_id, event_type, event_key, count, occurred_at,
         first_occurred_at, source_task_id, details,
         coalesce(actor_type, CASE WHEN agent_id IS NULL THEN 'system' ELSE 'agent' END)
           AS actor_type,
         CASE WHEN actor_type IS NULL THEN agent_id ELSE actor_id END AS actor_id,
         coalesce(agent_id, CASE WHEN actor_type = 'agent' THEN actor_id END) AS agent_id
    FROM capture_buffer;

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
BEGIN
  PERFORM pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
  RETURN EXISTS (
    SELECT FROM issue_wakeup r
     WHERE r.issue_id = wakeup_listens.issue_id AND r.enabled AND r.kind = 'event'
       AND r.event_types && types);
END $$;

CREATE FUNCTION wakeup_starts_listening() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(1, wakeful_listening_key(NEW.issue_id));
  RETURN NEW;
END $$;
CREATE TRIGGER wakeup_starts_listening_insert BEFORE INSERT ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.kind = 'event')
  EXECUTE FUNCTION wakeup_starts_listening();
CREATE TRIGGER wakeup_starts_listening_update BEFORE UPDATE ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.kind = 'event' AND (
    NOT OLD.enabled OR OLD.kind <> 'event' OR NOT OLD.event_types @> NEW.event_types))
  EXECUTE FUNCTION wakeup_starts_listening();

-- The union of two JSON arrays, in order of first appearance, at most 32 (W-065).
CREATE FUNCTION wakeup_set_union(old jsonb, new jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(jsonb_agg(x.value ORDER BY x.place), '[]')
    FROM (
      SELECT e.value, min(e.place) AS place
        FROM jsonb_array_elements(old || new) WITH ORDINALITY AS e (value, place)
       GROUP BY e.value
       ORDER BY min(e.place)
       LIMIT 32) x
$$;

-- A newer fact of the same type laid over an older one: newest payload, counts added, first time
-- kept, sets of actors and source runs united, an overflowing set marked (W-063, W-065). Older
-- payloads may lack the newer fields (W-040).
CREATE FUNCTION wakeup_merge_payload(old jsonb, new jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  field text;
  had jsonb;
  got jsonb;
  merged jsonb := new || jsonb_build_object(
    'coalesced_count', coalesce((old -> 'coalesced_count')::bigint, 1)
                     + (new -> 'coalesced_count')::bigint,
    'first_occurred_at', coalesce(old -> 'first_occurred_at', old -> 'occurred_at',
                                  new -> 'first_occurred_at'));
BEGIN
  FOREACH field IN ARRAY ARRAY['actors', 'source_task_ids'] LOOP
    had := coalesce(old -> field, '[]');
    got := new -> field;
    IF old ? (field || '_more')
       OR (jsonb_array_length(had) = 32 AND NOT had @> got) THEN
      merged := merged || jsonb_build_object(field || '_more', true);
    END IF;
    IF NOT had @> got THEN
      had := wakeup_set_union(had, got);
    END IF;
    merged := merged || jsonb_build_object(field, had);
  END LOOP;
  RETURN merged;
END $$;

-- Merges what this transaction captured into receipts, under the advisory locks of the touched
-- issues, and returns the issues that got a new free receipt (W-038, W-051, W-062 to W-064).
-- An engine calls it as its last statement; for every other writer the commit does. The joins
-- are pinned: a generic plan that hashes all rules halves the rate of commits.
CREATE FUNCTION wakeful_flush() RETURNS SETOF uuid
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  here xid8 := pg_current_xact_id_if_assigned();
  fact record;
  opened boolean;
BEGIN
  IF here IS NULL THEN RETURN; END IF;
  -- Rules are read only after their issue's lock is held: whoever changes one holds it, too.
  PERFORM pg_advisory_xact_lock(k.key)
     FROM (SELECT DISTINCT wakeful_issue_key(b.issue_id) AS key
             FROM capture_buffer b WHERE b.xact = here ORDER BY 1) k;
  IF NOT FOUND THEN RETURN; END IF;
  FOR fact IN
    SELECT r.id AS wakeup_id, r.revision, r.issue_id, f.event_type, f.event_key,
           f.details || jsonb_build_object(
             'event_id', f.event_key, 'event_type', f.event_type, 'version', 1,
             'occurred_at', f.occurred_at, 'workspace_id', f.workspace_id,
             'issue_id', f.issue_id, 'actor_type', f.actor_type, 'actor_id', f.actor_id,
             'source_task_id', f.source_task_id, 'agent_id', f.agent_id,
             'coalesced_count', f.count, 'first_occurred_at', f.first_occurred_at,
             'actors', jsonb_build_array(
               jsonb_build_object('type', f.actor_type, 'id', f.actor_id)),
             'source_task_ids', CASE WHEN f.source_task_id IS NULL THEN '[]'::jsonb
               ELSE jsonb_build_array(f.source_task_id) END) AS payload
      FROM captured f
      JOIN issue i ON i.id = f.issue_id
      LEFT JOIN agent_task_queue s ON s.id = f.source_task_id
      JOIN issue_wakeup r ON r.issue_id = f.issue_id AND r.enabled AND r.kind = 'event'
     WHERE f.xact = here
       AND wakeup_match(r, ROW(
             f.issue_id, f.event_type, f.actor_type, f.actor_id, f.agent_id, f.source_task_id,
             ARRAY[s.wakeup_id], status_is_closed(f.workspace_id, i.status))::wakeup_fact) IS NULL
     ORDER BY r.id, f.event_type, f.seq
  LOOP
    -- A key that is known already, and a repeat of the newest fact, count for nothing (W-062).
    INSERT INTO issue_wakeup_receipt AS x (
      wakeup_id, revision, event_key, event_type, coalesce_key, payload)
    SELECT fact.wakeup_id, fact.revision, fact.event_key, fact.event_type, fact.event_type,
           fact.payload
     WHERE NOT EXISTS (
             SELECT FROM issue_wakeup_receipt seen
              WHERE seen.wakeup_id = fact.wakeup_id AND seen.revision = fact.revision
                AND seen.event_key = fact.event_key)
    ON CONFLICT (wakeup_id, revision, coalesce_key)
      WHERE processed_at IS NULL AND task_id IS NULL AND coalesce_key IS NOT NULL
    DO UPDATE SET id = gen_random_uuid(),
                  payload = wakeup_merge_payload(x.payload, EXCLUDED.payload)
     WHERE x.payload ->> 'event_id' IS DISTINCT FROM EXCLUDED.payload ->> 'event_id'
    RETURNING x.xmax = 0 INTO opened;
    IF opened THEN
      RETURN NEXT fact.issue_id;
    END IF;
  END LOOP;
  DELETE FROM capture_buffer b WHERE b.xact = here;
END $$;

-- W-069: wakes the engines for a writer that is not one of them.
CREATE FUNCTION capture_at_commit() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF wakeful_setting('wakeful.hinted') = 'on' THEN
    PERFORM wakeful_flush();
  ELSE
    PERFORM pg_notify('wakeful_wakeups', issue_id::text) FROM wakeful_flush() issue_id;
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER capture_at_commit AFTER INSERT ON capture_buffer
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.leads) EXECUTE FUNCTION capture_at_commit();

-- comment.created: the author is the actor (W-045); the run that wrote it is the source. What one
-- statement says alike about one issue is one fact with a count, so that a bulk insert stays linear.
CREATE FUNCTION capture_comment_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  listening uuid[] := ARRAY(
    SELECT d.issue_id FROM (SELECT DISTINCT a.issue_id FROM added a) d
     WHERE wakeup_listens(d.issue_id, '{comment.created}'));
BEGIN
  IF listening = '{}' THEN RETURN NULL; END IF;
  INSERT INTO capture_buffer (leads, workspace_id, issue_id, event_type, count, actor_type,
                              actor_id, source_task_id, details)
  SELECT row_number() OVER () = 1, c.workspace_id, c.issue_id, 'comment.created', c.count,
         c.author_type, c.author_id,
         coalesce(c.source_task_id, wakeful_setting('wakeful.source_task_id')::uuid),
         jsonb_build_object(
           'comment_id', c.id, 'parent_comment_id', c.parent_id,
           'thread_id', CASE WHEN c.parent_id IS NULL THEN c.id
                             ELSE comment_thread_root(c.id) END,
           'author_type', c.author_type, 'author_id', c.author_id)
    FROM (
      SELECT DISTINCT ON (a.issue_id, a.author_type, a.author_id, a.source_task_id)
             a.*, count(*) OVER (
               PARTITION BY a.issue_id, a.author_type, a.author_id, a.source_task_id)
        FROM added a
       WHERE a.issue_id = ANY (listening)
       ORDER BY a.issue_id, a.author_type, a.author_id, a.source_task_id, a.id DESC) c;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_comment_insert AFTER INSERT ON comment
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION capture_comment_insert();

-- issue.status_changed: the key shares its prefix with the other facts of the same update (W-044).
CREATE FUNCTION capture_issue_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO capture_buffer (leads, workspace_id, issue_id, event_type, event_key, details)
  SELECT row_number() OVER () = 1, n.workspace_id, n.id, 'issue.status_changed',
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

-- W-042: the terminal facts have a key of their own and cannot recur.
CREATE FUNCTION run_event_key(run_id uuid, status text) RETURNS text
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT CASE WHEN status IN ('completed', 'failed', 'cancelled')
              THEN run_id || ':' || status ELSE gen_random_uuid()::text END
$$;

-- task.*: a row appeared (W-041); the source is the run itself. Daemons that wait for work of a
-- runtime learn of queued runs by one notification per runtime and transaction.
CREATE FUNCTION capture_run_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO capture_buffer (leads, workspace_id, issue_id, event_type, event_key,
                              source_task_id, agent_id, details)
  SELECT row_number() OVER () = 1, i.workspace_id, q.issue_id, run_event_type(q.status),
         run_event_key(q.id, q.status), q.id, q.agent_id,
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
  INSERT INTO capture_buffer (leads, workspace_id, issue_id, event_type, event_key,
                              source_task_id, agent_id, details)
  SELECT row_number() OVER () = 1, i.workspace_id, n.issue_id, run_event_type(n.status),
         run_event_key(n.id, n.status), n.id, n.agent_id,
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
