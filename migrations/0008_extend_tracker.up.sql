-- Purpose: the rest of the tracker: statuses, squads, projects, labels, properties, reactions,
-- attachments, the inbox.
-- Rollback refuses when: an issue has a status of the workspace's own, which would lose its category.

-- The seven built-in statuses are no rows: they are the same everywhere and always there. A category
-- never changes, and an archived status keeps it for the issues that have it.
CREATE TABLE issue_status (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  key text NOT NULL CHECK (key ~ '^[a-z0-9][a-z0-9_]{0,31}$' AND key NOT IN (
    'backlog', 'todo', 'in_progress', 'in_review', 'blocked', 'done', 'cancelled')),
  name text NOT NULL,
  category text NOT NULL CHECK (category IN ('backlog', 'todo', 'in_progress', 'done', 'closed')),
  color text,
  position double precision NOT NULL DEFAULT 0,
  archived_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now(),
  UNIQUE (workspace_id, key)
);

CREATE TABLE squad (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  name text NOT NULL,
  instructions text NOT NULL DEFAULT '',
  leader_id uuid NOT NULL REFERENCES agent,
  archived_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE UNIQUE INDEX squad_workspace_name_idx ON squad (workspace_id, lower(name));

-- `member_id` is a person's user id or an agent's id.
CREATE TABLE squad_member (
  squad_id uuid NOT NULL REFERENCES squad,
  member_type text NOT NULL CHECK (member_type IN ('member', 'agent')),
  member_id uuid NOT NULL,
  position integer NOT NULL DEFAULT 0,
  PRIMARY KEY (squad_id, member_type, member_id)
);

CREATE TABLE project (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  name text NOT NULL,
  description text NOT NULL DEFAULT '',
  archived_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE UNIQUE INDEX project_workspace_name_idx ON project (workspace_id, lower(name));
ALTER TABLE issue ADD CONSTRAINT issue_project_id_fkey FOREIGN KEY (project_id) REFERENCES project;
CREATE INDEX issue_project_idx ON issue (project_id) WHERE project_id IS NOT NULL;

CREATE TABLE issue_label (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  name text NOT NULL,
  color text,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE UNIQUE INDEX issue_label_workspace_name_idx ON issue_label (workspace_id, lower(name));

CREATE TABLE issue_to_label (
  issue_id uuid NOT NULL REFERENCES issue,
  label_id uuid NOT NULL REFERENCES issue_label,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  PRIMARY KEY (issue_id, label_id)
);
CREATE INDEX issue_to_label_label_idx ON issue_to_label (label_id);

-- The values are in issue.properties, by the id of the property.
CREATE TABLE issue_property (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  name text NOT NULL,
  type text NOT NULL DEFAULT 'text' CHECK (type IN (
    'text', 'number', 'boolean', 'date', 'select', 'multi_select')),
  config jsonb NOT NULL DEFAULT '{}',
  archived_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  updated_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE UNIQUE INDEX issue_property_workspace_name_idx ON issue_property (workspace_id, lower(name));

CREATE TABLE issue_reaction (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  issue_id uuid NOT NULL REFERENCES issue,
  workspace_id uuid NOT NULL,
  actor_type text NOT NULL CHECK (actor_type IN ('member', 'agent')),
  actor_id uuid NOT NULL,
  emoji text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  UNIQUE (issue_id, actor_type, actor_id, emoji)
);

CREATE TABLE comment_reaction (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  comment_id uuid NOT NULL REFERENCES comment,
  workspace_id uuid NOT NULL,
  actor_type text NOT NULL CHECK (actor_type IN ('member', 'agent')),
  actor_id uuid NOT NULL,
  emoji text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  UNIQUE (comment_id, actor_type, actor_id, emoji)
);

-- Bound to an issue, to a comment, or to nothing yet. A file has its content beside it, a link a URL.
CREATE TABLE attachment (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  issue_id uuid REFERENCES issue,
  comment_id uuid REFERENCES comment,
  uploader_type text NOT NULL CHECK (uploader_type IN ('member', 'agent')),
  uploader_id uuid NOT NULL,
  filename text NOT NULL,
  url text,
  content_type text NOT NULL DEFAULT 'application/octet-stream',
  size_bytes bigint NOT NULL DEFAULT 0,
  task_id uuid,
  created_at timestamptz NOT NULL DEFAULT wakeful_now(),
  CHECK (issue_id IS NULL OR comment_id IS NULL)
);
CREATE INDEX attachment_issue_idx ON attachment (issue_id) WHERE issue_id IS NOT NULL;
CREATE INDEX attachment_comment_idx ON attachment (comment_id) WHERE comment_id IS NOT NULL;
CREATE INDEX attachment_workspace_idx ON attachment (workspace_id);

CREATE TABLE attachment_content (
  attachment_id uuid PRIMARY KEY REFERENCES attachment,
  content bytea NOT NULL
);

-- What asks for a person's attention. No foreign key to the issue: an item outlives it.
CREATE TABLE inbox_item (
  id uuid PRIMARY KEY DEFAULT wakeful_uuid7(),
  workspace_id uuid NOT NULL REFERENCES workspace,
  recipient_id uuid NOT NULL REFERENCES app_user,
  type text NOT NULL,
  severity text NOT NULL DEFAULT 'info' CHECK (severity IN ('action_required', 'attention', 'info')),
  issue_id uuid,
  title text NOT NULL,
  body text NOT NULL DEFAULT '',
  actor_type text NOT NULL DEFAULT 'system' CHECK (actor_type IN ('member', 'agent', 'system')),
  actor_id uuid,
  details jsonb NOT NULL DEFAULT '{}',
  read_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT wakeful_now()
);
CREATE INDEX inbox_item_recipient_idx ON inbox_item (recipient_id, workspace_id, created_at DESC, id DESC);

-- The category of a status key: null for a key that the workspace does not know.
CREATE OR REPLACE FUNCTION status_category(workspace_id uuid, status text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
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
