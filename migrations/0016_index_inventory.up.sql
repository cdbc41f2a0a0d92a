-- Purpose: all rules of a workspace are classed and counted, and the inbox items of an issue found, by
-- index.
-- Rollback refuses when: never; the inventory then reads all rules of the workspace.

-- W-206: what classes, filters and orders a rule, so that its row is read for a page alone. None of
-- the columns changes when an event rule fires: that update stays heap-only.
CREATE INDEX issue_wakeup_inventory_idx ON issue_wakeup (workspace_id, issue_id) INCLUDE (
  id, agent_id, kind, enabled, disabled_at, source_task_id, next_fire_at, created_at);
-- Deleting an issue takes the items about it away.
CREATE INDEX inbox_item_issue_idx ON inbox_item (issue_id) WHERE issue_id IS NOT NULL;
