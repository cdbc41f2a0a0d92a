"""What the steps after the queue of runs leave alone."""

from __future__ import annotations

from engine.storage import migrate
from engine.storage.database import Dedicated, Query, Record, open_loop, with_connection

QUEUE = "3"  # the step that makes the queue and its pending index; wakeups come after it
MARKS = Query(
    "test.marks",
    "SELECT 'agent_task_pending_idx'::regclass::oid AS index,"
    "       pg_relation_filenode('agent_task_pending_idx') AS file,"
    "       ARRAY(SELECT q.xmin::text FROM agent_task_queue q ORDER BY q.id) AS rows",
)


async def marks(session: Dedicated) -> list[object]:
    row: Record | None = await session.fetchrow(MARKS)
    assert row is not None
    return list(row.values())


async def test_wakeups_leave_the_queue_as_it_is(empty_url: str) -> None:
    """W-098: the later steps neither rebuild the pending index nor rewrite a row of the queue."""

    async def fill(session: Dedicated) -> None:
        await session.script(
            "INSERT INTO agent_task_queue (agent_id, issue_id, status)"
            " SELECT gen_random_uuid(), gen_random_uuid(), s"
            "   FROM unnest(ARRAY['queued', 'running', 'completed']) s"
        )

    async with open_loop():
        await migrate.up(empty_url, QUEUE)
        await with_connection(empty_url, fill)
        before = await with_connection(empty_url, marks)
        assert len(await migrate.up(empty_url)) > 1
        assert await with_connection(empty_url, marks) == before
