-- Purpose: at most 32 enabled rules per issue and 1,000 per workspace, whoever enables them
-- (W-013, W-014).
-- Rollback refuses when: never; what is enabled stays enabled.

-- One row per workspace, updated by every transaction that enables a rule there: activations of a
-- workspace commit one after the other. A count alone would let everybody pass who cannot see the
-- others' rules yet, and under REPEATABLE READ also who counts behind a lock: there the update of a
-- row that changed meanwhile is a serialization error.
CREATE TABLE workspace_capacity (
  workspace_id uuid PRIMARY KEY,
  activations bigint NOT NULL DEFAULT 1
);

-- What is enabled is counted, not kept as a number: switching off, which every one-shot does when it
-- fires, costs nothing.
CREATE FUNCTION wakeup_limit(workspaces uuid[], issues uuid[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  full_one uuid;
BEGIN
  INSERT INTO workspace_capacity AS c (workspace_id)
  SELECT DISTINCT w FROM unnest(workspaces) w ORDER BY w
  ON CONFLICT (workspace_id) DO UPDATE SET activations = c.activations + 1;
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

CREATE FUNCTION wakeup_limit_insert() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM wakeup_limit(array_agg(n.workspace_id), array_agg(n.issue_id))
     FROM added n WHERE n.enabled HAVING count(*) > 0;
  RETURN NULL;
END $$;
CREATE TRIGGER wakeup_limit_insert AFTER INSERT ON issue_wakeup
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION wakeup_limit_insert();

-- A row trigger, because its condition costs the updates of every dispatch nothing.
CREATE FUNCTION wakeup_limit_update() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM wakeup_limit(ARRAY[NEW.workspace_id], ARRAY[NEW.issue_id]);
  RETURN NULL;
END $$;
CREATE TRIGGER wakeup_limit_update AFTER UPDATE ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled AND (
    NOT OLD.enabled OR NEW.issue_id <> OLD.issue_id OR NEW.workspace_id <> OLD.workspace_id))
  EXECUTE FUNCTION wakeup_limit_update();
