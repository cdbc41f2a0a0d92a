-- Purpose: workspaces, people, credentials, agents, issues, comments, timeline.
-- Rollback refuses when: an issue exists.

CREATE TABLE workspace (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  name text NOT NULL,
  slug text NOT NULL UNIQUE,
  issue_prefix text NOT NULL,
  issue_counter integer NOT NULL DEFAULT 0,
  settings jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);

CREATE TABLE app_user (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  email text NOT NULL UNIQUE,
  name text NOT NULL,
  instance_admin boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT wakeful_now()
);

CREATE TABLE member (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  user_id uuid NOT NULL REFERENCES app_user,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  UNIQUE (workspace_id, user_id)
);

-- Credentials of people and of daemons; only the SHA-256 of a token is kept. A member token acts
-- in every workspace of its person, a daemon token in exactly one.
CREATE TABLE access_token (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  kind text NOT NULL CHECK (kind IN ('member', 'daemon')),
  name text NOT NULL,
  user_id uuid NOT NULL REFERENCES app_user,
  workspace_id uuid REFERENCES workspace,
  token_hash bytea NOT NULL UNIQUE,
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  CHECK ((kind = 'daemon') = (workspace_id IS NOT NULL))
);

-- W-102: a daemon name belongs to the token that registered it first.
CREATE TABLE daemon (
  workspace_id uuid NOT NULL REFERENCES workspace,
  daemon_id text NOT NULL,
  token_id uuid NOT NULL REFERENCES access_token,
  device_name text,
  version text,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  PRIMARY KEY (workspace_id, daemon_id)
);

CREATE TABLE agent_runtime (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  daemon_id text NOT NULL,
  name text NOT NULL,
  provider text NOT NULL,
  last_seen_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  UNIQUE (workspace_id, daemon_id, name)
);

CREATE TABLE agent (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  name text NOT NULL,
  instructions text NOT NULL DEFAULT '',
  visibility text NOT NULL DEFAULT 'workspace' CHECK (visibility IN ('workspace', 'private')),
  owner_id uuid NOT NULL REFERENCES app_user,
  runtime_id uuid REFERENCES agent_runtime,
  max_concurrent_tasks integer NOT NULL DEFAULT 6 CHECK (max_concurrent_tasks BETWEEN 1 AND 1000),
  archived_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE UNIQUE INDEX agent_workspace_name_idx ON agent (workspace_id, lower(name));
CREATE INDEX agent_runtime_id_idx ON agent (runtime_id);

CREATE TABLE agent_invocation_target (
  agent_id uuid NOT NULL REFERENCES agent,
  target_type text NOT NULL DEFAULT 'member' CHECK (target_type = 'member'),
  target_id uuid NOT NULL,
  PRIMARY KEY (agent_id, target_type, target_id)
);

CREATE TABLE issue (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  number integer NOT NULL,
  title text NOT NULL,
  description text NOT NULL DEFAULT '',
  status text NOT NULL DEFAULT 'todo',
  priority text NOT NULL DEFAULT 'none'
    CHECK (priority IN ('urgent', 'high', 'medium', 'low', 'none')),
  assignee_type text CHECK (assignee_type IN ('member', 'agent', 'squad')),
  assignee_id uuid,
  creator_type text NOT NULL DEFAULT 'system' CHECK (creator_type IN ('member', 'agent', 'system')),
  creator_id uuid,
  parent_issue_id uuid REFERENCES issue,
  stage integer,
  project_id uuid,
  start_date date,
  due_date date,
  acceptance_criteria jsonb NOT NULL DEFAULT '[]',
  context_refs jsonb NOT NULL DEFAULT '[]',
  metadata jsonb NOT NULL DEFAULT '{}',
  properties jsonb NOT NULL DEFAULT '{}',
  position double precision NOT NULL DEFAULT 0,
  revision bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now(),
  UNIQUE (workspace_id, number),
  CHECK ((assignee_type IS NULL) = (assignee_id IS NULL))
);
CREATE INDEX issue_parent_idx ON issue (parent_issue_id) WHERE parent_issue_id IS NOT NULL;
CREATE INDEX issue_workspace_created_idx ON issue (workspace_id, created_at DESC, id DESC);

CREATE TABLE comment (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  issue_id uuid NOT NULL REFERENCES issue,
  workspace_id uuid NOT NULL,
  author_type text NOT NULL DEFAULT 'system' CHECK (author_type IN ('member', 'agent', 'system')),
  author_id uuid,
  content text NOT NULL,
  type text NOT NULL DEFAULT 'comment',
  parent_id uuid REFERENCES comment,
  resolved_at timestamptz,
  resolved_by_type text,
  resolved_by_id uuid,
  source_task_id uuid,
  revision bigint NOT NULL DEFAULT 1,
  deleted_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE INDEX comment_issue_idx ON comment (issue_id, id);
CREATE INDEX comment_parent_idx ON comment (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX comment_source_task_idx ON comment (source_task_id) WHERE source_task_id IS NOT NULL;

-- The timeline. No foreign keys: an entry outlives what it tells of (W-032).
CREATE TABLE activity_log (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL,
  issue_id uuid,
  actor_type text NOT NULL,
  actor_id uuid,
  action text NOT NULL,
  details jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE INDEX activity_log_issue_idx ON activity_log (issue_id, created_at DESC, id DESC);

-- The category of a status key: null for a key that the workspace does not know.
CREATE FUNCTION status_category(workspace_id uuid, status text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE status
    WHEN 'backlog' THEN 'backlog'
    WHEN 'todo' THEN 'todo'
    WHEN 'in_progress' THEN 'in_progress'
    WHEN 'in_review' THEN 'in_progress'
    WHEN 'blocked' THEN 'in_progress'
    WHEN 'done' THEN 'done'
    WHEN 'cancelled' THEN 'closed'
  END
$$;

-- Closed means category done or closed (wakeups.md, section 0).
CREATE FUNCTION status_is_closed(workspace_id uuid, status text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT coalesce(status_category(workspace_id, status) IN ('done', 'closed'), false)
$$;

-- W-045: the root of a comment's thread, at most 256 steps up.
CREATE FUNCTION comment_thread_root(comment_id uuid) RETURNS uuid
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE up AS (
    SELECT c.id, c.parent_id, 0 AS hops FROM comment c WHERE c.id = comment_id
    UNION ALL
    SELECT c.id, c.parent_id, up.hops + 1
      FROM up JOIN comment c ON c.id = up.parent_id
     WHERE up.hops < 256
  )
  SELECT id FROM up ORDER BY hops DESC LIMIT 1
$$;

CREATE FUNCTION priority_rank(priority text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE priority
    WHEN 'urgent' THEN 4 WHEN 'high' THEN 3 WHEN 'medium' THEN 2 WHEN 'low' THEN 1 ELSE 0
  END
$$;

-- Whether a person may invoke an agent: a member of the workspace, and for a private agent its
-- owner or one of the named people (W-012, W-196).
CREATE FUNCTION may_invoke(person uuid, agent agent) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
           SELECT FROM member m WHERE m.workspace_id = agent.workspace_id AND m.user_id = person)
     AND (agent.visibility = 'workspace'
          OR agent.owner_id = person
          OR EXISTS (
               SELECT FROM agent_invocation_target t
                WHERE t.agent_id = agent.id AND t.target_type = 'member' AND t.target_id = person))
$$;
