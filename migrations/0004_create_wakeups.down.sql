DO $$
DECLARE
  rules bigint := (SELECT count(*) FROM issue_wakeup WHERE enabled);
  receipts bigint := (SELECT count(*) FROM issue_wakeup_receipt WHERE processed_at IS NULL);
  runs bigint := (SELECT count(*) FROM agent_task_queue WHERE wakeup_id IS NOT NULL);
BEGIN
  IF rules + receipts + runs > 0 THEN
    RAISE EXCEPTION '% enabled rules, % pending receipts and % runs of rules remain',
      rules, receipts, runs;
  END IF;
END $$;
DROP TABLE issue_wakeup_receipt, issue_wakeup;
