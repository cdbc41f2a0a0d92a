-- Purpose: the queue of runs, and beside it what is hot and must not be captured or locked.
-- Rollback refuses when: a run exists.

CREATE TABLE agent_task_queue (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  agent_id uuid NOT NULL,
  issue_id uuid,
  runtime_id uuid,
  status text NOT NULL DEFAULT 'queued' CHECK (status IN (
    'queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running',
    'completed', 'failed', 'cancelled')),
  priority integer NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 1,
  max_attempts integer NOT NULL DEFAULT 2,
  context jsonb NOT NULL DEFAULT '{}',
  handoff_note text NOT NULL DEFAULT '',
  trigger_summary text NOT NULL DEFAULT '',
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
  fire_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  dispatched_at timestamptz,
  started_at timestamptz,
  completed_at timestamptz,
  result jsonb,
  error text,
  failure_reason text,
  wait_reason text,
  -- The rule behind the run; a column of its own, so that rewriting the context stays heap-only.
  wakeup_id uuid GENERATED ALWAYS AS ((context ->> 'wakeup_id')::uuid) STORED
) WITH (fillfactor = 70);

-- W-098: one pending run per issue, agent and scope; the scope of a wakeup run is its rule.
CREATE UNIQUE INDEX agent_task_pending_idx ON agent_task_queue (
  issue_id, agent_id, coalesce(comment_thread_id, '00000000-0000-0000-0000-000000000000'))
  WHERE status IN ('queued', 'dispatched');
CREATE INDEX agent_task_claim_idx ON agent_task_queue (runtime_id, priority DESC, created_at, id)
  WHERE status = 'queued';
CREATE INDEX agent_task_active_idx ON agent_task_queue (agent_id, issue_id)
  WHERE status IN ('dispatched', 'waiting_local_directory', 'running');
CREATE INDEX agent_task_deferred_idx ON agent_task_queue (runtime_id, fire_at)
  WHERE status = 'deferred';
CREATE INDEX agent_task_issue_idx ON agent_task_queue (issue_id, created_at DESC, id DESC);
-- Unfinished and latest runs of a rule; retries carry the rule in their context too.
CREATE INDEX agent_task_wakeup_active_idx ON agent_task_queue (wakeup_id)
  WHERE wakeup_id IS NOT NULL AND status IN (
    'queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running');
CREATE INDEX agent_task_wakeup_terminal_idx ON agent_task_queue (wakeup_id, created_at DESC)
  WHERE wakeup_id IS NOT NULL;

-- W-105: the prepare lease, renewed while a daemon prepares; away from the captured row.
CREATE TABLE run_lease (
  task_id uuid PRIMARY KEY,
  expires_at timestamptz NOT NULL
);

CREATE TABLE run_progress (
  task_id uuid PRIMARY KEY,
  summary text NOT NULL,
  step integer,
  total integer,
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);

CREATE TABLE run_message (
  task_id uuid NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  line jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  PRIMARY KEY (task_id, seq)
);

-- The credential of one claim of one run; it ends with the run (api.md, credentials).
CREATE TABLE task_token (
  token_hash bytea PRIMARY KEY,
  task_id uuid NOT NULL,
  agent_id uuid NOT NULL,
  workspace_id uuid NOT NULL,
  user_id uuid,
  dispatched_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX task_token_task_idx ON task_token (task_id);

-- The scope of a run: its rule for a wakeup run, else the root of the triggering thread.
CREATE FUNCTION run_scope() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.context ? 'wakeup_id' THEN
    NEW.comment_thread_id := (NEW.context ->> 'wakeup_id')::uuid;
  ELSIF NEW.trigger_comment_id IS NOT NULL THEN
    NEW.comment_thread_id := comment_thread_root(NEW.trigger_comment_id);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER run_scope BEFORE INSERT ON agent_task_queue
  FOR EACH ROW EXECUTE FUNCTION run_scope();
CREATE TRIGGER run_scope_moved BEFORE UPDATE OF trigger_comment_id ON agent_task_queue
  FOR EACH ROW WHEN (NEW.trigger_comment_id IS DISTINCT FROM OLD.trigger_comment_id)
  EXECUTE FUNCTION run_scope();
