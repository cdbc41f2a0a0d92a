-- Purpose: all 25 events are captured, and whoever closes an issue switches its rules off.
-- Rollback refuses when: never; rules of the further types stay and hear nothing.

-- How often somebody has begun to listen, one row for each listening lock. A transaction in
-- REPEATABLE READ or SERIALIZABLE sees the rules as they were at its snapshot: it locks the row of
-- its issue, which fails with 40001 if a rule began to listen since then (docs/decisions/0001).
CREATE TABLE wakeup_generation (
  key integer PRIMARY KEY,
  generation bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO wakeup_generation (key) SELECT generate_series(0, 1023);

-- Takes part in the listening lock of an issue and tells whether any rule listens to one of these
-- types. Whoever switches listening on takes the same lock alone, before it commits; so either
-- this transaction sees the rule, or it commits before the rule does (W-016). An issue without
-- rules thereby costs its writers one lookup (W-039).
CREATE OR REPLACE FUNCTION wakeup_listens(issue_id uuid, types text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  held text := pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
BEGIN
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    PERFORM FROM wakeup_generation g
      WHERE g.key = wakeful_listening_key(wakeup_listens.issue_id) FOR SHARE;
  END IF;
  IF NOT EXISTS (
    SELECT FROM issue_wakeup r
     WHERE r.issue_id = wakeup_listens.issue_id AND r.enabled AND r.kind = 'event'
       AND r.event_types && types) THEN
    RETURN false;
  END IF;
  held := set_config('wakeful.buffered', 'on', true);  -- the caller is about to (see the commit)
  RETURN true;
END $$;

-- Takes the listening lock of an issue alone, within seven tenths of a second: less than a server
-- waits before it looks for a deadlock, so that a writer which closes the issue meanwhile, and waits
-- for the rule that is being saved, is never the one to fail. It asks in short turns: whoever
-- writes queues behind somebody who waits for the lock alone, so an idle transaction that has
-- written to the issue must not make others wait for longer than such a turn; on a busy issue,
-- whose transactions are short, the first turn is enough. Raises lock_not_available (55P03).
CREATE OR REPLACE FUNCTION wakeup_listen_alone(issue_id uuid) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  deadline timestamptz := clock_timestamp() + interval '0.7 seconds';
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

-- The row of the generation is free for whoever has the listening lock alone: it is locked by
-- nobody who does not take part in that lock.
CREATE OR REPLACE FUNCTION wakeup_starts_listening() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM wakeup_listen_alone(NEW.issue_id);
  UPDATE wakeup_generation g SET generation = g.generation + 1
   WHERE g.key = wakeful_listening_key(NEW.issue_id);
  RETURN NEW;
END $$;

-- Listening anew is also what hears something else than before, or under another revision.
DROP TRIGGER wakeup_starts_listening_update ON issue_wakeup;
CREATE TRIGGER wakeup_starts_listening_update BEFORE UPDATE ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND NEW.kind = 'event' AND (
    NOT OLD.enabled OR OLD.kind <> 'event' OR NOT OLD.event_types @> NEW.event_types
    OR (OLD.issue_id, OLD.revision, OLD.source_task_id, OLD.filter_agent_id, OLD.filter_task_id,
        OLD.filter_actor_type, OLD.filter_actor_id)
       IS DISTINCT FROM
       (NEW.issue_id, NEW.revision, NEW.source_task_id, NEW.filter_agent_id, NEW.filter_task_id,
        NEW.filter_actor_type, NEW.filter_actor_id)))
  EXECUTE FUNCTION wakeup_starts_listening();

-- W-186: a rule is saved before its issue closes or after it, never at the same time; the closing
-- then finds the rule, or the rule finds the issue closed. Engines hold the issue already, first in
-- lock order; anybody else holds nothing yet.
CREATE FUNCTION wakeup_keeps_issue() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM issue i WHERE i.id = NEW.issue_id FOR SHARE;
  RETURN NEW;
END $$;
CREATE TRIGGER wakeup_keeps_issue BEFORE INSERT ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled) EXECUTE FUNCTION wakeup_keeps_issue();

-- W-186: the rules of an issue that has just been closed go off, whatever state they are in, and
-- unstarted runs of theirs are cancelled. Their inputs go at the commit, under the issue's lock, for
-- which a row of the buffer stands. Rules that were off already keep saying why.
-- Locks: rules, then runs, NO KEY UPDATE, in id order, then a part in the listening lock; the caller
-- has changed the issue. Index scans are pinned as in `wakeful_flush`.
CREATE FUNCTION wakeup_close(workspace_id uuid, issue_id uuid) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  rules uuid[] := ARRAY(
    SELECT r.id FROM issue_wakeup r
     WHERE r.issue_id = wakeup_close.issue_id ORDER BY r.id FOR NO KEY UPDATE);
  runs uuid[];
BEGIN
  IF rules <> '{}' THEN
    UPDATE issue_wakeup r
       SET enabled = false, disabled_at = wakeful_now(), updated_at = wakeful_now(),
           last_error = 'Switched off: the issue is closed.'
     WHERE r.id = ANY (rules) AND r.disabled_at IS NULL;
    runs := ARRAY(
      SELECT q.id FROM agent_task_queue q
       WHERE q.wakeup_id = ANY (rules) AND q.status IN ('queued', 'deferred')
         AND q.started_at IS NULL
       ORDER BY q.id FOR NO KEY UPDATE);
    IF runs <> '{}' THEN
      UPDATE agent_task_queue q
         SET status = 'cancelled', completed_at = wakeful_now(),
             error = 'Cancelled before it started: the issue was closed.'
       WHERE q.id = ANY (runs);
    END IF;
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, details)
    VALUES (wakeup_close.workspace_id, wakeup_close.issue_id, 'issue.closed', '{}');
    PERFORM set_config('wakeful.buffered', 'on', true);
  END IF;
  PERFORM wakeup_listens(issue_id, '{}');  -- fails where the rules are younger than the snapshot
END $$;

-- When a fact first occurred is known once facts are folded; of a single one it is when it occurred.
-- Two readings of the clock were apart by a microsecond now and then.
ALTER TABLE capture_buffer ALTER first_occurred_at DROP DEFAULT, ALTER first_occurred_at DROP NOT NULL;

-- What differs in nothing that a rule looks at is one fact with a count, so that a bulk change stays
-- linear; in the order of their issues' locks, and of one issue the newest last (W-063).
CREATE OR REPLACE FUNCTION wakeup_fold_facts(facts capture_buffer[]) RETURNS capture_buffer[]
LANGUAGE sql STABLE AS $$
  SELECT array_agg(
           ROW(n.xact, n.workspace_id, n.issue_id, n.event_type, n.event_id, n.recurs, n.count,
               n.occurred_at, n.first, n.version, n.actor_type, n.actor_id, n.agent_id,
               n.source_task_id, n.details)::capture_buffer
           ORDER BY wakeful_issue_key(n.issue_id), n.occurred_at)
    FROM (
      SELECT f.*, sum(f.coalesced_count) OVER alike AS count,
             min(f.occurred_at) OVER alike AS first,
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
-- issues, and returns the issues that got a new free receipt (W-038, W-051, W-062 to W-064). The
-- inputs of an issue that was closed go here, too (W-186).
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
                                'first_occurred_at', wakeful_time(
                                  coalesce(fact.first_occurred_at, fact.occurred_at)));
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

-- Appends one fact, by whoever the transaction says unless told otherwise, if a rule of the issue
-- listens to its type.
CREATE FUNCTION capture_fact(
  issue_id uuid, event_type text, details jsonb,
  actor_type text DEFAULT wakeful_setting('wakeful.actor_type'),
  actor_id uuid DEFAULT wakeful_setting_uuid('wakeful.actor_id')) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF wakeup_listens(issue_id, ARRAY[event_type]) THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, actor_type, actor_id, details)
    SELECT i.workspace_id, i.id, capture_fact.event_type, capture_fact.actor_type,
           capture_fact.actor_id, capture_fact.details
      FROM issue i WHERE i.id = capture_fact.issue_id;
  END IF;
END $$;

-- comment.resolved, .unresolved, .updated, and .deleted for a new tombstone: at most one of them for
-- one update (W-046). Who does it comes from the transaction, never from the comment (W-050).
CREATE FUNCTION capture_comment_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM capture_fact(
    NEW.issue_id,
    CASE WHEN NEW.deleted_at IS NOT NULL THEN 'comment.deleted'
         WHEN OLD.resolved_at IS NULL AND NEW.resolved_at IS NOT NULL THEN 'comment.resolved'
         WHEN OLD.resolved_at IS NOT NULL AND NEW.resolved_at IS NULL THEN 'comment.unresolved'
         ELSE 'comment.updated' END,
    jsonb_build_object(
      'comment_id', NEW.id, 'parent_comment_id', NEW.parent_id,
      'thread_id', CASE WHEN NEW.parent_id IS NULL THEN NEW.id
                        ELSE comment_thread_root(NEW.id) END,
      'author_type', NEW.author_type, 'author_id', NEW.author_id));
  RETURN NULL;
END $$;
-- What happens to a tombstone is silent: nobody sees it any more.
CREATE TRIGGER capture_comment_update AFTER UPDATE ON comment
  FOR EACH ROW WHEN (OLD.deleted_at IS NULL AND (
    NEW.deleted_at IS NOT NULL
    OR (OLD.resolved_at IS NULL) <> (NEW.resolved_at IS NULL)
    OR OLD.content IS DISTINCT FROM NEW.content))
  EXECUTE FUNCTION capture_comment_update();

-- comment.deleted: live comments are removed for good; purging tombstones is silent (W-046). By
-- statement, because a thread is often removed as a whole and the root must still be found: one fact
-- an issue, of the newest comment, that counts them all, which is what they would be merged into.
CREATE FUNCTION capture_comment_delete() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, coalesced_count, details)
  SELECT l.workspace_id, l.issue_id, 'comment.deleted', l.count,
         jsonb_build_object(
           'comment_id', l.id, 'parent_comment_id', l.parent_id,
           'thread_id', (
             WITH RECURSIVE up AS (
               SELECT l.id, l.parent_id, 0 AS hops
               UNION ALL
               SELECT p.id, p.parent_id, up.hops + 1
                 FROM up
                CROSS JOIN LATERAL (
                  SELECT c.id, c.parent_id FROM comment c WHERE c.id = up.parent_id
                  UNION ALL
                  SELECT g.id, g.parent_id FROM gone g WHERE g.id = up.parent_id) p
                WHERE up.hops < 256)
             SELECT up.id FROM up ORDER BY up.hops DESC LIMIT 1),
           'author_type', l.author_type, 'author_id', l.author_id)
    FROM (
      SELECT DISTINCT ON (g.issue_id) g.*, count(*) OVER (PARTITION BY g.issue_id) AS count
        FROM gone g
       WHERE g.deleted_at IS NULL
       ORDER BY g.issue_id, g.created_at DESC, g.id DESC) l
   WHERE wakeup_listens(l.issue_id, '{comment.deleted}');
  RETURN NULL;
END $$;
CREATE TRIGGER capture_comment_delete AFTER DELETE ON comment
  REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION capture_comment_delete();

-- The keys whose values differ, sorted (W-044). Names that are longer than 200 characters, and what
-- exceeds a hundred, are left out and marked: a payload must stay small whatever is typed. What is
-- no object has no keys.
CREATE FUNCTION wakeup_changed_keys(old jsonb, new jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT jsonb_build_object(
           'changed_fields',
           coalesce(jsonb_agg(k.key ORDER BY k.key) FILTER (WHERE k.place <= 100), '[]'))
      || CASE WHEN count(*) FILTER (WHERE k.place IS NULL OR k.place > 100) > 0
              THEN '{"changed_fields_more": true}' ELSE '{}' END::jsonb
    FROM (
      SELECT d.key, CASE WHEN length(d.key) <= 200 THEN
               row_number() OVER (PARTITION BY length(d.key) <= 200 ORDER BY d.key) END AS place
        FROM (
          SELECT key
            FROM jsonb_each(CASE WHEN jsonb_typeof(old) = 'object' THEN old ELSE '{}' END) o
            FULL JOIN jsonb_each(CASE WHEN jsonb_typeof(new) = 'object' THEN new ELSE '{}' END) n
            USING (key)
           WHERE o.value IS DISTINCT FROM n.value) d) k
$$;

-- Appends those of these facts of one update of an issue that a rule listens to. They share the
-- prefix of their keys, `:updated`, `:status`, `:assignee` and so on (W-044).
CREATE FUNCTION capture_issue_facts(old issue, new issue, types text[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  prefix text := gen_random_uuid();
BEGIN
  INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, details)
  SELECT new.workspace_id, new.id, t.type,
         prefix || ':' || split_part(substr(t.type, length('issue.') + 1), '_', 1),
         CASE t.type
           WHEN 'issue.updated' THEN jsonb_build_object('changed_fields', array_remove(ARRAY[
             CASE WHEN new.acceptance_criteria <> old.acceptance_criteria
                  THEN 'acceptance_criteria' END,
             CASE WHEN new.assignee_id IS DISTINCT FROM old.assignee_id THEN 'assignee_id' END,
             CASE WHEN new.assignee_type IS DISTINCT FROM old.assignee_type
                  THEN 'assignee_type' END,
             CASE WHEN new.context_refs <> old.context_refs THEN 'context_refs' END,
             CASE WHEN new.description <> old.description THEN 'description' END,
             CASE WHEN new.due_date IS DISTINCT FROM old.due_date THEN 'due_date' END,
             CASE WHEN new.metadata <> old.metadata THEN 'metadata' END,
             CASE WHEN new.parent_issue_id IS DISTINCT FROM old.parent_issue_id
                  THEN 'parent_issue_id' END,
             CASE WHEN new.priority <> old.priority THEN 'priority' END,
             CASE WHEN new.project_id IS DISTINCT FROM old.project_id THEN 'project_id' END,
             CASE WHEN new.properties <> old.properties THEN 'properties' END,
             CASE WHEN new.stage IS DISTINCT FROM old.stage THEN 'stage' END,
             CASE WHEN new.start_date IS DISTINCT FROM old.start_date THEN 'start_date' END,
             CASE WHEN new.status <> old.status THEN 'status' END,
             CASE WHEN new.title <> old.title THEN 'title' END], NULL))
           WHEN 'issue.status_changed' THEN jsonb_build_object(
             'previous_status', old.status, 'status', new.status,
             'previous_category', status_category(old.workspace_id, old.status),
             'category', status_category(new.workspace_id, new.status))
           WHEN 'issue.assignee_changed' THEN jsonb_build_object(
             'previous_assignee_type', old.assignee_type, 'previous_assignee_id', old.assignee_id,
             'assignee_type', new.assignee_type, 'assignee_id', new.assignee_id)
           WHEN 'issue.parent_changed' THEN jsonb_build_object(
             'previous_parent_issue_id', old.parent_issue_id,
             'parent_issue_id', new.parent_issue_id)
           WHEN 'issue.project_changed' THEN jsonb_build_object(
             'previous_project_id', old.project_id, 'project_id', new.project_id)
           WHEN 'issue.properties_changed'
             THEN wakeup_changed_keys(old.properties, new.properties)
           WHEN 'issue.metadata_changed' THEN wakeup_changed_keys(old.metadata, new.metadata)
         END
    FROM unnest(types) t (type)
   WHERE EXISTS (
     SELECT FROM issue_wakeup r
      WHERE r.issue_id = new.id AND r.enabled AND r.kind = 'event'
        AND t.type = ANY (r.event_types));
END $$;

-- issue.updated and what it is in particular (W-043, W-044). The update that closes the issue tells
-- nothing and switches its rules off (W-039, W-186). By row: no two rows have to be brought together,
-- and an update of what is no fact calls nothing.
CREATE OR REPLACE FUNCTION capture_issue_update() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  types text[];
BEGIN
  IF NEW.status <> OLD.status AND status_is_closed(NEW.workspace_id, NEW.status) THEN
    PERFORM wakeup_close(NEW.workspace_id, NEW.id);
    RETURN NULL;
  END IF;
  types := array_remove(ARRAY[
    'issue.updated',
    CASE WHEN NEW.status <> OLD.status THEN 'issue.status_changed' END,
    CASE WHEN NEW.assignee_type IS DISTINCT FROM OLD.assignee_type
           OR NEW.assignee_id IS DISTINCT FROM OLD.assignee_id THEN 'issue.assignee_changed' END,
    CASE WHEN NEW.parent_issue_id IS DISTINCT FROM OLD.parent_issue_id
         THEN 'issue.parent_changed' END,
    CASE WHEN NEW.project_id IS DISTINCT FROM OLD.project_id THEN 'issue.project_changed' END,
    CASE WHEN NEW.properties <> OLD.properties THEN 'issue.properties_changed' END,
    CASE WHEN NEW.metadata <> OLD.metadata THEN 'issue.metadata_changed' END], NULL);
  IF wakeup_listens(NEW.id, types) THEN
    PERFORM capture_issue_facts(OLD, NEW, types);
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER capture_issue_update ON issue;
CREATE TRIGGER capture_issue_update AFTER UPDATE ON issue
  FOR EACH ROW WHEN (
    (OLD.title, OLD.description, OLD.status, OLD.priority, OLD.assignee_type, OLD.assignee_id,
     OLD.parent_issue_id, OLD.project_id, OLD.due_date, OLD.start_date, OLD.stage, OLD.properties,
     OLD.metadata, OLD.acceptance_criteria, OLD.context_refs)
    IS DISTINCT FROM
    (NEW.title, NEW.description, NEW.status, NEW.priority, NEW.assignee_type, NEW.assignee_id,
     NEW.parent_issue_id, NEW.project_id, NEW.due_date, NEW.start_date, NEW.stage, NEW.properties,
     NEW.metadata, NEW.acceptance_criteria, NEW.context_refs))
  EXECUTE FUNCTION capture_issue_update();

-- task.*: a status changed (W-041). By row as well: rows of two transition tables are brought together
-- by whatever plan the first update of a session has left behind, which took hours for ten thousand.
CREATE OR REPLACE FUNCTION capture_run_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF wakeup_listens(NEW.issue_id, ARRAY[run_event_type(NEW.status)]) THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, event_id, recurs,
                                source_task_id, agent_id, details)
    SELECT i.workspace_id, i.id, run_event_type(NEW.status), run_event_key(NEW.id, NEW.status),
           NOT run_is_over(NEW.status), NEW.id, NEW.agent_id,
           jsonb_build_object(
             'task_id', NEW.id, 'status', NEW.status, 'previous_status', OLD.status,
             'retry_of_task_id', NEW.retry_of_task_id, 'rerun_of_task_id', NEW.rerun_of_task_id)
      FROM issue i WHERE i.id = NEW.issue_id;
  END IF;
  IF NEW.status = 'queued' AND NEW.runtime_id IS NOT NULL THEN
    PERFORM pg_notify('wakeful_runs', NEW.runtime_id::text);  -- the server tells equal ones once
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER capture_run_update ON agent_task_queue;
CREATE TRIGGER capture_run_update AFTER UPDATE ON agent_task_queue
  FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
  EXECUTE FUNCTION capture_run_update();

-- issue.labels_changed: a label is attached or detached.
CREATE FUNCTION capture_label() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM capture_fact(NEW.issue_id, 'issue.labels_changed',
      jsonb_build_object('label_id', NEW.label_id, 'action', 'added'));
  ELSE
    PERFORM capture_fact(OLD.issue_id, 'issue.labels_changed',
      jsonb_build_object('label_id', OLD.label_id, 'action', 'removed'));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_label AFTER INSERT OR DELETE ON issue_to_label
  FOR EACH ROW EXECUTE FUNCTION capture_label();

-- What a reaction is, in a payload (W-047).
CREATE FUNCTION reaction_details(
  id uuid, target_type text, target_id uuid, emoji text, actor_type text, actor_id uuid)
RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT jsonb_build_object(
    'reaction_id', id, 'target_type', target_type, 'target_id', target_id, 'emoji', emoji,
    'reaction_actor_type', actor_type, 'reaction_actor_id', actor_id)
$$;

-- reaction.added, by the one who reacts, and reaction.removed, by whoever takes it back (W-047).
CREATE FUNCTION capture_issue_reaction() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM capture_fact(
      NEW.issue_id, 'reaction.added',
      reaction_details(NEW.id, 'issue', NEW.issue_id, NEW.emoji, NEW.actor_type, NEW.actor_id),
      NEW.actor_type, NEW.actor_id);
  ELSE
    PERFORM capture_fact(
      OLD.issue_id, 'reaction.removed',
      reaction_details(OLD.id, 'issue', OLD.issue_id, OLD.emoji, OLD.actor_type, OLD.actor_id));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_issue_reaction AFTER INSERT OR DELETE ON issue_reaction
  FOR EACH ROW EXECUTE FUNCTION capture_issue_reaction();

-- The issue of a comment; null for one that is gone.
CREATE FUNCTION comment_issue(comment_id uuid) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT c.issue_id FROM comment c WHERE c.id = comment_id
$$;

CREATE FUNCTION capture_comment_reaction() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM capture_fact(
      comment_issue(NEW.comment_id), 'reaction.added',
      reaction_details(
        NEW.id, 'comment', NEW.comment_id, NEW.emoji, NEW.actor_type, NEW.actor_id),
      NEW.actor_type, NEW.actor_id);
  ELSE
    PERFORM capture_fact(
      comment_issue(OLD.comment_id), 'reaction.removed',
      reaction_details(
        OLD.id, 'comment', OLD.comment_id, OLD.emoji, OLD.actor_type, OLD.actor_id));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_comment_reaction AFTER INSERT OR DELETE ON comment_reaction
  FOR EACH ROW EXECUTE FUNCTION capture_comment_reaction();

-- attachment.detached from the old place and attachment.attached to the new one (W-048); a file that
-- is bound to nothing is no fact.
CREATE FUNCTION capture_attachment() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  IF coalesce(OLD.issue_id, OLD.comment_id) IS NOT NULL THEN
    PERFORM capture_fact(
      coalesce(OLD.issue_id, comment_issue(OLD.comment_id)), 'attachment.detached',
      jsonb_build_object(
        'attachment_id', OLD.id,
        'target_type', CASE WHEN OLD.issue_id IS NULL THEN 'comment' ELSE 'issue' END,
        'target_id', coalesce(OLD.issue_id, OLD.comment_id)));
  END IF;
  IF coalesce(NEW.issue_id, NEW.comment_id) IS NOT NULL THEN
    PERFORM capture_fact(
      coalesce(NEW.issue_id, comment_issue(NEW.comment_id)), 'attachment.attached',
      jsonb_build_object(
        'attachment_id', NEW.id,
        'target_type', CASE WHEN NEW.issue_id IS NULL THEN 'comment' ELSE 'issue' END,
        'target_id', coalesce(NEW.issue_id, NEW.comment_id)));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER capture_attachment AFTER INSERT OR DELETE ON attachment
  FOR EACH ROW EXECUTE FUNCTION capture_attachment();
CREATE TRIGGER capture_attachment_moved AFTER UPDATE ON attachment
  FOR EACH ROW WHEN ((OLD.issue_id, OLD.comment_id) IS DISTINCT FROM (NEW.issue_id, NEW.comment_id))
  EXECUTE FUNCTION capture_attachment();
