"""The accounting of W-083, counted from the source rows and from the receipts, in one snapshot."""

from __future__ import annotations

from typing import Any, Final

from engine.storage.database import Dedicated, Query, with_connection

# Facts of a rule's own runs never reach it (W-058); everything else of its type does.
UNBALANCED: Final = Query(
    "accounting.unbalanced",
    """
    SELECT * FROM (
      SELECT r.id, r.event_types[1] AS event_type,
             CASE r.event_types[1]
               WHEN 'comment.created' THEN (
                 SELECT count(*) FROM comment c
                   LEFT JOIN agent_task_queue q ON q.id = c.source_task_id
                  WHERE c.issue_id = r.issue_id AND q.wakeup_id IS DISTINCT FROM r.id)
               WHEN 'task.completed' THEN (
                 SELECT count(*) FROM agent_task_queue q
                  WHERE q.issue_id = r.issue_id AND q.status = 'completed'
                    AND q.wakeup_id IS DISTINCT FROM r.id)
             END AS happened,
             (SELECT coalesce(sum((x.payload ->> 'coalesced_count')::bigint), 0)
                FROM issue_wakeup_receipt x WHERE x.wakeup_id = r.id) AS counted
        FROM issue_wakeup r) each
     WHERE happened <> counted
    """,
)

# What the runs carry is what was consumed with them, fact for fact; a retry carries it once more.
MISCARRIED: Final = Query(
    "accounting.miscarried",
    """
    SELECT q.id, carried.count AS carried, consumed.count AS consumed
      FROM agent_task_queue q,
           LATERAL (
             SELECT coalesce(sum((f -> 'payload' ->> 'coalesced_count')::bigint), 0) AS count
               FROM jsonb_array_elements(q.context -> 'wakeup_evidence' -> 'facts') f) carried,
           LATERAL (
             SELECT coalesce(sum((x.payload ->> 'coalesced_count')::bigint), 0) AS count
               FROM issue_wakeup_receipt x WHERE x.task_id = q.id) consumed
     WHERE q.wakeup_id IS NOT NULL AND q.retry_of_task_id IS NULL
       AND carried.count <> consumed.count
    """,
)

FREE: Final = Query(
    "accounting.free",
    "SELECT count(*) FROM issue_wakeup_receipt WHERE processed_at IS NULL",
)

UNFINISHED: Final = Query(
    "accounting.unfinished",
    "SELECT count(*) FROM agent_task_queue"
    " WHERE status NOT IN ('completed', 'failed', 'cancelled')",
)

NEWEST: Final = Query(
    "accounting.newest",
    """
    SELECT DISTINCT ON (r.id) r.issue_id, x.payload ->> 'comment_id' AS comment_id
      FROM issue_wakeup r JOIN issue_wakeup_receipt x ON x.wakeup_id = r.id
     WHERE r.event_types[1] = 'comment.created'
     ORDER BY r.id, (x.payload ->> 'occurred_at')::timestamptz DESC
    """,
)

COMMENTS: Final = Query("accounting.comments", "SELECT id::text FROM comment")


async def ask(dsn: str, query: Query, *args: object) -> list[dict[str, Any]]:
    """Run one query on a connection of its own."""

    async def fetch(session: Dedicated) -> list[dict[str, Any]]:
        return [dict(row.items()) for row in await session.fetch(query, *args)]

    return await with_connection(dsn, fetch)


async def faults(dsn: str) -> list[dict[str, Any]]:
    """Return every rule and run whose accounts do not balance."""
    return [*await ask(dsn, UNBALANCED), *await ask(dsn, MISCARRIED)]
