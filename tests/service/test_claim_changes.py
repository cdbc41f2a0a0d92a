"""Claims of runs whose agent, issue, person or lease has changed since they were queued."""

from __future__ import annotations

import pytest
import trio

from engine.domain.commands.runs import RegisterDaemon, RenewLease, RuntimeDraft
from engine.domain.commands.tracker import DeleteIssue, UpdateAgent
from engine.domain.views.runs import ClaimedRun
from engine.service.enqueue import OrdinaryRun, RunReason, enqueue_run
from engine.service.registry import Work
from engine.service.reports import renew_lease
from engine.storage.database import Lane, Query, Session
from tests.service.conftest import Sql
from tests.service.runs_seed import Floor, floor

__all__ = ["floor"]

LATE = Query("test.late", "SELECT pg_advisory_xact_lock(42)")


async def waiting(sql: Sql) -> int:
    """Return how many locks of this database are waited for."""
    rows = await sql(
        "SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE d.datname = current_database() AND NOT l.granted"
        " UNION ALL SELECT FROM pg_stat_activity s"
        "  WHERE s.datname = current_database() AND s.wait_event = 'transactionid'"
    )
    return len(rows)


async def until_waiting(sql: Sql, number: int) -> None:
    """Return when so many locks of this database are waited for."""
    while await waiting(sql) < number:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("later", [False, True])
async def test_a_run_queued_while_its_agent_moves_follows_it(floor: Floor, later: bool) -> None:
    """A run is handed out where its agent runs now, also when it was queued as the agent moved."""
    view = await floor.report(
        RegisterDaemon(daemon_id="daemon-2", runtimes=(RuntimeDraft(name="x", provider="x"),))
    )
    moved = view.runtimes[0].id
    (row,) = await floor.sql("SELECT wakeful_now() + interval '60 s' AS at")
    draft = OrdinaryRun(
        agent_id=floor.world.a,
        issue_id=floor.world.issue,
        reason=RunReason.BY_HAND,
        originator_user_id=floor.world.m.user_id,
        fire_at=row["at"] if later else None,
    )
    await floor.sql("SELECT pg_advisory_lock(42)")

    async def enqueue(session: Session) -> None:
        await enqueue_run(Work(session=session, caller=floor.world.m), draft)
        await session.execute(LATE)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(floor.execute.database.write, Lane.API, enqueue)
            await until_waiting(floor.sql, 1)
            await floor.execute(
                floor.world.o, UpdateAgent(agent_id=floor.world.a, runtime_id=moved)
            )
            await floor.sql("SELECT pg_advisory_unlock(42)")
    (run,) = await floor.sql("SELECT id, runtime_id FROM agent_task_queue")
    assert run["runtime_id"] == floor.world.runtime_id, "queued for the old runtime"
    await floor.pass_seconds(61)
    await floor.beat()
    await floor.sql("UPDATE agent_runtime SET last_seen_at = wakeful_now()")
    attempt = await floor.attempt()
    assert (attempt.runs, attempt.next_look_at) == ((), None)
    (claimed,) = await floor.claim(daemon_id="daemon-2", runtime_ids=(moved,))
    assert (claimed.id, claimed.runtime_id) == (run["id"], moved)
    assert claimed.dispatched_at is not None
    await floor.start(claimed)


async def test_a_renewed_claim_is_not_redelivered(floor: Floor) -> None:
    """W-105: a claim whose lease is being renewed is not handed out again beside it."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.pass_seconds(91)
    await floor.beat()
    await floor.sql("SELECT pg_advisory_lock(42)")
    got: list[ClaimedRun] = []
    has_looked = trio.Event()

    async def renew(session: Session) -> None:
        work = Work(session=session, caller=floor.world.daemon)
        await renew_lease(work, RenewLease(run_id=run.id))
        await session.execute(LATE)

    async def look() -> None:
        got.extend(await floor.claim())
        has_looked.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(floor.execute.database.write, Lane.CLAIM, renew)
            await until_waiting(floor.sql, 1)
            nursery.start_soon(look)
            while not has_looked.is_set() and await waiting(floor.sql) < 2:
                await trio.lowlevel.checkpoint()
            await floor.sql("SELECT pg_advisory_unlock(42)")
    assert got == []
    assert await floor.claim() == ()
    await floor.start(run)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM member WHERE user_id = (SELECT id FROM app_user WHERE name = 'M')",
        "UPDATE agent SET visibility = 'private' WHERE name = 'A'",
        "UPDATE agent_task_queue SET originator_user_id = NULL",
    ],
)
async def test_an_ordinary_run_needs_its_persons_right(floor: Floor, change: str) -> None:
    """W-196, W-108: a run whose person may not invoke the agent any more fails at the claim."""
    run = await floor.enqueue()
    await floor.sql(change)
    assert await floor.claim() == ()
    (row,) = await floor.sql("SELECT status, failure_reason, error FROM agent_task_queue")
    assert (row["status"], row["failure_reason"]) == ("failed", "invalid_task_identity")
    assert "may no longer" in row["error"]
    (told,) = await floor.sql("SELECT details FROM activity_log WHERE action = 'claim_refused'")
    assert told["details"]["task_id"] == str(run.id)
    assert told["details"]["check"] == "permission_lost"
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")


async def test_a_lost_claim_of_a_deleted_issue_ends(floor: Floor) -> None:
    """W-189: a claim that was lost is not handed out again for an issue that is gone; it fails."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 1 WHERE id = $1", floor.world.a)
    await floor.enqueue()
    lost = await floor.claim_one()
    await floor.execute(floor.world.m, DeleteIssue(issue_id=floor.world.issue))
    other = await floor.enqueue(issue_id=floor.world.other_issue)
    await floor.pass_seconds(91)
    await floor.beat()
    assert [run.id for run in await floor.claim()] == [other.id]
    assert await floor.status(lost.id) == "failed"
    assert not await floor.sql("SELECT FROM task_token WHERE task_id = $1", lost.id)
