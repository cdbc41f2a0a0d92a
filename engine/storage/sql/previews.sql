-- What a rule would meet if it were saved now. Nothing is locked and nothing is written.

-- name: ground
-- What a save would hold and check, as it is now: issue ($2) of the workspace ($1), agent ($3) with
-- its runtime, the right of the person ($4); and how many other rules than $5 are enabled on the
-- issue and in the workspace. Index: primary keys, issue_wakeup_workspace_enabled_idx.
SELECT wakeful_now() AS now, i.id IS NOT NULL AS has_issue,
       a.id IS NOT NULL AND may_invoke($4, a) AS may_invoke,
       t.id IS NOT NULL AND a.archived_at IS NULL AS is_available,
       a.name AS agent_name, t.last_seen_at AS seen_at,
       (SELECT count(*) FROM issue_wakeup r
         WHERE r.workspace_id = $1 AND r.issue_id = $2 AND r.enabled
           AND r.id IS DISTINCT FROM $5::uuid) AS on_issue,
       (SELECT count(*) FROM issue_wakeup r
         WHERE r.workspace_id = $1 AND r.enabled AND r.id IS DISTINCT FROM $5) AS in_workspace
  FROM (SELECT) nothing
  LEFT JOIN issue i ON i.id = $2 AND i.workspace_id = $1
  LEFT JOIN agent a ON a.id = $3 AND a.workspace_id = $1
  LEFT JOIN agent_runtime t ON t.id = a.runtime_id;

-- name: source_name
-- The name of the member ($1) or agent ($2) that a filter names.
SELECT coalesce((SELECT u.name FROM app_user u WHERE u.id = $1),
                (SELECT a.name FROM agent a WHERE a.id = $2));

-- name: opposite
-- W-153: an agent that an enabled repeating event rule of the issue, other than $2, wakes by what the
-- agent of the rule $1 (the columns of its row) does, and that does what this rule wakes by. Whether
-- something reaches a rule `wakeup_match` says, of things that either agent might do.
-- Index: issue_wakeup_event_issue_idx.
WITH mine AS (SELECT m FROM jsonb_populate_record(NULL::issue_wakeup, $1::jsonb) m)
SELECT a.name
  FROM mine
  JOIN issue_wakeup r ON r.issue_id = (mine.m).issue_id
  JOIN agent a ON a.id = r.agent_id
 WHERE r.enabled AND r.kind = 'event' AND r.mode = 'continuous'
   AND r.id IS DISTINCT FROM $2::uuid AND r.agent_id <> (mine.m).agent_id
   AND EXISTS (
     SELECT FROM unnest(r.event_types) AS type
      WHERE wakeup_match(r, ROW(
              r.issue_id, type, 'agent', (mine.m).agent_id, (mine.m).agent_id, NULL, NULL,
              false)::wakeup_fact) IS NULL)
   AND EXISTS (
     SELECT FROM unnest((mine.m).event_types) AS type
      WHERE wakeup_match(mine.m, ROW(
              r.issue_id, type, 'agent', r.agent_id, r.agent_id, NULL, NULL,
              false)::wakeup_fact) IS NULL)
 ORDER BY r.created_at, r.id
 LIMIT 1;
