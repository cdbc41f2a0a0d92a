DROP TRIGGER wakeup_limit_update ON issue_wakeup;
DROP TRIGGER wakeup_limit_insert ON issue_wakeup;
DROP FUNCTION wakeup_limit_update();
DROP FUNCTION wakeup_limit_insert();
DROP FUNCTION wakeup_limit(uuid[], uuid[]);
DROP TABLE workspace_capacity;
