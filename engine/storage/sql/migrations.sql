-- The ledger of migration steps (W-237). Unqualified names: it lives where the schema lives.

-- name: create_ledger
-- One row a step that is applied. Only under the migration lock.
CREATE TABLE IF NOT EXISTS schema_migrations (
  name text PRIMARY KEY,
  checksum text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: ledger_exists
-- Asked first by readers, which must not create anything.
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- name: ledger
-- What is applied. C collation: numbers with leading zeros sort as numbers.
SELECT name, checksum, applied_at FROM schema_migrations ORDER BY name COLLATE "C";

-- name: record
-- In the transaction of the step, so that both or neither happen.
INSERT INTO schema_migrations (name, checksum) VALUES ($1, $2);

-- name: forget
-- In the transaction of the down file.
DELETE FROM schema_migrations WHERE name = $1;

-- name: lock
-- One migrator at a time, for its whole connection. It is tried, not awaited: a waiting statement
-- holds a snapshot, for which CREATE INDEX CONCURRENTLY of the holder would wait in turn.
SELECT pg_try_advisory_lock(hashtextextended('wakeful.migrations', 8765));

-- name: drop_invalid_indexes
-- Statements that remove what a killed CREATE INDEX CONCURRENTLY left: an invalid index, which
-- IF NOT EXISTS would take for the real one. Only indexes that the step itself ($1) names.
SELECT format('DROP INDEX CONCURRENTLY %I.%I', n.nspname, c.relname) AS statement
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT i.indisvalid AND n.nspname = current_schema() AND $1 ~ ('\m' || c.relname || '\M');
