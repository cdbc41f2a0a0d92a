-- Rollback refuses when: never; unbound uploads then stay, and nobody knows since when they are unbound.
DROP INDEX attachment_unbound_workspace_idx;
DROP INDEX attachment_unbound_idx;
DROP TRIGGER attachment_unbound ON attachment;
DROP FUNCTION attachment_unbound();
ALTER TABLE attachment DROP COLUMN unbound_at;

CREATE OR REPLACE FUNCTION wakeup_limit(workspaces uuid[], issues uuid[]) RETURNS void
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

CREATE OR REPLACE FUNCTION wakeup_keeps_issue() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM issue i WHERE i.id = NEW.issue_id FOR SHARE;
  RETURN NEW;
END $$;
DROP TRIGGER wakeup_keeps_issue ON issue_wakeup;
CREATE TRIGGER wakeup_keeps_issue BEFORE INSERT ON issue_wakeup
  FOR EACH ROW WHEN (NEW.enabled) EXECUTE FUNCTION wakeup_keeps_issue();
