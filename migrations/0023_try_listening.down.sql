-- Rollback refuses when: never, nothing is stored here.

DROP FUNCTION wakeup_try_listening(uuid);
