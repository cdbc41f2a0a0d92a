--
-- PostgreSQL database dump
--



SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: wakeful_now(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_now() RETURNS timestamp with time zone
    LANGUAGE sql PARALLEL SAFE
    AS $$ SELECT clock_timestamp() $$;


--
-- Name: wakeful_uuid7(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_uuid7() RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    AS $$
  SELECT encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          PLACING substring(
            int8send(floor(extract(epoch FROM wakeful_now()) * 1000)::bigint) FROM 3)
          FROM 1 FOR 6),
        52, 1),
      53, 1),
    'hex')::uuid
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: issue_wakeup; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_wakeup (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    issue_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    created_by uuid NOT NULL,
    source_task_id uuid,
    parent_comment_id uuid,
    instruction text NOT NULL,
    kind text NOT NULL,
    mode text NOT NULL,
    event_types text[] DEFAULT '{}'::text[] NOT NULL,
    filter_agent_id uuid,
    filter_task_id uuid,
    filter_actor_type text,
    filter_actor_id uuid,
    interval_seconds bigint,
    cron_expression text,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    next_fire_at timestamp with time zone,
    enabled boolean DEFAULT true NOT NULL,
    disabled_at timestamp with time zone,
    revision bigint DEFAULT 1 NOT NULL,
    last_task_id uuid,
    last_error text,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    paused_reason text,
    CONSTRAINT issue_wakeup_actor_filter CHECK (((filter_actor_type IS NULL) = (filter_actor_id IS NULL))),
    CONSTRAINT issue_wakeup_filter_actor_type_check CHECK ((filter_actor_type = ANY (ARRAY['member'::text, 'agent'::text]))),
    CONSTRAINT issue_wakeup_kind_check CHECK ((kind = ANY (ARRAY['event'::text, 'at'::text, 'every'::text, 'cron'::text]))),
    CONSTRAINT issue_wakeup_mode CHECK ((((kind <> 'at'::text) OR (mode = 'once'::text)) AND ((kind <> ALL (ARRAY['every'::text, 'cron'::text])) OR (mode = 'continuous'::text)))),
    CONSTRAINT issue_wakeup_mode_check CHECK ((mode = ANY (ARRAY['once'::text, 'continuous'::text]))),
    CONSTRAINT issue_wakeup_paused_reason_check CHECK ((paused_reason = ANY (ARRAY['loop'::text, 'rate'::text, 'max_fires'::text])))
)
WITH (fillfactor='80');


--
-- Name: dispatch_row; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.dispatch_row AS (
	missed_issue_id uuid,
	rule public.issue_wakeup,
	issue_exists boolean,
	issue_closed boolean,
	issue_priority text,
	agent_archived boolean,
	runtime_id uuid,
	may_invoke boolean,
	own_run jsonb,
	receipts jsonb,
	now timestamp with time zone
);


--
-- Name: wakeup_fact; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.wakeup_fact AS (
	issue_id uuid,
	event_type text,
	actor_type text,
	actor_id uuid,
	agent_id uuid,
	source_task_id uuid,
	source_wakeup_ids uuid[],
	issue_closed boolean
);


--
-- Name: attachment_unbound(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.attachment_unbound() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  NEW.unbound_at := CASE
    WHEN coalesce(NEW.issue_id, NEW.comment_id) IS NOT NULL THEN NULL
    WHEN TG_OP = 'UPDATE' THEN coalesce(OLD.unbound_at, wakeful_now())
    ELSE wakeful_now() END;
  RETURN NEW;
END $$;


--
-- Name: capture_at_commit(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_at_commit() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: capture_attachment(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_attachment() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: capture_comment_delete(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_comment_delete() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: capture_comment_insert(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_comment_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: capture_comment_reaction(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_comment_reaction() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: capture_comment_update(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_comment_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: wakeful_setting(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_setting(name text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting(name, true), '') $$;


--
-- Name: wakeful_setting_uuid(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_setting_uuid(name text) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$
  SELECT CASE
    WHEN current_setting(name, true) ~
         '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$'
    THEN current_setting(name, true)::uuid
  END
$_$;


--
-- Name: capture_fact(uuid, text, jsonb, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_fact(issue_id uuid, event_type text, details jsonb, actor_type text DEFAULT public.wakeful_setting('wakeful.actor_type'::text), actor_id uuid DEFAULT public.wakeful_setting_uuid('wakeful.actor_id'::text)) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF wakeup_listens(issue_id, ARRAY[event_type]) THEN
    INSERT INTO capture_buffer (workspace_id, issue_id, event_type, actor_type, actor_id, details)
    SELECT i.workspace_id, i.id, capture_fact.event_type, capture_fact.actor_type,
           capture_fact.actor_id, capture_fact.details
      FROM issue i WHERE i.id = capture_fact.issue_id;
  END IF;
END $$;


--
-- Name: issue; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    number integer NOT NULL,
    title text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    status text DEFAULT 'todo'::text NOT NULL,
    priority text DEFAULT 'none'::text NOT NULL,
    assignee_type text,
    assignee_id uuid,
    creator_type text DEFAULT 'system'::text NOT NULL,
    creator_id uuid,
    parent_issue_id uuid,
    stage integer,
    project_id uuid,
    start_date date,
    due_date date,
    acceptance_criteria jsonb DEFAULT '[]'::jsonb NOT NULL,
    context_refs jsonb DEFAULT '[]'::jsonb NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    properties jsonb DEFAULT '{}'::jsonb NOT NULL,
    "position" double precision DEFAULT 0 NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT issue_assignee_type_check CHECK ((assignee_type = ANY (ARRAY['member'::text, 'agent'::text, 'squad'::text]))),
    CONSTRAINT issue_check CHECK (((assignee_type IS NULL) = (assignee_id IS NULL))),
    CONSTRAINT issue_creator_type_check CHECK ((creator_type = ANY (ARRAY['member'::text, 'agent'::text, 'system'::text]))),
    CONSTRAINT issue_priority_check CHECK ((priority = ANY (ARRAY['urgent'::text, 'high'::text, 'medium'::text, 'low'::text, 'none'::text])))
);


--
-- Name: capture_issue_facts(public.issue, public.issue, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_issue_facts(old public.issue, new public.issue, types text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: capture_issue_reaction(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_issue_reaction() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: capture_issue_update(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_issue_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: capture_label(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_label() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: capture_run_insert(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_run_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: capture_run_update(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.capture_run_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: comment_issue(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.comment_issue(comment_id uuid) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
  SELECT c.issue_id FROM comment c WHERE c.id = comment_id
$$;


--
-- Name: comment_thread_root(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.comment_thread_root(comment_id uuid) RETURNS uuid
    LANGUAGE sql STABLE
    AS $$
  WITH RECURSIVE up AS (
    SELECT c.id, c.parent_id, 0 AS hops FROM comment c WHERE c.id = comment_id
    UNION ALL
    SELECT c.id, c.parent_id, up.hops + 1
      FROM up JOIN comment c ON c.id = up.parent_id
     WHERE up.hops < 256
  )
  SELECT id FROM up ORDER BY hops DESC LIMIT 1
$$;


--
-- Name: dispatch_apply(jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.dispatch_apply(effects jsonb) RETURNS TABLE(rule_id uuid, run_id uuid, runtime_id uuid, enabled boolean, next_fire_at timestamp with time zone, now timestamp with time zone)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH d AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(effects) AS d (
      rule_id uuid, revision bigint, workspace_id uuid, issue_id uuid, enabled boolean,
      disable boolean, next_fire_at timestamptz, last_error text, cancel_unstarted text,
      delete_rule boolean, consume bigint[], consume_ids uuid[], discard bigint[],
      discard_ids uuid[], due_key text, due jsonb, due_consumed boolean, start jsonb,
      refresh_run_id uuid, refresh jsonb, activities jsonb)
  ), started AS (
    INSERT INTO agent_task_queue (
      agent_id, issue_id, runtime_id, priority, trigger_comment_id, trigger_summary, handoff_note,
      context, originator_user_id, accountable_user_id, originator_source, trigger_evidence_kind,
      trigger_evidence_ref_id, delegated_from_task_id)
    SELECT s.agent_id, d.issue_id, s.runtime_id, priority_rank(s.priority), s.trigger_comment_id,
           s.trigger_summary, s.handoff_note, s.context, s.originator_user_id,
           s.originator_user_id, 'trigger_owner', 'issue_wakeup', d.rule_id,
           s.delegated_from_task_id
      FROM d, jsonb_to_record(d.start) AS s (
             agent_id uuid, runtime_id uuid, priority text, trigger_comment_id uuid,
             trigger_summary text, handoff_note text, context jsonb, originator_user_id uuid,
             delegated_from_task_id uuid)
     WHERE d.start IS NOT NULL
     ORDER BY d.rule_id
    ON CONFLICT DO NOTHING
    RETURNING id, wakeup_id AS rule_id, runtime_id
  ), refreshed AS (
    UPDATE agent_task_queue q
       SET handoff_note = d.refresh ->> 'handoff_note', context = d.refresh -> 'context'
      FROM d
     WHERE q.id = ANY (ARRAY(SELECT o.refresh_run_id FROM d o WHERE o.refresh IS NOT NULL))
       AND q.id = d.refresh_run_id AND q.status = 'queued'
    RETURNING q.id, d.rule_id, q.runtime_id
  ), settled AS MATERIALIZED (
    SELECT d.*, coalesce(s.id, r.id) AS run_id, coalesce(s.runtime_id, r.runtime_id) AS runtime_id
      FROM d
      LEFT JOIN started s USING (rule_id)
      LEFT JOIN refreshed r USING (rule_id)
     WHERE (d.start IS NULL OR s.id IS NOT NULL) AND (d.refresh IS NULL OR r.id IS NOT NULL)
  ), consumed AS (
    UPDATE issue_wakeup_receipt x
       SET processed_at = wakeful_now(), task_id = t.run_id
      FROM settled t
     WHERE x.seq = ANY (ARRAY(SELECT unnest(o.consume) FROM settled o))
       AND x.id = ANY (ARRAY(SELECT unnest(o.consume_ids) FROM settled o))
       AND x.wakeup_id = t.rule_id AND x.processed_at IS NULL
  ), discarded AS (
    UPDATE issue_wakeup_receipt x
       SET processed_at = wakeful_now(), task_id = NULL
     WHERE x.seq = ANY (ARRAY(
             SELECT unnest(o.discard) FROM settled o WHERE NOT o.delete_rule AND NOT o.disable))
       AND x.id = ANY (ARRAY(SELECT unnest(o.discard_ids) FROM settled o))
       AND x.processed_at IS NULL
  ), emptied AS (
    UPDATE issue_wakeup_receipt x
       SET processed_at = wakeful_now(), task_id = NULL
     WHERE x.wakeup_id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE o.disable))
       AND x.processed_at IS NULL
  ), due AS (
    INSERT INTO issue_wakeup_receipt (
      wakeup_id, revision, event_key, event_type, payload, task_id, processed_at)
    SELECT t.rule_id, t.revision, t.due_key, 'time.due', t.due,
           CASE WHEN t.due_consumed THEN t.run_id END,
           CASE WHEN t.due_consumed THEN wakeful_now() END
      FROM settled t
     WHERE t.due_key IS NOT NULL
    ON CONFLICT (wakeup_id, revision, event_key) DO NOTHING
  ), cancelled AS (
    UPDATE agent_task_queue q
       SET status = 'cancelled', completed_at = wakeful_now(), error = t.cancel_unstarted
      FROM settled t
     WHERE q.wakeup_id = ANY (ARRAY(
             SELECT o.rule_id FROM settled o WHERE o.cancel_unstarted IS NOT NULL))
       AND q.wakeup_id = t.rule_id
       AND q.status IN ('queued', 'deferred') AND q.started_at IS NULL
  ), told AS (
    INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)
    SELECT t.workspace_id, t.issue_id, a.actor_type, a.actor_id, a.action,
           a.details || jsonb_build_object('task_id', t.run_id)
      FROM settled t, jsonb_to_recordset(t.activities) AS a (
             action text, actor_type text, actor_id uuid, details jsonb)
  ), removed AS (
    DELETE FROM issue_wakeup_receipt x
     WHERE x.wakeup_id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE o.delete_rule))
  ), gone AS (
    DELETE FROM issue_wakeup r
     WHERE r.id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE o.delete_rule))
  ), moved AS (
    UPDATE issue_wakeup r
       SET enabled = t.enabled,
           disabled_at = CASE WHEN t.disable THEN coalesce(r.disabled_at, wakeful_now())
                              ELSE r.disabled_at END,
           next_fire_at = t.next_fire_at,
           last_error = t.last_error,
           last_task_id = coalesce(t.run_id, r.last_task_id),
           updated_at = wakeful_now()
      FROM settled t
     WHERE r.id = ANY (ARRAY(SELECT o.rule_id FROM settled o WHERE NOT o.delete_rule))
       AND r.id = t.rule_id
  )
  SELECT t.rule_id, t.run_id, t.runtime_id, t.enabled, t.next_fire_at, wakeful_now()
    FROM settled t;
END $$;


--
-- Name: dispatch_candidates(uuid[], uuid[], integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.dispatch_candidates(issue_ids uuid[], barred uuid[], most integer) RETURNS uuid[]
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
  SELECT coalesce(array_agg(c.id ORDER BY c.id), '{}')
    FROM (
      SELECT r.id
        FROM unnest(issue_ids) WITH ORDINALITY AS wanted (id, place)
        JOIN issue_wakeup r ON r.issue_id = wanted.id
       WHERE r.id <> ALL (barred)
         AND ((r.enabled AND r.next_fire_at <= (SELECT wakeful_now()))
              OR (SELECT x.seq FROM issue_wakeup_receipt x
                   WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL
                   LIMIT 1) IS NOT NULL)
       ORDER BY wanted.place, r.id
       LIMIT most) c
$$;


--
-- Name: dispatch_load_alone(uuid, uuid[], integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.dispatch_load_alone(issue_id uuid, barred uuid[], most integer) RETURNS SETOF public.dispatch_row
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  held uuid[] := dispatch_candidates(ARRAY[issue_id], barred, most);
BEGIN
  PERFORM FROM workspace w
    WHERE w.id IN (SELECT r.workspace_id FROM issue_wakeup r WHERE r.id = ANY (held))
    FOR KEY SHARE;
  PERFORM FROM agent a
    WHERE a.id IN (SELECT r.agent_id FROM issue_wakeup r WHERE r.id = ANY (held))
    ORDER BY a.id FOR KEY SHARE;
  PERFORM FROM agent_runtime t
    WHERE t.id IN (SELECT a.runtime_id FROM issue_wakeup r JOIN agent a ON a.id = r.agent_id
                    WHERE r.id = ANY (held))
    ORDER BY t.id FOR KEY SHARE;
  PERFORM FROM member m
    WHERE (m.workspace_id, m.user_id) IN (
            SELECT r.workspace_id, r.created_by FROM issue_wakeup r WHERE r.id = ANY (held))
    ORDER BY m.id FOR KEY SHARE;
  PERFORM FROM issue i WHERE i.id = dispatch_load_alone.issue_id FOR KEY SHARE;
  held := ARRAY(
    SELECT r.id FROM issue_wakeup r WHERE r.id = ANY (held) ORDER BY r.id FOR NO KEY UPDATE);
  PERFORM FROM agent_task_queue q
    WHERE q.wakeup_id = ANY (held)
      AND q.status IN ('queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
    ORDER BY q.id FOR NO KEY UPDATE;
  PERFORM pg_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id));
  PERFORM pg_advisory_xact_lock(wakeful_issue_key(issue_id));
  RETURN QUERY SELECT * FROM dispatch_read(held);
END $$;


--
-- Name: dispatch_load_group(uuid[], uuid[], integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.dispatch_load_group(issue_ids uuid[], barred uuid[], most integer) RETURNS SETOF public.dispatch_row
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
  wanted uuid[] := dispatch_candidates(issue_ids, barred, most);
  held uuid[] := wanted;
BEGIN
  held := ARRAY(
    SELECT r.id
      FROM issue_wakeup r
      JOIN workspace w ON w.id = r.workspace_id
      JOIN agent a ON a.id = r.agent_id
      JOIN agent_runtime t ON t.id = a.runtime_id
      JOIN member m ON m.workspace_id = r.workspace_id AND m.user_id = r.created_by
      JOIN issue i ON i.id = r.issue_id
     WHERE r.id = ANY (held)
       FOR KEY SHARE OF w, a, t, m, i SKIP LOCKED);
  held := ARRAY(
    SELECT r.id FROM issue_wakeup r WHERE r.id = ANY (held) FOR NO KEY UPDATE SKIP LOCKED);
  -- A rule stays only if each of its unfinished runs could be locked.
  held := ARRAY(
    SELECT h.id FROM unnest(held) AS h (id)
    EXCEPT
    SELECT q.wakeup_id FROM agent_task_queue q
     WHERE q.wakeup_id = ANY (held)
       AND q.status IN (
             'queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
       AND q.id NOT IN (
             SELECT free.id FROM agent_task_queue free
              WHERE free.wakeup_id = ANY (held)
                AND free.status IN (
                      'queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
                FOR NO KEY UPDATE SKIP LOCKED));
  held := ARRAY(
    SELECT r.id FROM issue_wakeup r
     WHERE r.id = ANY (held)
       AND pg_try_advisory_xact_lock_shared(1, wakeful_listening_key(r.issue_id))
       AND pg_try_advisory_xact_lock(wakeful_issue_key(r.issue_id))
     ORDER BY r.id);
  RETURN QUERY SELECT * FROM dispatch_read(held);
  RETURN QUERY
  SELECT r.issue_id, NULL::issue_wakeup, NULL::boolean, NULL::boolean, NULL::text,
         NULL::boolean, NULL::uuid, NULL::boolean, NULL::jsonb, NULL::jsonb, NULL::timestamptz
    FROM issue_wakeup r WHERE r.id = ANY (wanted) AND r.id <> ALL (held);
END $$;


--
-- Name: dispatch_read(uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.dispatch_read(rule_ids uuid[]) RETURNS SETOF public.dispatch_row
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
BEGIN
  RETURN QUERY
  WITH invokers AS MATERIALIZED (
    SELECT o.agent_id, o.created_by, may_invoke(o.created_by, a) AS may
      FROM (SELECT DISTINCT r.agent_id, r.created_by FROM issue_wakeup r
             WHERE r.id = ANY (rule_ids)) o
      JOIN agent a ON a.id = o.agent_id
  ), runs AS MATERIALIZED (
    SELECT q.wakeup_id, q.id, q.status, q.handoff_note, q.context, q.dispatched_at, q.created_at
      FROM agent_task_queue q
     WHERE q.wakeup_id = ANY (rule_ids) AND q.status IN ('queued', 'dispatched')
  )
  SELECT NULL::uuid, r, i.id IS NOT NULL,
         i.id IS NOT NULL AND status_is_closed(i.workspace_id, i.status),
         i.priority, a.id IS NULL OR a.archived_at IS NOT NULL, a.runtime_id,
         coalesce((SELECT v.may FROM invokers v
                    WHERE v.agent_id = r.agent_id AND v.created_by = r.created_by), false),
         (SELECT jsonb_build_object(
                   'id', q.id, 'status', q.status, 'handoff_note', q.handoff_note,
                   'context', q.context, 'dispatched_at', q.dispatched_at,
                   'lease_expires_at',
                   (SELECT l.expires_at FROM run_lease l WHERE l.task_id = q.id))
            FROM runs q
           WHERE q.wakeup_id = r.id
           ORDER BY q.status, q.created_at LIMIT 1),
         (SELECT coalesce(jsonb_agg(x.receipt ORDER BY x.created_at, x.seq), '[]')
            FROM (
              SELECT y.created_at, y.seq, jsonb_build_object(
                       'seq', y.seq, 'id', y.id, 'revision', y.revision,
                       'event_key', y.event_key, 'event_type', y.event_type,
                       'payload', y.payload, 'created_at', y.created_at) AS receipt
                FROM issue_wakeup_receipt y
               WHERE y.wakeup_id = r.id AND y.processed_at IS NULL AND y.task_id IS NULL
               ORDER BY y.created_at, y.seq
               LIMIT 100) x),
         wakeful_now()
    FROM unnest(rule_ids) WITH ORDINALITY AS wanted (id, place)
    JOIN issue_wakeup r ON r.id = wanted.id
    LEFT JOIN issue i ON i.id = r.issue_id
    LEFT JOIN agent a ON a.id = r.agent_id
   ORDER BY wanted.place;
END $$;


--
-- Name: agent; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.agent (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    name text NOT NULL,
    instructions text DEFAULT ''::text NOT NULL,
    visibility text DEFAULT 'workspace'::text NOT NULL,
    owner_id uuid NOT NULL,
    runtime_id uuid,
    max_concurrent_tasks integer DEFAULT 6 NOT NULL,
    archived_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT agent_max_concurrent_tasks_check CHECK (((max_concurrent_tasks >= 1) AND (max_concurrent_tasks <= 1000))),
    CONSTRAINT agent_visibility_check CHECK ((visibility = ANY (ARRAY['workspace'::text, 'private'::text])))
);


--
-- Name: may_invoke(uuid, public.agent); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.may_invoke(person uuid, agent public.agent) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
  SELECT EXISTS (
           SELECT FROM member m WHERE m.workspace_id = agent.workspace_id AND m.user_id = person)
     AND (agent.visibility = 'workspace'
          OR agent.owner_id = person
          OR EXISTS (
               SELECT FROM agent_invocation_target t
                WHERE t.agent_id = agent.id AND t.target_type = 'member' AND t.target_id = person))
$$;


--
-- Name: notify_timer(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.notify_timer() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM pg_notify('wakeful_timers', CASE WHEN wakeful_setting('wakeful.hinted') = 'on'
                                           THEN wakeful_time(NEW.next_fire_at) ELSE '' END);
  RETURN NULL;
END $$;


--
-- Name: priority_rank(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.priority_rank(priority text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT CASE priority
    WHEN 'urgent' THEN 4 WHEN 'high' THEN 3 WHEN 'medium' THEN 2 WHEN 'low' THEN 1 ELSE 0
  END
$$;


--
-- Name: reaction_details(uuid, text, uuid, text, text, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.reaction_details(id uuid, target_type text, target_id uuid, emoji text, actor_type text, actor_id uuid) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT jsonb_build_object(
    'reaction_id', id, 'target_type', target_type, 'target_id', target_id, 'emoji', emoji,
    'reaction_actor_type', actor_type, 'reaction_actor_id', actor_id)
$$;


--
-- Name: run_event_key(uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.run_event_key(run_id uuid, status text) RETURNS text
    LANGUAGE sql PARALLEL SAFE
    AS $$
  SELECT CASE WHEN run_is_over(status) THEN run_id || ':' || status
              ELSE gen_random_uuid()::text END
$$;


--
-- Name: run_event_type(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.run_event_type(status text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT 'task.' || CASE status WHEN 'running' THEN 'started' ELSE status END
$$;


--
-- Name: run_is_over(text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.run_is_over(status text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT status IN ('completed', 'failed', 'cancelled')
$$;


--
-- Name: run_scope(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.run_scope() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NEW.context ? 'wakeup_id' THEN
    NEW.comment_thread_id := (NEW.context ->> 'wakeup_id')::uuid;
  ELSIF NEW.trigger_comment_id IS NOT NULL THEN
    NEW.comment_thread_id := comment_thread_root(NEW.trigger_comment_id);
  END IF;
  RETURN NEW;
END $$;


--
-- Name: status_category(uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.status_category(workspace_id uuid, status text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
  SELECT CASE status
    WHEN 'backlog' THEN 'backlog'
    WHEN 'todo' THEN 'todo'
    WHEN 'in_progress' THEN 'in_progress'
    WHEN 'in_review' THEN 'in_progress'
    WHEN 'blocked' THEN 'in_progress'
    WHEN 'done' THEN 'done'
    WHEN 'cancelled' THEN 'closed'
    ELSE (SELECT s.category FROM issue_status s
           WHERE s.workspace_id = status_category.workspace_id AND s.key = status_category.status)
  END
$$;


--
-- Name: status_is_closed(uuid, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.status_is_closed(workspace_id uuid, status text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
  SELECT coalesce(status_category(workspace_id, status) IN ('done', 'closed'), false)
$$;


--
-- Name: wake_waiting_inputs(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wake_waiting_inputs() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
BEGIN
  IF NOT EXISTS (
       SELECT FROM issue_wakeup_receipt x WHERE x.task_id = NEW.id AND x.processed_at IS NULL)
     AND NOT EXISTS (
       SELECT FROM issue_wakeup r
        WHERE r.issue_id = NEW.issue_id AND r.disabled_at IS NULL
          AND EXISTS (SELECT FROM issue_wakeup_receipt x
                       WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL))
  THEN
    RETURN NULL;
  END IF;
  IF wakeful_setting('wakeful.hinted') IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify('wakeful_wakeups', NEW.issue_id::text);
  ELSIF NEW.issue_id <> ALL (wakeful_freed()) THEN
    PERFORM set_config('wakeful.freed', (wakeful_freed() || NEW.issue_id)::text, true);
  END IF;
  RETURN NULL;
END $$;


--
-- Name: wakeful_begin(text, uuid, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_begin(actor_type text, actor_id uuid, source_task_id uuid) RETURNS void
    LANGUAGE sql
    AS $$
  SELECT set_config('wakeful.actor_type', coalesce(actor_type, ''), true),
         set_config('wakeful.actor_id', coalesce(actor_id::text, ''), true),
         set_config('wakeful.source_task_id', coalesce(source_task_id::text, ''), true),
         set_config('wakeful.hinted', 'on', true);
$$;


--
-- Name: wakeful_flush(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_flush() RETURNS uuid[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: wakeful_freed(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_freed() RETURNS uuid[]
    LANGUAGE sql STABLE
    AS $$
  SELECT coalesce(wakeful_setting('wakeful.freed')::uuid[], '{}')
$$;


--
-- Name: wakeful_issue_key(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_issue_key(issue_id uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT uuid_hash_extended(issue_id, 8765) $$;


--
-- Name: wakeful_listening_key(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_listening_key(issue_id uuid) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT (uuid_hash_extended(issue_id, 4321) & 1023)::integer
$$;


--
-- Name: wakeful_time(timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeful_time(at timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;


--
-- Name: wakeup_actors(jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_actors(payload jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT CASE
    WHEN jsonb_typeof(payload -> 'actors') = 'array' THEN payload -> 'actors'
    WHEN payload ? 'actor_type' THEN jsonb_build_array(jsonb_build_object(
      'type', payload -> 'actor_type', 'id', payload -> 'actor_id'))
  END
$$;


--
-- Name: wakeup_changed_keys(jsonb, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_changed_keys(old jsonb, new jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
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


--
-- Name: wakeup_close(uuid, uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_close(workspace_id uuid, issue_id uuid) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: capture_buffer; Type: TABLE; Schema: public; Owner: -
--

CREATE UNLOGGED TABLE public.capture_buffer (
    xact xid8 DEFAULT pg_current_xact_id() NOT NULL,
    workspace_id uuid NOT NULL,
    issue_id uuid NOT NULL,
    event_type text NOT NULL,
    event_id text DEFAULT gen_random_uuid() NOT NULL,
    recurs boolean DEFAULT true NOT NULL,
    coalesced_count bigint DEFAULT 1 NOT NULL,
    occurred_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    first_occurred_at timestamp with time zone,
    version integer DEFAULT 1 NOT NULL,
    actor_type text DEFAULT public.wakeful_setting('wakeful.actor_type'::text),
    actor_id uuid DEFAULT public.wakeful_setting_uuid('wakeful.actor_id'::text),
    agent_id uuid,
    source_task_id uuid DEFAULT public.wakeful_setting_uuid('wakeful.source_task_id'::text),
    details jsonb NOT NULL
)
WITH (autovacuum_vacuum_threshold='5000', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_cost_delay='0');


--
-- Name: wakeup_fold_facts(public.capture_buffer[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_fold_facts(facts public.capture_buffer[]) RETURNS public.capture_buffer[]
    LANGUAGE sql STABLE
    AS $$
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


--
-- Name: wakeup_ignore(public.capture_buffer, uuid[], text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_ignore(fact public.capture_buffer, rules uuid[], reasons text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
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


--
-- Name: wakeup_ignore_reasons(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_ignore_reasons() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT '{filtered_actor,filtered_agent,filtered_task,self_loop_registering_run,self_loop_own_run,
           duplicate_key,issue_closed}'::text[]
$$;


--
-- Name: wakeup_keep_ignored(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_keep_ignored() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO wakeup_ignored (wakeup_id, reason)
    SELECT NEW.id, reason FROM unnest(wakeup_ignore_reasons()) AS reason;
  ELSE
    DELETE FROM wakeup_ignored g WHERE g.wakeup_id = OLD.id;
  END IF;
  RETURN NULL;
END $$;


--
-- Name: wakeup_keeps_issue(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_keeps_issue() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NEW.enabled THEN
    PERFORM FROM issue i WHERE i.id = NEW.issue_id AND i.workspace_id = NEW.workspace_id FOR SHARE;
  ELSE
    PERFORM FROM issue i WHERE i.id = NEW.issue_id AND i.workspace_id = NEW.workspace_id
      FOR KEY SHARE;
  END IF;
  IF NOT FOUND THEN
    RAISE foreign_key_violation USING CONSTRAINT = 'issue_wakeup_issue', TABLE = 'issue_wakeup',
      MESSAGE = 'the workspace of a wakeup has no such issue', DETAIL = 'issue ' || NEW.issue_id;
  END IF;
  RETURN NEW;
END $$;


--
-- Name: wakeup_limit(uuid[], uuid[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_limit(workspaces uuid[], issues uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  full_one uuid;
  before text := current_setting('lock_timeout');
  spent integer := 1000 * extract(epoch FROM clock_timestamp() - statement_timestamp());
BEGIN
  PERFORM set_config('lock_timeout', greatest(700 - spent, 50) || 'ms', true);
  INSERT INTO workspace_capacity AS c (workspace_id)
  SELECT DISTINCT w FROM unnest(workspaces) w ORDER BY w
  ON CONFLICT (workspace_id) DO UPDATE SET activations = c.activations + 1;
  PERFORM set_config('lock_timeout', before, true);
  SELECT i INTO full_one FROM (SELECT DISTINCT unnest(issues) AS i) touched
   WHERE (SELECT count(*) FROM issue_wakeup r WHERE r.issue_id = i AND r.enabled) > 32
   LIMIT 1;
  IF full_one IS NOT NULL THEN
    RAISE check_violation USING CONSTRAINT = 'issue_wakeup_active_limit', TABLE = 'issue_wakeup',
      MESSAGE = 'an issue has at most 32 enabled wakeups', DETAIL = 'issue ' || full_one;
  END IF;
  SELECT w INTO full_one FROM (SELECT DISTINCT unnest(workspaces) AS w) touched
   WHERE (SELECT count(*) FROM issue_wakeup r WHERE r.workspace_id = w AND r.enabled) > 1000
   LIMIT 1;
  IF full_one IS NOT NULL THEN
    RAISE check_violation USING CONSTRAINT = 'issue_wakeup_active_limit', TABLE = 'issue_wakeup',
      MESSAGE = 'a workspace has at most 1000 enabled wakeups', DETAIL = 'workspace ' || full_one;
  END IF;
END $$;


--
-- Name: wakeup_limit_insert(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_limit_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM wakeup_limit(array_agg(n.workspace_id), array_agg(n.issue_id))
     FROM added n WHERE n.enabled HAVING count(*) > 0;
  RETURN NULL;
END $$;


--
-- Name: wakeup_limit_update(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_limit_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM wakeup_limit(ARRAY[NEW.workspace_id], ARRAY[NEW.issue_id]);
  RETURN NULL;
END $$;


--
-- Name: wakeup_listen_alone(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_listen_alone(issue_id uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: wakeup_listens(uuid, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_listens(issue_id uuid, types text[]) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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


--
-- Name: wakeup_match(public.issue_wakeup, public.wakeup_fact); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_match(rule public.issue_wakeup, fact public.wakeup_fact) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
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


--
-- Name: wakeup_merge_payload(jsonb, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_merge_payload(old jsonb, new jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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


--
-- Name: wakeup_set_union(text, jsonb, jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_set_union(key text, old jsonb, new jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT jsonb_build_object(
           key, coalesce(jsonb_agg(x.value ORDER BY x.place) FILTER (WHERE x.rank <= 32), '[]'))
      || CASE WHEN count(*) > 32 THEN jsonb_build_object(key || '_more', true) ELSE '{}' END
    FROM (
      SELECT e.value, min(e.place) AS place, row_number() OVER (ORDER BY min(e.place)) AS rank
        FROM jsonb_array_elements(old || new) WITH ORDINALITY AS e (value, place)
       GROUP BY e.value) x
$$;


--
-- Name: wakeup_sources(jsonb); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_sources(payload jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
  SELECT CASE
    WHEN jsonb_typeof(payload -> 'source_task_ids') = 'array' THEN payload -> 'source_task_ids'
    WHEN payload ->> 'source_task_id' IS NOT NULL
    THEN jsonb_build_array(payload -> 'source_task_id')
    ELSE '[]'
  END
$$;


--
-- Name: wakeup_starts_listening(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_starts_listening() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM wakeup_listen_alone(NEW.issue_id);
  UPDATE wakeup_generation g SET generation = g.generation + 1
   WHERE g.key = wakeful_listening_key(NEW.issue_id);
  RETURN NEW;
END $$;


--
-- Name: wakeup_try_listening(uuid); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.wakeup_try_listening(issue_id uuid) RETURNS boolean
    LANGUAGE sql COST 10000
    AS $$
  SELECT issue_id IS NULL OR pg_try_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id))
$$;


--
-- Name: access_token; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.access_token (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    user_id uuid NOT NULL,
    workspace_id uuid,
    token_hash bytea NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT access_token_check CHECK (((kind = 'daemon'::text) = (workspace_id IS NOT NULL))),
    CONSTRAINT access_token_kind_check CHECK ((kind = ANY (ARRAY['member'::text, 'daemon'::text])))
);


--
-- Name: activity_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.activity_log (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    issue_id uuid,
    actor_type text NOT NULL,
    actor_id uuid,
    action text NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: agent_invocation_target; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.agent_invocation_target (
    agent_id uuid NOT NULL,
    target_type text DEFAULT 'member'::text NOT NULL,
    target_id uuid NOT NULL,
    CONSTRAINT agent_invocation_target_target_type_check CHECK ((target_type = 'member'::text))
);


--
-- Name: agent_runtime; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.agent_runtime (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    daemon_id text NOT NULL,
    name text NOT NULL,
    provider text NOT NULL,
    last_seen_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: agent_task_queue; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.agent_task_queue (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    agent_id uuid NOT NULL,
    issue_id uuid,
    runtime_id uuid,
    status text DEFAULT 'queued'::text NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    max_attempts integer DEFAULT 2 NOT NULL,
    context jsonb DEFAULT '{}'::jsonb NOT NULL,
    handoff_note text DEFAULT ''::text NOT NULL,
    trigger_summary text DEFAULT ''::text NOT NULL,
    trigger_comment_id uuid,
    comment_thread_id uuid,
    originator_user_id uuid,
    accountable_user_id uuid,
    originator_source text,
    trigger_evidence_kind text,
    trigger_evidence_ref_id uuid,
    delegated_from_task_id uuid,
    retry_of_task_id uuid,
    rerun_of_task_id uuid,
    fire_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    dispatched_at timestamp with time zone,
    started_at timestamp with time zone,
    completed_at timestamp with time zone,
    result jsonb,
    error text,
    failure_reason text,
    wait_reason text,
    wakeup_id uuid GENERATED ALWAYS AS (((context ->> 'wakeup_id'::text))::uuid) STORED,
    queued_at timestamp with time zone,
    CONSTRAINT agent_task_queue_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'deferred'::text, 'dispatched'::text, 'waiting_local_directory'::text, 'running'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
)
WITH (fillfactor='70');


--
-- Name: app_user; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.app_user (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    instance_admin boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: attachment; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.attachment (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    issue_id uuid,
    comment_id uuid,
    uploader_type text NOT NULL,
    uploader_id uuid NOT NULL,
    filename text NOT NULL,
    url text,
    content_type text DEFAULT 'application/octet-stream'::text NOT NULL,
    size_bytes bigint DEFAULT 0 NOT NULL,
    task_id uuid,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    unbound_at timestamp with time zone,
    CONSTRAINT attachment_check CHECK (((issue_id IS NULL) OR (comment_id IS NULL))),
    CONSTRAINT attachment_uploader_type_check CHECK ((uploader_type = ANY (ARRAY['member'::text, 'agent'::text])))
);


--
-- Name: attachment_content; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.attachment_content (
    attachment_id uuid NOT NULL,
    content bytea NOT NULL
);


--
-- Name: comment; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.comment (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    issue_id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    author_type text DEFAULT 'system'::text NOT NULL,
    author_id uuid,
    content text NOT NULL,
    type text DEFAULT 'comment'::text NOT NULL,
    parent_id uuid,
    resolved_at timestamp with time zone,
    resolved_by_type text,
    resolved_by_id uuid,
    source_task_id uuid,
    revision bigint DEFAULT 1 NOT NULL,
    deleted_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT comment_author_type_check CHECK ((author_type = ANY (ARRAY['member'::text, 'agent'::text, 'system'::text])))
);


--
-- Name: comment_reaction; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.comment_reaction (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    comment_id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    actor_type text NOT NULL,
    actor_id uuid NOT NULL,
    emoji text NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT comment_reaction_actor_type_check CHECK ((actor_type = ANY (ARRAY['member'::text, 'agent'::text])))
);


--
-- Name: daemon; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.daemon (
    workspace_id uuid NOT NULL,
    daemon_id text NOT NULL,
    token_id uuid NOT NULL,
    device_name text,
    version text,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: idempotency_key; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.idempotency_key (
    caller text NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    workspace_id uuid,
    digest bytea NOT NULL,
    status integer,
    body text,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: inbox_item; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inbox_item (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    recipient_id uuid NOT NULL,
    type text NOT NULL,
    severity text DEFAULT 'info'::text NOT NULL,
    issue_id uuid,
    title text NOT NULL,
    body text DEFAULT ''::text NOT NULL,
    actor_type text DEFAULT 'system'::text NOT NULL,
    actor_id uuid,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    read_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT inbox_item_actor_type_check CHECK ((actor_type = ANY (ARRAY['member'::text, 'agent'::text, 'system'::text]))),
    CONSTRAINT inbox_item_severity_check CHECK ((severity = ANY (ARRAY['action_required'::text, 'attention'::text, 'info'::text])))
);


--
-- Name: issue_label; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_label (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    name text NOT NULL,
    color text,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: issue_property; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_property (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    name text NOT NULL,
    type text DEFAULT 'text'::text NOT NULL,
    config jsonb DEFAULT '{}'::jsonb NOT NULL,
    archived_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT issue_property_type_check CHECK ((type = ANY (ARRAY['text'::text, 'number'::text, 'boolean'::text, 'date'::text, 'select'::text, 'multi_select'::text])))
);


--
-- Name: issue_reaction; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_reaction (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    issue_id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    actor_type text NOT NULL,
    actor_id uuid NOT NULL,
    emoji text NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT issue_reaction_actor_type_check CHECK ((actor_type = ANY (ARRAY['member'::text, 'agent'::text])))
);


--
-- Name: issue_status; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_status (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    key text NOT NULL,
    name text NOT NULL,
    category text NOT NULL,
    color text,
    "position" double precision DEFAULT 0 NOT NULL,
    archived_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT issue_status_category_check CHECK ((category = ANY (ARRAY['backlog'::text, 'todo'::text, 'in_progress'::text, 'done'::text, 'closed'::text]))),
    CONSTRAINT issue_status_key_check CHECK (((key ~ '^[a-z0-9][a-z0-9_]{0,31}$'::text) AND (key <> ALL (ARRAY['backlog'::text, 'todo'::text, 'in_progress'::text, 'in_review'::text, 'blocked'::text, 'done'::text, 'cancelled'::text]))))
);


--
-- Name: issue_to_label; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_to_label (
    issue_id uuid NOT NULL,
    label_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: issue_wakeup_receipt; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.issue_wakeup_receipt (
    seq bigint NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    wakeup_id uuid NOT NULL,
    revision bigint NOT NULL,
    event_key text NOT NULL,
    event_type text NOT NULL,
    payload jsonb NOT NULL,
    task_id uuid,
    processed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    coalesce_key text
)
WITH (fillfactor='60');


--
-- Name: issue_wakeup_receipt_seq_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.issue_wakeup_receipt ALTER COLUMN seq ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.issue_wakeup_receipt_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: live_engine; Type: VIEW; Schema: public; Owner: -
--

CREATE VIEW public.live_engine AS
 SELECT l.pid AS backend,
    a.backend_start AS listening_since,
    a.client_addr,
    a.client_port
   FROM (pg_locks l
     JOIN pg_stat_activity a ON ((a.pid = l.pid)))
  WHERE ((l.locktype = 'advisory'::text) AND (l.objsubid = 2) AND (l.classid = (2)::oid) AND (l.objid = (0)::oid) AND l.granted AND (l.database = ( SELECT d.oid
           FROM pg_database d
          WHERE (d.datname = current_database()))));


--
-- Name: member; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.member (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    user_id uuid NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    CONSTRAINT member_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text])))
);


--
-- Name: project; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.project (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    archived_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: run_lease; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.run_lease (
    task_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL
);


--
-- Name: run_message; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.run_message (
    task_id uuid NOT NULL,
    seq bigint NOT NULL,
    line jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: run_message_seq_seq; Type: SEQUENCE; Schema: public; Owner: -
--

ALTER TABLE public.run_message ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.run_message_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: run_progress; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.run_progress (
    task_id uuid NOT NULL,
    summary text NOT NULL,
    step integer,
    total integer,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: schema_migrations; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.schema_migrations (
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


--
-- Name: squad; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.squad (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    workspace_id uuid NOT NULL,
    name text NOT NULL,
    instructions text DEFAULT ''::text NOT NULL,
    leader_id uuid NOT NULL,
    archived_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: squad_member; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.squad_member (
    squad_id uuid NOT NULL,
    member_type text NOT NULL,
    member_id uuid NOT NULL,
    "position" integer DEFAULT 0 NOT NULL,
    CONSTRAINT squad_member_member_type_check CHECK ((member_type = ANY (ARRAY['member'::text, 'agent'::text])))
);


--
-- Name: sys_cron_executions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sys_cron_executions (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    job_name text NOT NULL,
    scope_kind text DEFAULT 'global'::text NOT NULL,
    scope_id text DEFAULT ''::text NOT NULL,
    plan_time timestamp with time zone NOT NULL,
    status text DEFAULT 'RUNNING'::text NOT NULL,
    attempt integer DEFAULT 1 NOT NULL,
    max_attempts integer DEFAULT 1 NOT NULL,
    next_retry_at timestamp with time zone,
    runner_id text NOT NULL,
    lease_token uuid DEFAULT gen_random_uuid() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    stale_after timestamp with time zone NOT NULL,
    started_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    finished_at timestamp with time zone,
    duration_ms bigint,
    rows_affected bigint,
    result jsonb,
    error_code text,
    error_msg text,
    CONSTRAINT sys_cron_executions_error_msg_check CHECK ((char_length(error_msg) <= 4000)),
    CONSTRAINT sys_cron_executions_result_check CHECK ((octet_length((result)::text) <= 16384)),
    CONSTRAINT sys_cron_executions_status_check CHECK ((status = ANY (ARRAY['RUNNING'::text, 'SUCCESS'::text, 'FAILED'::text])))
);


--
-- Name: task_token; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.task_token (
    token_hash bytea NOT NULL,
    task_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    user_id uuid,
    dispatched_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
);


--
-- Name: wakeup_generation; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.wakeup_generation (
    key integer NOT NULL,
    generation bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');


--
-- Name: wakeup_ignored; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.wakeup_ignored (
    wakeup_id uuid NOT NULL,
    reason text NOT NULL,
    count bigint DEFAULT 0 NOT NULL,
    last_at timestamp with time zone,
    last_event_type text,
    last_actor_type text,
    last_actor_id uuid,
    last_agent_id uuid,
    last_source_task_id uuid,
    CONSTRAINT wakeup_ignored_reason_check CHECK ((reason = ANY (public.wakeup_ignore_reasons())))
)
WITH (fillfactor='50');


--
-- Name: workspace; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.workspace (
    id uuid DEFAULT public.wakeful_uuid7() NOT NULL,
    name text NOT NULL,
    slug text NOT NULL,
    issue_prefix text NOT NULL,
    issue_counter integer DEFAULT 0 NOT NULL,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL,
    updated_at timestamp with time zone DEFAULT public.wakeful_now() NOT NULL
);


--
-- Name: workspace_capacity; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.workspace_capacity (
    workspace_id uuid NOT NULL,
    activations bigint DEFAULT 1 NOT NULL
);


--
-- Name: access_token access_token_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_pkey PRIMARY KEY (id);


--
-- Name: access_token access_token_token_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_token_hash_key UNIQUE (token_hash);


--
-- Name: activity_log activity_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.activity_log
    ADD CONSTRAINT activity_log_pkey PRIMARY KEY (id);


--
-- Name: agent_invocation_target agent_invocation_target_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent_invocation_target
    ADD CONSTRAINT agent_invocation_target_pkey PRIMARY KEY (agent_id, target_type, target_id);


--
-- Name: agent agent_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent
    ADD CONSTRAINT agent_pkey PRIMARY KEY (id);


--
-- Name: agent_runtime agent_runtime_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent_runtime
    ADD CONSTRAINT agent_runtime_pkey PRIMARY KEY (id);


--
-- Name: agent_runtime agent_runtime_workspace_id_daemon_id_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent_runtime
    ADD CONSTRAINT agent_runtime_workspace_id_daemon_id_name_key UNIQUE (workspace_id, daemon_id, name);


--
-- Name: agent_task_queue agent_task_queue_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent_task_queue
    ADD CONSTRAINT agent_task_queue_pkey PRIMARY KEY (id);


--
-- Name: app_user app_user_email_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_email_key UNIQUE (email);


--
-- Name: app_user app_user_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.app_user
    ADD CONSTRAINT app_user_pkey PRIMARY KEY (id);


--
-- Name: attachment_content attachment_content_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attachment_content
    ADD CONSTRAINT attachment_content_pkey PRIMARY KEY (attachment_id);


--
-- Name: attachment attachment_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attachment
    ADD CONSTRAINT attachment_pkey PRIMARY KEY (id);


--
-- Name: comment comment_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.comment
    ADD CONSTRAINT comment_pkey PRIMARY KEY (id);


--
-- Name: comment_reaction comment_reaction_comment_id_actor_type_actor_id_emoji_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.comment_reaction
    ADD CONSTRAINT comment_reaction_comment_id_actor_type_actor_id_emoji_key UNIQUE (comment_id, actor_type, actor_id, emoji);


--
-- Name: comment_reaction comment_reaction_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.comment_reaction
    ADD CONSTRAINT comment_reaction_pkey PRIMARY KEY (id);


--
-- Name: daemon daemon_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.daemon
    ADD CONSTRAINT daemon_pkey PRIMARY KEY (workspace_id, daemon_id);


--
-- Name: idempotency_key idempotency_key_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.idempotency_key
    ADD CONSTRAINT idempotency_key_pkey PRIMARY KEY (caller, route, key);


--
-- Name: inbox_item inbox_item_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inbox_item
    ADD CONSTRAINT inbox_item_pkey PRIMARY KEY (id);


--
-- Name: issue_label issue_label_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_label
    ADD CONSTRAINT issue_label_pkey PRIMARY KEY (id);


--
-- Name: issue issue_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue
    ADD CONSTRAINT issue_pkey PRIMARY KEY (id);


--
-- Name: issue_property issue_property_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_property
    ADD CONSTRAINT issue_property_pkey PRIMARY KEY (id);


--
-- Name: issue_reaction issue_reaction_issue_id_actor_type_actor_id_emoji_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_reaction
    ADD CONSTRAINT issue_reaction_issue_id_actor_type_actor_id_emoji_key UNIQUE (issue_id, actor_type, actor_id, emoji);


--
-- Name: issue_reaction issue_reaction_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_reaction
    ADD CONSTRAINT issue_reaction_pkey PRIMARY KEY (id);


--
-- Name: issue_status issue_status_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_status
    ADD CONSTRAINT issue_status_pkey PRIMARY KEY (id);


--
-- Name: issue_status issue_status_workspace_id_key_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_status
    ADD CONSTRAINT issue_status_workspace_id_key_key UNIQUE (workspace_id, key);


--
-- Name: issue_to_label issue_to_label_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_to_label
    ADD CONSTRAINT issue_to_label_pkey PRIMARY KEY (issue_id, label_id);


--
-- Name: issue_wakeup issue_wakeup_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_wakeup
    ADD CONSTRAINT issue_wakeup_pkey PRIMARY KEY (id);


--
-- Name: issue_wakeup_receipt issue_wakeup_receipt_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_wakeup_receipt
    ADD CONSTRAINT issue_wakeup_receipt_pkey PRIMARY KEY (seq);


--
-- Name: issue issue_workspace_id_number_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue
    ADD CONSTRAINT issue_workspace_id_number_key UNIQUE (workspace_id, number);


--
-- Name: member member_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.member
    ADD CONSTRAINT member_pkey PRIMARY KEY (id);


--
-- Name: member member_workspace_id_user_id_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.member
    ADD CONSTRAINT member_workspace_id_user_id_key UNIQUE (workspace_id, user_id);


--
-- Name: project project_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.project
    ADD CONSTRAINT project_pkey PRIMARY KEY (id);


--
-- Name: run_lease run_lease_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_lease
    ADD CONSTRAINT run_lease_pkey PRIMARY KEY (task_id);


--
-- Name: run_message run_message_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_message
    ADD CONSTRAINT run_message_pkey PRIMARY KEY (task_id, seq);


--
-- Name: run_progress run_progress_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_progress
    ADD CONSTRAINT run_progress_pkey PRIMARY KEY (task_id);


--
-- Name: schema_migrations schema_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (name);


--
-- Name: squad_member squad_member_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.squad_member
    ADD CONSTRAINT squad_member_pkey PRIMARY KEY (squad_id, member_type, member_id);


--
-- Name: squad squad_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.squad
    ADD CONSTRAINT squad_pkey PRIMARY KEY (id);


--
-- Name: sys_cron_executions sys_cron_executions_job_name_scope_kind_scope_id_plan_time_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sys_cron_executions
    ADD CONSTRAINT sys_cron_executions_job_name_scope_kind_scope_id_plan_time_key UNIQUE (job_name, scope_kind, scope_id, plan_time);


--
-- Name: sys_cron_executions sys_cron_executions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sys_cron_executions
    ADD CONSTRAINT sys_cron_executions_pkey PRIMARY KEY (id);


--
-- Name: task_token task_token_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.task_token
    ADD CONSTRAINT task_token_pkey PRIMARY KEY (token_hash);


--
-- Name: wakeup_generation wakeup_generation_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.wakeup_generation
    ADD CONSTRAINT wakeup_generation_pkey PRIMARY KEY (key);


--
-- Name: wakeup_ignored wakeup_ignored_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.wakeup_ignored
    ADD CONSTRAINT wakeup_ignored_pkey PRIMARY KEY (wakeup_id, reason);


--
-- Name: workspace_capacity workspace_capacity_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.workspace_capacity
    ADD CONSTRAINT workspace_capacity_pkey PRIMARY KEY (workspace_id);


--
-- Name: workspace workspace_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.workspace
    ADD CONSTRAINT workspace_pkey PRIMARY KEY (id);


--
-- Name: workspace workspace_slug_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.workspace
    ADD CONSTRAINT workspace_slug_key UNIQUE (slug);


--
-- Name: activity_log_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX activity_log_issue_idx ON public.activity_log USING btree (issue_id, created_at DESC, id DESC);


--
-- Name: agent_runtime_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_runtime_id_idx ON public.agent USING btree (runtime_id);


--
-- Name: agent_task_active_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_active_idx ON public.agent_task_queue USING btree (agent_id, issue_id) WHERE (status = ANY (ARRAY['dispatched'::text, 'waiting_local_directory'::text, 'running'::text]));


--
-- Name: agent_task_claim_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_claim_idx ON public.agent_task_queue USING btree (agent_id, priority DESC, created_at, id) WHERE (status = 'queued'::text);


--
-- Name: agent_task_claimed_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_claimed_idx ON public.agent_task_queue USING btree (dispatched_at) WHERE (status = ANY (ARRAY['dispatched'::text, 'waiting_local_directory'::text]));


--
-- Name: agent_task_deferred_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_deferred_idx ON public.agent_task_queue USING btree (agent_id, fire_at) WHERE (status = 'deferred'::text);


--
-- Name: agent_task_due_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_due_idx ON public.agent_task_queue USING btree (fire_at) WHERE (status = 'deferred'::text);


--
-- Name: agent_task_expiry_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_expiry_idx ON public.agent_task_queue USING btree (COALESCE(queued_at, created_at)) WHERE ((status = 'queued'::text) AND (wakeup_id IS NULL));


--
-- Name: agent_task_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_issue_idx ON public.agent_task_queue USING btree (issue_id, created_at DESC, id DESC);


--
-- Name: agent_task_pending_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX agent_task_pending_idx ON public.agent_task_queue USING btree (issue_id, agent_id, COALESCE(comment_thread_id, '00000000-0000-0000-0000-000000000000'::uuid)) WHERE (status = ANY (ARRAY['queued'::text, 'dispatched'::text]));


--
-- Name: agent_task_running_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_running_idx ON public.agent_task_queue USING btree (started_at) WHERE (status = 'running'::text);


--
-- Name: agent_task_wakeup_active_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_wakeup_active_idx ON public.agent_task_queue USING btree (wakeup_id) WHERE ((wakeup_id IS NOT NULL) AND (status = ANY (ARRAY['queued'::text, 'deferred'::text, 'dispatched'::text, 'waiting_local_directory'::text, 'running'::text])));


--
-- Name: agent_task_wakeup_terminal_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX agent_task_wakeup_terminal_idx ON public.agent_task_queue USING btree (wakeup_id, created_at DESC) WHERE (wakeup_id IS NOT NULL);


--
-- Name: agent_workspace_name_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX agent_workspace_name_idx ON public.agent USING btree (workspace_id, lower(name));


--
-- Name: attachment_comment_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX attachment_comment_idx ON public.attachment USING btree (comment_id) WHERE (comment_id IS NOT NULL);


--
-- Name: attachment_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX attachment_issue_idx ON public.attachment USING btree (issue_id) WHERE (issue_id IS NOT NULL);


--
-- Name: attachment_unbound_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX attachment_unbound_idx ON public.attachment USING btree (unbound_at) WHERE (unbound_at IS NOT NULL);


--
-- Name: attachment_unbound_workspace_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX attachment_unbound_workspace_idx ON public.attachment USING btree (workspace_id) INCLUDE (size_bytes) WHERE (unbound_at IS NOT NULL);


--
-- Name: attachment_workspace_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX attachment_workspace_idx ON public.attachment USING btree (workspace_id);


--
-- Name: capture_buffer_xact_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX capture_buffer_xact_idx ON public.capture_buffer USING btree (xact);


--
-- Name: comment_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX comment_issue_idx ON public.comment USING btree (issue_id, id);


--
-- Name: comment_parent_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX comment_parent_idx ON public.comment USING btree (parent_id) WHERE (parent_id IS NOT NULL);


--
-- Name: comment_source_task_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX comment_source_task_idx ON public.comment USING btree (source_task_id) WHERE (source_task_id IS NOT NULL);


--
-- Name: idempotency_key_created_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idempotency_key_created_idx ON public.idempotency_key USING btree (created_at);


--
-- Name: inbox_item_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_item_issue_idx ON public.inbox_item USING btree (issue_id) WHERE (issue_id IS NOT NULL);


--
-- Name: inbox_item_recipient_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inbox_item_recipient_idx ON public.inbox_item USING btree (recipient_id, workspace_id, created_at DESC, id DESC);


--
-- Name: issue_label_workspace_name_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX issue_label_workspace_name_idx ON public.issue_label USING btree (workspace_id, lower(name));


--
-- Name: issue_parent_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_parent_idx ON public.issue USING btree (parent_issue_id) WHERE (parent_issue_id IS NOT NULL);


--
-- Name: issue_project_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_project_idx ON public.issue USING btree (project_id) WHERE (project_id IS NOT NULL);


--
-- Name: issue_property_workspace_name_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX issue_property_workspace_name_idx ON public.issue_property USING btree (workspace_id, lower(name));


--
-- Name: issue_to_label_label_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_to_label_label_idx ON public.issue_to_label USING btree (label_id);


--
-- Name: issue_wakeup_due_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_due_idx ON public.issue_wakeup USING btree (next_fire_at) WHERE enabled;


--
-- Name: issue_wakeup_error_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_error_idx ON public.issue_wakeup USING btree (id) WHERE ((last_error IS NOT NULL) AND (disabled_at IS NULL));


--
-- Name: issue_wakeup_event_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_event_issue_idx ON public.issue_wakeup USING btree (issue_id) WHERE (enabled AND (kind = 'event'::text));


--
-- Name: issue_wakeup_inventory_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_inventory_idx ON public.issue_wakeup USING btree (workspace_id, issue_id) INCLUDE (id, agent_id, kind, enabled, disabled_at, source_task_id, next_fire_at, created_at);


--
-- Name: issue_wakeup_issue_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_issue_idx ON public.issue_wakeup USING btree (issue_id, created_at, id);


--
-- Name: issue_wakeup_paused_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_paused_idx ON public.issue_wakeup USING btree (workspace_id, issue_id, id) INCLUDE (agent_id, enabled, paused_reason) WHERE (paused_reason IS NOT NULL);


--
-- Name: issue_wakeup_receipt_free_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX issue_wakeup_receipt_free_idx ON public.issue_wakeup_receipt USING btree (wakeup_id, revision, coalesce_key) WHERE ((processed_at IS NULL) AND (task_id IS NULL));


--
-- Name: issue_wakeup_receipt_key_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX issue_wakeup_receipt_key_idx ON public.issue_wakeup_receipt USING btree (wakeup_id, revision, event_key);


--
-- Name: issue_wakeup_receipt_processed_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_receipt_processed_idx ON public.issue_wakeup_receipt USING btree (processed_at) WHERE (processed_at IS NOT NULL);


--
-- Name: issue_wakeup_receipt_reserved_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_receipt_reserved_idx ON public.issue_wakeup_receipt USING btree (task_id) WHERE ((processed_at IS NULL) AND (task_id IS NOT NULL));


--
-- Name: issue_wakeup_workspace_enabled_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_wakeup_workspace_enabled_idx ON public.issue_wakeup USING btree (workspace_id, issue_id) WHERE enabled;


--
-- Name: issue_workspace_created_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX issue_workspace_created_idx ON public.issue USING btree (workspace_id, created_at DESC, id DESC);


--
-- Name: project_workspace_name_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX project_workspace_name_idx ON public.project USING btree (workspace_id, lower(name));


--
-- Name: squad_workspace_name_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX squad_workspace_name_idx ON public.squad USING btree (workspace_id, lower(name));


--
-- Name: sys_cron_executions_running_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX sys_cron_executions_running_idx ON public.sys_cron_executions USING btree (stale_after) WHERE (status = 'RUNNING'::text);


--
-- Name: task_token_task_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX task_token_task_idx ON public.task_token USING btree (task_id);


--
-- Name: attachment attachment_unbound; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER attachment_unbound BEFORE INSERT OR UPDATE OF issue_id, comment_id ON public.attachment FOR EACH ROW EXECUTE FUNCTION public.attachment_unbound();


--
-- Name: capture_buffer capture_at_commit; Type: TRIGGER; Schema: public; Owner: -
--

CREATE CONSTRAINT TRIGGER capture_at_commit AFTER INSERT ON public.capture_buffer DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.capture_at_commit();


--
-- Name: attachment capture_attachment; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_attachment AFTER INSERT OR DELETE ON public.attachment FOR EACH ROW EXECUTE FUNCTION public.capture_attachment();


--
-- Name: attachment capture_attachment_moved; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_attachment_moved AFTER UPDATE ON public.attachment FOR EACH ROW WHEN (((old.issue_id IS DISTINCT FROM new.issue_id) OR (old.comment_id IS DISTINCT FROM new.comment_id))) EXECUTE FUNCTION public.capture_attachment();


--
-- Name: comment capture_comment_delete; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_comment_delete AFTER DELETE ON public.comment REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.capture_comment_delete();


--
-- Name: comment capture_comment_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_comment_insert AFTER INSERT ON public.comment FOR EACH ROW EXECUTE FUNCTION public.capture_comment_insert();


--
-- Name: comment_reaction capture_comment_reaction; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_comment_reaction AFTER INSERT OR DELETE ON public.comment_reaction FOR EACH ROW EXECUTE FUNCTION public.capture_comment_reaction();


--
-- Name: comment capture_comment_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_comment_update AFTER UPDATE ON public.comment FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND ((new.deleted_at IS NOT NULL) OR ((old.resolved_at IS NULL) <> (new.resolved_at IS NULL)) OR (old.content IS DISTINCT FROM new.content)))) EXECUTE FUNCTION public.capture_comment_update();


--
-- Name: issue_reaction capture_issue_reaction; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_issue_reaction AFTER INSERT OR DELETE ON public.issue_reaction FOR EACH ROW EXECUTE FUNCTION public.capture_issue_reaction();


--
-- Name: issue capture_issue_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_issue_update AFTER UPDATE ON public.issue FOR EACH ROW WHEN ((((((((((((((((old.title IS DISTINCT FROM new.title) OR (old.description IS DISTINCT FROM new.description)) OR (old.status IS DISTINCT FROM new.status)) OR (old.priority IS DISTINCT FROM new.priority)) OR (old.assignee_type IS DISTINCT FROM new.assignee_type)) OR (old.assignee_id IS DISTINCT FROM new.assignee_id)) OR (old.parent_issue_id IS DISTINCT FROM new.parent_issue_id)) OR (old.project_id IS DISTINCT FROM new.project_id)) OR (old.due_date IS DISTINCT FROM new.due_date)) OR (old.start_date IS DISTINCT FROM new.start_date)) OR (old.stage IS DISTINCT FROM new.stage)) OR (old.properties IS DISTINCT FROM new.properties)) OR (old.metadata IS DISTINCT FROM new.metadata)) OR (old.acceptance_criteria IS DISTINCT FROM new.acceptance_criteria)) OR (old.context_refs IS DISTINCT FROM new.context_refs))) EXECUTE FUNCTION public.capture_issue_update();


--
-- Name: issue_to_label capture_label; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_label AFTER INSERT OR DELETE ON public.issue_to_label FOR EACH ROW EXECUTE FUNCTION public.capture_label();


--
-- Name: agent_task_queue capture_run_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_run_insert AFTER INSERT ON public.agent_task_queue REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.capture_run_insert();


--
-- Name: agent_task_queue capture_run_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER capture_run_update AFTER UPDATE ON public.agent_task_queue FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION public.capture_run_update();


--
-- Name: issue_wakeup notify_timer_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER notify_timer_insert AFTER INSERT ON public.issue_wakeup FOR EACH ROW WHEN ((new.enabled AND (new.next_fire_at IS NOT NULL))) EXECUTE FUNCTION public.notify_timer();


--
-- Name: issue_wakeup notify_timer_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER notify_timer_update AFTER UPDATE ON public.issue_wakeup FOR EACH ROW WHEN ((new.enabled AND (new.next_fire_at IS NOT NULL) AND ((NOT old.enabled) OR (new.next_fire_at IS DISTINCT FROM old.next_fire_at)))) EXECUTE FUNCTION public.notify_timer();


--
-- Name: agent_task_queue run_scope; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER run_scope BEFORE INSERT ON public.agent_task_queue FOR EACH ROW EXECUTE FUNCTION public.run_scope();


--
-- Name: agent_task_queue run_scope_moved; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER run_scope_moved BEFORE UPDATE OF trigger_comment_id ON public.agent_task_queue FOR EACH ROW WHEN ((new.trigger_comment_id IS DISTINCT FROM old.trigger_comment_id)) EXECUTE FUNCTION public.run_scope();


--
-- Name: agent_task_queue wake_waiting_inputs; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wake_waiting_inputs AFTER UPDATE OF status ON public.agent_task_queue FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND (new.issue_id IS NOT NULL) AND ((old.status = ANY (ARRAY['queued'::text, 'dispatched'::text])) OR (new.status = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text]))))) EXECUTE FUNCTION public.wake_waiting_inputs();


--
-- Name: issue_wakeup wakeup_keep_ignored; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakeup_keep_ignored AFTER INSERT OR DELETE ON public.issue_wakeup FOR EACH ROW EXECUTE FUNCTION public.wakeup_keep_ignored();


--
-- Name: issue_wakeup wakeup_keeps_issue; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakeup_keeps_issue BEFORE INSERT ON public.issue_wakeup FOR EACH ROW EXECUTE FUNCTION public.wakeup_keeps_issue();


--
-- Name: issue_wakeup wakeup_limit_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakeup_limit_insert AFTER INSERT ON public.issue_wakeup REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION public.wakeup_limit_insert();


--
-- Name: issue_wakeup wakeup_limit_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakeup_limit_update AFTER UPDATE ON public.issue_wakeup FOR EACH ROW WHEN ((new.enabled AND ((NOT old.enabled) OR (new.issue_id <> old.issue_id) OR (new.workspace_id <> old.workspace_id)))) EXECUTE FUNCTION public.wakeup_limit_update();


--
-- Name: issue_wakeup wakeup_starts_listening_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakeup_starts_listening_insert BEFORE INSERT ON public.issue_wakeup FOR EACH ROW WHEN ((new.enabled AND (new.kind = 'event'::text))) EXECUTE FUNCTION public.wakeup_starts_listening();


--
-- Name: issue_wakeup wakeup_starts_listening_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER wakeup_starts_listening_update BEFORE UPDATE ON public.issue_wakeup FOR EACH ROW WHEN ((new.enabled AND (new.kind = 'event'::text) AND ((NOT old.enabled) OR (old.kind <> 'event'::text) OR (NOT (old.event_types @> new.event_types)) OR (((((((old.issue_id IS DISTINCT FROM new.issue_id) OR (old.revision IS DISTINCT FROM new.revision)) OR (old.source_task_id IS DISTINCT FROM new.source_task_id)) OR (old.filter_agent_id IS DISTINCT FROM new.filter_agent_id)) OR (old.filter_task_id IS DISTINCT FROM new.filter_task_id)) OR (old.filter_actor_type IS DISTINCT FROM new.filter_actor_type)) OR (old.filter_actor_id IS DISTINCT FROM new.filter_actor_id))))) EXECUTE FUNCTION public.wakeup_starts_listening();


--
-- Name: access_token access_token_user_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);


--
-- Name: access_token access_token_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.access_token
    ADD CONSTRAINT access_token_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: agent_invocation_target agent_invocation_target_agent_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent_invocation_target
    ADD CONSTRAINT agent_invocation_target_agent_id_fkey FOREIGN KEY (agent_id) REFERENCES public.agent(id);


--
-- Name: agent agent_owner_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent
    ADD CONSTRAINT agent_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES public.app_user(id);


--
-- Name: agent agent_runtime_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent
    ADD CONSTRAINT agent_runtime_id_fkey FOREIGN KEY (runtime_id) REFERENCES public.agent_runtime(id);


--
-- Name: agent_runtime agent_runtime_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent_runtime
    ADD CONSTRAINT agent_runtime_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: agent agent_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.agent
    ADD CONSTRAINT agent_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: attachment attachment_comment_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attachment
    ADD CONSTRAINT attachment_comment_id_fkey FOREIGN KEY (comment_id) REFERENCES public.comment(id);


--
-- Name: attachment_content attachment_content_attachment_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attachment_content
    ADD CONSTRAINT attachment_content_attachment_id_fkey FOREIGN KEY (attachment_id) REFERENCES public.attachment(id);


--
-- Name: attachment attachment_issue_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attachment
    ADD CONSTRAINT attachment_issue_id_fkey FOREIGN KEY (issue_id) REFERENCES public.issue(id);


--
-- Name: attachment attachment_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.attachment
    ADD CONSTRAINT attachment_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: comment comment_issue_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.comment
    ADD CONSTRAINT comment_issue_id_fkey FOREIGN KEY (issue_id) REFERENCES public.issue(id);


--
-- Name: comment comment_parent_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.comment
    ADD CONSTRAINT comment_parent_id_fkey FOREIGN KEY (parent_id) REFERENCES public.comment(id);


--
-- Name: comment_reaction comment_reaction_comment_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.comment_reaction
    ADD CONSTRAINT comment_reaction_comment_id_fkey FOREIGN KEY (comment_id) REFERENCES public.comment(id);


--
-- Name: daemon daemon_token_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.daemon
    ADD CONSTRAINT daemon_token_id_fkey FOREIGN KEY (token_id) REFERENCES public.access_token(id);


--
-- Name: daemon daemon_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.daemon
    ADD CONSTRAINT daemon_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: inbox_item inbox_item_recipient_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inbox_item
    ADD CONSTRAINT inbox_item_recipient_id_fkey FOREIGN KEY (recipient_id) REFERENCES public.app_user(id);


--
-- Name: inbox_item inbox_item_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inbox_item
    ADD CONSTRAINT inbox_item_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: issue_label issue_label_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_label
    ADD CONSTRAINT issue_label_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: issue issue_parent_issue_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue
    ADD CONSTRAINT issue_parent_issue_id_fkey FOREIGN KEY (parent_issue_id) REFERENCES public.issue(id);


--
-- Name: issue issue_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue
    ADD CONSTRAINT issue_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.project(id);


--
-- Name: issue_property issue_property_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_property
    ADD CONSTRAINT issue_property_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: issue_reaction issue_reaction_issue_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_reaction
    ADD CONSTRAINT issue_reaction_issue_id_fkey FOREIGN KEY (issue_id) REFERENCES public.issue(id);


--
-- Name: issue_status issue_status_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_status
    ADD CONSTRAINT issue_status_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: issue_to_label issue_to_label_issue_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_to_label
    ADD CONSTRAINT issue_to_label_issue_id_fkey FOREIGN KEY (issue_id) REFERENCES public.issue(id);


--
-- Name: issue_to_label issue_to_label_label_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue_to_label
    ADD CONSTRAINT issue_to_label_label_id_fkey FOREIGN KEY (label_id) REFERENCES public.issue_label(id);


--
-- Name: issue issue_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.issue
    ADD CONSTRAINT issue_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: member member_user_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.member
    ADD CONSTRAINT member_user_id_fkey FOREIGN KEY (user_id) REFERENCES public.app_user(id);


--
-- Name: member member_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.member
    ADD CONSTRAINT member_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: project project_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.project
    ADD CONSTRAINT project_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- Name: squad squad_leader_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.squad
    ADD CONSTRAINT squad_leader_id_fkey FOREIGN KEY (leader_id) REFERENCES public.agent(id);


--
-- Name: squad_member squad_member_squad_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.squad_member
    ADD CONSTRAINT squad_member_squad_id_fkey FOREIGN KEY (squad_id) REFERENCES public.squad(id);


--
-- Name: squad squad_workspace_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.squad
    ADD CONSTRAINT squad_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES public.workspace(id);


--
-- PostgreSQL database dump complete
--
