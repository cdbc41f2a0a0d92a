-- Purpose: a rule goes with its issue, whoever saves it; activations give way before the server sees a
-- deadlock; uploads that hang on nothing are found, by workspace and by age.
-- Rollback refuses when: never; unbound uploads then stay, and nobody knows since when they are unbound.

-- W-189, W-190: there are no foreign keys on rules, so their issue stands in for one: a rule is saved
-- before it is deleted, which then takes the rule along, or refused as a foreign key would (23503).
-- W-186: an enabled one before its issue closes or after it, never at the same time; the closing then
-- finds the rule, or the rule finds the issue closed. Engines hold the issue already, first in lock
-- order; anybody else holds nothing yet.
CREATE OR REPLACE FUNCTION wakeup_keeps_issue() RETURNS trigger
LANGUAGE plpgsql AS $$
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
DROP TRIGGER wakeup_keeps_issue ON issue_wakeup;
CREATE TRIGGER wakeup_keeps_issue BEFORE INSERT ON issue_wakeup
  FOR EACH ROW EXECUTE FUNCTION wakeup_keeps_issue();

-- Whoever has saved a rule on one issue keeps the workspace's row until the commit, and may write to a
-- second issue meanwhile: there somebody may be saving a rule, who holds that issue and waits for the
-- row. He is the one to give up (55P03): together with the wait for the listening lock, which
-- belongs to the same statement, within seven tenths of a second, before the server looks for a
-- deadlock and may choose the other one.
CREATE OR REPLACE FUNCTION wakeup_limit(workspaces uuid[], issues uuid[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
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

-- Since when a file hangs on nothing, whoever took it off; null while it hangs on something.
ALTER TABLE attachment ADD COLUMN unbound_at timestamptz;
UPDATE attachment SET unbound_at = wakeful_now() WHERE issue_id IS NULL AND comment_id IS NULL;
CREATE FUNCTION attachment_unbound() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.unbound_at := CASE
    WHEN coalesce(NEW.issue_id, NEW.comment_id) IS NOT NULL THEN NULL
    WHEN TG_OP = 'UPDATE' THEN coalesce(OLD.unbound_at, wakeful_now())
    ELSE wakeful_now() END;
  RETURN NEW;
END $$;
CREATE TRIGGER attachment_unbound BEFORE INSERT OR UPDATE OF issue_id, comment_id ON attachment
  FOR EACH ROW EXECUTE FUNCTION attachment_unbound();
-- The oldest of all, for retention; those of a workspace with their sizes, for its quota.
CREATE INDEX attachment_unbound_idx ON attachment (unbound_at) WHERE unbound_at IS NOT NULL;
CREATE INDEX attachment_unbound_workspace_idx ON attachment (workspace_id) INCLUDE (size_bytes)
  WHERE unbound_at IS NOT NULL;
