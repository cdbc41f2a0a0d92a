-- Purpose: recovery, claims and reports leave out what they would have to wait for (W-071).
-- Rollback refuses when: never, nothing is stored here.

-- Whether a change on this issue can be captured at once; takes the lock that capture takes
-- (`wakeup_listens`) if nobody switches listening on at this moment. Whoever changes many runs in one
-- transaction asks it of each, behind all other conditions, or one transaction that has enabled a rule
-- and idles holds up all of them.
CREATE FUNCTION wakeup_try_listening(issue_id uuid) RETURNS boolean
LANGUAGE sql VOLATILE COST 10000 AS $$
  SELECT issue_id IS NULL OR pg_try_advisory_xact_lock_shared(1, wakeful_listening_key(issue_id))
$$;
