-- name: begin
-- W-049: hands the authenticated identity to the triggers, for this transaction alone, and bounds each
-- wait for a lock ($4 ms; null: as it is). One statement, because every write pays for its way.
SELECT wakeful_begin($1, $2, $3),
       set_config('lock_timeout', coalesce($4, current_setting('lock_timeout')), true);

-- name: flush
-- Merges what was captured and returns the issues with a new free receipt, one row each, and those
-- whose inputs may go on because a run has left the queue or has ended (W-071).
SELECT DISTINCT opened.issue_id
  FROM unnest(wakeful_flush() || wakeful_freed()) AS opened (issue_id);

-- name: statement_timeout
-- A budget of its own for the rest of this transaction, in milliseconds.
SELECT set_config('statement_timeout', $1, true);

-- name: alive
-- Whether the server answers at all.
SELECT 1;
