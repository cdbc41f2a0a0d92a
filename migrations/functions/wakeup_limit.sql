CREATE OR REPLACE FUNCTION public.wakeup_limit(workspaces uuid[], issues uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
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
END $function$
;
