-- What every benchmark starts from. Workspaces 1 .. :workspaces, each with a member, a runtime that is
-- online, :agents agents on it and :issues issues; agents and issues are numbered through. The rules,
-- each with :rules_each of its kind, stand on the issues from :first_rule to :last_rule; the agents
-- of a workspace take turns in them. The text of the daemon's token is `bench-` and the workspace.

-- Ids are known without a lookup: the kind, and the number from 1. In order, as real ones are.
CREATE FUNCTION bench_id(kind text, number bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ('00000000-0000-7000-' || kind || '-' || lpad(to_hex(number), 12, '0'))::uuid
$$;

SET wakeful.hinted = 'on';

INSERT INTO workspace (id, name, slug, issue_prefix, issue_counter)
SELECT bench_id('8001', w), 'Workspace ' || w, 'w' || w, 'W' || w, :issues
  FROM generate_series(1, :workspaces) w;

INSERT INTO app_user (id, email, name)
SELECT bench_id('8002', w), 'person' || w || '@example.com', 'Person ' || w
  FROM generate_series(1, :workspaces) w;

INSERT INTO member (workspace_id, user_id, role)
SELECT bench_id('8001', w), bench_id('8002', w), 'owner' FROM generate_series(1, :workspaces) w;

INSERT INTO access_token (id, kind, name, user_id, workspace_id, token_hash)
SELECT bench_id('8003', w), 'daemon', 'daemon', bench_id('8002', w), bench_id('8001', w),
       sha256(('bench-' || w)::bytea)
  FROM generate_series(1, :workspaces) w;

INSERT INTO daemon (workspace_id, daemon_id, token_id)
SELECT bench_id('8001', w), 'bench', bench_id('8003', w) FROM generate_series(1, :workspaces) w;

INSERT INTO agent_runtime (id, workspace_id, daemon_id, name, provider, last_seen_at)
SELECT bench_id('8004', w), bench_id('8001', w), 'bench', 'main', 'bench', wakeful_now()
  FROM generate_series(1, :workspaces) w;

INSERT INTO agent (id, workspace_id, name, owner_id, runtime_id, max_concurrent_tasks)
SELECT bench_id('8005', (w - 1) * :agents + a), bench_id('8001', w), 'Agent ' || a,
       bench_id('8002', w), bench_id('8004', w), 1000
  FROM generate_series(1, :workspaces) w, generate_series(1, :agents) a;

INSERT INTO issue (id, workspace_id, number, title, description, creator_type, creator_id)
SELECT bench_id('8000', (w - 1) * :issues + i), bench_id('8001', w), i, 'Issue ' || i,
       repeat('What is to be done, and how to see that it is. ', 8), 'member', bench_id('8002', w)
  FROM generate_series(1, :workspaces) w, generate_series(1, :issues) i;

-- More rules than may be enabled (W-013, W-014), so that a figure is about many issues at once.
ALTER TABLE issue_wakeup DISABLE TRIGGER wakeup_limit_insert, DISABLE TRIGGER wakeup_limit_update;
INSERT INTO issue_wakeup (
  id, workspace_id, issue_id, agent_id, created_by, instruction, kind, mode, event_types)
SELECT bench_id('9000', (n - :first_rule) * :rules_each + k), i.workspace_id, i.id, a.id, a.owner_id,
       repeat('Read what was said; answer what is asked, and bring the plan up to date. ', 4),
       'event', 'continuous', '{comment.created}'
  FROM generate_series(:first_rule, :last_rule) n
  CROSS JOIN generate_series(1, :rules_each) k
  JOIN issue i ON i.id = bench_id('8000', n)
  JOIN agent a
    ON a.id = bench_id('8005', (n - 1) / :issues * :agents + (n - 1) % :issues % :agents + 1);

VACUUM ANALYZE;
