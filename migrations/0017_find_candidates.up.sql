-- Purpose: what a dispatch looks for costs as much as its issues have, not as much as all issues have.
-- Rollback refuses when: never, nothing is stored here.

-- Rules of these issues that have something to do, an input or a time that has come, in id order
-- (W-076), without the barred ones. Whether a rule has an input is a look into the index for this
-- rule: an EXISTS beside an OR may be planned as a hash of all free inputs of the instance, which was
-- made anew for every dispatch.
CREATE OR REPLACE FUNCTION dispatch_candidates(issue_ids uuid[], barred uuid[], most integer)
RETURNS uuid[]
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT coalesce(array_agg(c.id ORDER BY c.id), '{}')
    FROM (
      SELECT r.id
        FROM unnest(issue_ids) WITH ORDINALITY AS wanted (id, place)
        JOIN issue_wakeup r ON r.issue_id = wanted.id
       WHERE r.id <> ALL (barred)
         AND ((r.enabled AND r.next_fire_at <= (SELECT wakeful_now()))
              OR (SELECT x.seq FROM issue_wakeup_receipt x
                   WHERE x.wakeup_id = r.id AND x.processed_at IS NULL AND x.task_id IS NULL
                   LIMIT 1) IS NOT NULL)
       ORDER BY wanted.place, r.id
       LIMIT most) c
$$;
