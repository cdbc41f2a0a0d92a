-- Rollback refuses when: a rule is paused; without the reason it would pass for one that somebody
-- switched off, or for a spent one.
DO $$
DECLARE
  paused bigint := (SELECT count(*) FROM issue_wakeup WHERE paused_reason IS NOT NULL);
BEGIN
  IF paused > 0 THEN
    RAISE EXCEPTION '% rules are paused; enable or delete them first', paused;
  END IF;
END $$;
DROP INDEX issue_wakeup_paused_idx;
ALTER TABLE issue_wakeup DROP COLUMN paused_reason;
