-- The rules of a whole workspace. Instructions are never read here (W-195), nor is the heap of rules
-- or runs walked: what is classed and counted stands in indexes, the rest is read for the page
-- alone. LIMIT 1 in a lateral keeps the planner at one index lookup a row, whatever statistics say.

-- name: list
-- W-206: the page, the counts and the agents to choose from, of one snapshot. The workspace $1, then
-- what narrows: scope $2, kind $3, source $4 (each with an "all"), target agent $5 and LIKE pattern $6
-- or null, limit $7, offset $8. Always one row at least: without a rule in it when the page is empty.
-- Index: issue_wakeup_inventory_idx (rules, alone), issue_wakeup_paused_idx (paused ones, alone),
-- agent_task_wakeup_active_idx (unfinished runs of the instance, alone),
-- agent_task_wakeup_terminal_idx (of the rules on the page), primary keys.
WITH unfinished AS (
  SELECT q.wakeup_id, count(*) AS runs
    FROM agent_task_queue q
   WHERE q.wakeup_id IS NOT NULL
     AND q.status IN ('queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
   GROUP BY q.wakeup_id
), rules AS MATERIALIZED (
  SELECT r.id, r.issue_id, r.agent_id, r.kind, r.source_task_id IS NOT NULL AS is_of_agent, r.enabled,
         r.disabled_at IS NOT NULL AS is_off, CASE WHEN r.enabled THEN r.next_fire_at END AS next_at,
         r.created_at, u.runs AS active_runs
    FROM issue_wakeup r
    LEFT JOIN unfinished u ON u.wakeup_id = r.id
   WHERE r.workspace_id = $1
), paused AS MATERIALIZED (
  SELECT r.id FROM issue_wakeup r WHERE r.workspace_id = $1 AND r.paused_reason IS NOT NULL
), agents AS MATERIALIZED (
  SELECT a.id, a.name
    FROM (SELECT DISTINCT r.agent_id FROM rules r) used
    CROSS JOIN LATERAL (SELECT * FROM agent a WHERE a.id = used.agent_id LIMIT 1) a
), issues AS MATERIALIZED (
  SELECT i.id, i.status,
         $6::text IS NULL OR i.title ILIKE $6 OR w.issue_prefix || '-' || i.number ILIKE $6 AS is_found
    FROM (SELECT DISTINCT r.issue_id FROM rules r) used
    CROSS JOIN LATERAL (SELECT * FROM issue i WHERE i.id = used.issue_id LIMIT 1) i
    JOIN workspace w ON w.id = $1
), open_issues AS MATERIALIZED (  -- OFFSET: asks the function once a status, not once an issue
  SELECT i.id FROM issues i
   WHERE i.status IN (SELECT used.status FROM (SELECT DISTINCT x.status FROM issues x OFFSET 0) used
                       WHERE NOT status_is_closed($1, used.status))
), classed AS MATERIALIZED (  -- W-208; the first that holds
  SELECT r.id, r.issue_id, r.is_of_agent, r.next_at, r.created_at, r.active_runs,
         CASE WHEN r.active_runs > 0 THEN 'active'
              WHEN r.issue_id NOT IN (SELECT i.id FROM open_issues i) THEN 'ended'
              WHEN r.enabled THEN 'active'
              WHEN r.id IN (SELECT p.id FROM paused p) THEN 'paused'
              WHEN r.is_off THEN 'disabled'
              ELSE 'ended' END AS scope
    FROM rules r
   WHERE ($3 = 'all' OR r.kind = $3 OR $3 = 'recurring' AND r.kind IN ('every', 'cron'))
     AND ($4 = 'all' OR $4 = 'agent' AND r.is_of_agent OR $4 = 'member' AND NOT r.is_of_agent)
     AND ($5::uuid IS NULL OR r.agent_id = $5)
     AND ($6 IS NULL OR r.issue_id IN (SELECT i.id FROM issues i WHERE i.is_found)
          OR r.agent_id IN (SELECT a.id FROM agents a WHERE a.name ILIKE $6))
), counted AS (
  SELECT count(*) AS count_all,
         count(*) FILTER (WHERE c.scope = 'active') AS count_active,
         count(*) FILTER (WHERE c.scope = 'paused') AS count_paused,
         count(*) FILTER (WHERE c.scope = 'disabled') AS count_disabled,
         count(*) FILTER (WHERE c.scope = 'ended') AS count_ended,
         (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.name)
                                    ORDER BY lower(a.name), a.id), '[]')
            FROM agents a) AS agents,
         wakeful_now() - interval '7 days' AS week_ago
    FROM classed c
), page AS (
  SELECT c.* FROM classed c
   WHERE $2 = 'all' OR c.scope = $2
   ORDER BY c.scope <> 'active', c.next_at NULLS LAST, c.created_at DESC, c.id DESC
   LIMIT $7 OFFSET $8
)
SELECT counted.*,
       r.id, r.workspace_id, r.issue_id, r.agent_id, agent.name AS agent_name,
       r.created_by, creator.name AS created_by_name, r.source_task_id IS NOT NULL AS created_by_agent,
       r.source_task_id, source_run.agent_id AS source_agent_id,
       source_agent.name AS source_agent_name, r.parent_comment_id, r.kind, r.mode, r.event_types,
       r.filter_actor_type, r.filter_actor_id,
       coalesce(actor_user.name, actor_agent.name) AS filter_actor_name, r.filter_agent_id,
       filter_agent.name AS filter_agent_name, r.filter_task_id,
       watched.agent_id AS filter_task_agent_id, r.interval_seconds, r.cron_expression, r.timezone,
       r.next_fire_at, r.enabled, r.disabled_at, r.paused_reason, r.revision, r.last_task_id,
       latest.status AS last_task_status, r.last_error, r.created_at, r.updated_at,
       i.title AS issue_title, w.issue_prefix || '-' || i.number AS issue_identifier,
       page.issue_id NOT IN (SELECT x.id FROM open_issues x) AS issue_closed,
       CASE WHEN page.is_of_agent THEN 'agent' ELSE 'member' END AS source,
       coalesce(page.active_runs, 0) AS active_runs,
       (SELECT count(*) FROM agent_task_queue q
         WHERE q.wakeup_id = page.id AND q.created_at > counted.week_ago) AS runs_7d,
       task.id AS task_id, task.agent_id AS task_agent_id, task.runtime_id AS task_runtime_id,
       task.issue_id AS task_issue_id, task.wakeup_id AS task_wakeup_id, task.status AS task_status,
       task.priority AS task_priority, task.created_at AS task_created_at,
       task.dispatched_at AS task_dispatched_at, task.started_at AS task_started_at,
       task.completed_at AS task_completed_at, task.fire_at AS task_fire_at
  FROM counted
  LEFT JOIN page ON true
  LEFT JOIN LATERAL (SELECT * FROM issue_wakeup x WHERE x.id = page.id LIMIT 1) r ON true
  LEFT JOIN LATERAL (SELECT * FROM issue x WHERE x.id = page.issue_id LIMIT 1) i ON true
  LEFT JOIN workspace w ON w.id = i.workspace_id
  LEFT JOIN LATERAL (
    SELECT * FROM (
      (SELECT q.*, 0 AS rank FROM agent_task_queue q
        WHERE q.wakeup_id = page.id
          AND q.status IN ('queued', 'deferred', 'dispatched', 'waiting_local_directory', 'running')
        ORDER BY q.started_at IS NULL, q.created_at DESC, q.id DESC LIMIT 1)
      UNION ALL
      (SELECT q.*, 1 FROM agent_task_queue q
        WHERE q.wakeup_id = page.id
        ORDER BY q.created_at DESC, q.id DESC LIMIT 1)) either
     ORDER BY either.rank LIMIT 1) task ON true
  LEFT JOIN LATERAL (
    SELECT q.status FROM agent_task_queue q WHERE q.id = r.last_task_id LIMIT 1) latest ON true
  LEFT JOIN LATERAL (
    SELECT q.agent_id FROM agent_task_queue q WHERE q.id = r.source_task_id LIMIT 1) source_run ON true
  LEFT JOIN LATERAL (
    SELECT q.agent_id FROM agent_task_queue q WHERE q.id = r.filter_task_id LIMIT 1) watched ON true
  LEFT JOIN agent ON agent.id = r.agent_id
  LEFT JOIN agent source_agent ON source_agent.id = source_run.agent_id
  LEFT JOIN agent filter_agent ON filter_agent.id = r.filter_agent_id
  LEFT JOIN app_user creator ON creator.id = r.created_by
  LEFT JOIN app_user actor_user
    ON r.filter_actor_type = 'member' AND actor_user.id = r.filter_actor_id
  LEFT JOIN agent actor_agent
    ON r.filter_actor_type = 'agent' AND actor_agent.id = r.filter_actor_id
 ORDER BY page.scope <> 'active', page.next_at NULLS LAST, page.created_at DESC, page.id DESC;

-- name: summaries
-- W-211: the first three ($2) enabled rules of each open issue of the workspace $1, with the exact
-- counts of the issue. As many rows as there may be enabled rules, at most (W-014).
-- Index: issue_wakeup_workspace_enabled_idx, then primary keys.
WITH enabled AS MATERIALIZED (
  SELECT r.id, r.issue_id, r.agent_id, r.source_task_id, r.kind, r.mode, r.event_types,
         r.filter_actor_type, r.filter_actor_id, r.filter_agent_id, r.filter_task_id,
         r.interval_seconds, r.cron_expression, r.timezone, r.next_fire_at, r.enabled,
         r.paused_reason, r.revision, r.created_at,
         row_number() OVER (
           PARTITION BY r.issue_id ORDER BY r.next_fire_at NULLS LAST, r.created_at, r.id) AS place,
         count(*) OVER (PARTITION BY r.issue_id) AS active_count,
         count(*) FILTER (WHERE r.kind = 'event') OVER (PARTITION BY r.issue_id) AS event_count
    FROM issue_wakeup r
   WHERE r.workspace_id = $1 AND r.enabled
), issues AS MATERIALIZED (
  SELECT i.id, i.status
    FROM (SELECT DISTINCT r.issue_id FROM enabled r) used
    CROSS JOIN LATERAL (SELECT * FROM issue i WHERE i.id = used.issue_id LIMIT 1) i
), open_issues AS MATERIALIZED (  -- as above
  SELECT i.id FROM issues i
   WHERE i.status IN (SELECT used.status FROM (SELECT DISTINCT x.status FROM issues x OFFSET 0) used
                       WHERE NOT status_is_closed($1, used.status))
)
SELECT r.*, agent.name AS agent_name, source_run.agent_id AS source_agent_id,
       source_agent.name AS source_agent_name,
       coalesce(actor_user.name, actor_agent.name) AS filter_actor_name,
       filter_agent.name AS filter_agent_name, watched.agent_id AS filter_task_agent_id
  FROM enabled r
  JOIN open_issues i ON i.id = r.issue_id
  LEFT JOIN LATERAL (
    SELECT q.agent_id FROM agent_task_queue q WHERE q.id = r.source_task_id LIMIT 1) source_run ON true
  LEFT JOIN LATERAL (
    SELECT q.agent_id FROM agent_task_queue q WHERE q.id = r.filter_task_id LIMIT 1) watched ON true
  LEFT JOIN agent ON agent.id = r.agent_id
  LEFT JOIN agent source_agent ON source_agent.id = source_run.agent_id
  LEFT JOIN agent filter_agent ON filter_agent.id = r.filter_agent_id
  LEFT JOIN app_user actor_user
    ON r.filter_actor_type = 'member' AND actor_user.id = r.filter_actor_id
  LEFT JOIN agent actor_agent
    ON r.filter_actor_type = 'agent' AND actor_agent.id = r.filter_actor_id
 WHERE r.place <= $2
 ORDER BY r.issue_id, r.place;

-- name: paused
-- W-150: the first ($2) paused rules of the open issues of the workspace $1. Whoever switched one on
-- past the API, without taking the reason back, has it run again: it is no paused one.
-- Index: issue_wakeup_paused_idx (rules, alone), primary keys.
WITH paused AS MATERIALIZED (
  SELECT r.issue_id, r.id, r.agent_id, r.paused_reason
    FROM issue_wakeup r
   WHERE r.workspace_id = $1 AND r.paused_reason IS NOT NULL AND NOT r.enabled
), issues AS MATERIALIZED (
  SELECT i.id, i.status
    FROM (SELECT DISTINCT r.issue_id FROM paused r) used
    CROSS JOIN LATERAL (SELECT * FROM issue i WHERE i.id = used.issue_id LIMIT 1) i
), open_issues AS MATERIALIZED (  -- as above
  SELECT i.id FROM issues i
   WHERE i.status IN (SELECT used.status FROM (SELECT DISTINCT x.status FROM issues x OFFSET 0) used
                       WHERE NOT status_is_closed($1, used.status))
)
SELECT r.issue_id, r.id, r.agent_id, r.paused_reason
  FROM paused r
  JOIN open_issues i ON i.id = r.issue_id
 ORDER BY r.issue_id, r.id
 LIMIT $2;
