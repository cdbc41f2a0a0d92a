-- name: begin
-- W-049: hands the authenticated identity to the triggers, for this transaction alone.
SELECT wakeful_begin($1, $2, $3);

-- name: flush
-- Merges what was captured and returns the issues with a new free receipt, one row each.
SELECT DISTINCT opened.issue_id FROM unnest(wakeful_flush()) AS opened (issue_id);

-- name: alive
-- Whether the server answers at all.
SELECT 1;
