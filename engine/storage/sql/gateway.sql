-- name: begin
-- W-049: hands the authenticated identity to the triggers, for this transaction alone.
SELECT wakeful_begin($1, $2, $3);

-- name: flush
-- Merges what was captured and returns the issues with a new free receipt, one row each.
SELECT DISTINCT issue_id FROM wakeful_flush() AS issue_id;

-- name: alive
-- Whether the server answers at all.
SELECT 1;
