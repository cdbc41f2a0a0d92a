"""The schema, as numbered steps: `NNNN_verb_object.up.sql` and `.down.sql`.

`engine.storage.migrate` applies them in the order of their names and records each by name and
checksum, so an applied file never changes: append another step instead. A step runs in one
transaction, unless its first line is `-- no-transaction` (concurrent indexes): such a file holds
one statement, which must be repeatable. A down file refuses with RAISE EXCEPTION when data would
change its meaning (W-244).

`schema.sql` is the dump of a migrated database and `functions/` the current text of each
function. Both are generated (`python -m engine.storage.schema_dump`) and compared by a test.
"""
