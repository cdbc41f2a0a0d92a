-- Purpose: a rule says why the platform paused it, and the paused rules of a workspace are found by
-- index.
-- Rollback refuses when: a rule is paused; enabled anew or deleted it is paused no more.

-- The closed list of reasons: it went in a circle, it fired too often within an hour, it has fired as often
-- as it may. The first two come with disabled_at, by which the claim gate refuses its runs (W-149); the
-- last does not, so that its last run still starts (W-145).
ALTER TABLE issue_wakeup ADD COLUMN paused_reason text
  CONSTRAINT issue_wakeup_paused_reason_check CHECK (paused_reason IN ('loop', 'rate', 'max_fires'));

-- W-150 and the class "paused" of W-208, from the index alone: few rules are paused, however long the
-- history is. No further column keeps the update of a firing from being heap-only.
CREATE INDEX issue_wakeup_paused_idx ON issue_wakeup (workspace_id, issue_id, id)
  INCLUDE (agent_id, enabled, paused_reason) WHERE paused_reason IS NOT NULL;
