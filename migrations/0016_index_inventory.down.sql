-- Rollback refuses when: never; the inventory then reads all rules of the workspace.

DROP INDEX inbox_item_issue_idx;
DROP INDEX issue_wakeup_inventory_idx;
