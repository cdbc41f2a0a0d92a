DROP FUNCTION dispatch_load_alone(uuid, uuid[], integer);
DROP FUNCTION dispatch_load_group(uuid[], uuid[], integer);
DROP FUNCTION dispatch_read(uuid[]);
DROP TYPE dispatch_row;
DROP FUNCTION dispatch_candidates(uuid[], uuid[], integer);
