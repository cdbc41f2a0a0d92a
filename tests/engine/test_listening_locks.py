"""A transaction that has switched a rule on and idles holds up its own issue alone.

Whoever switches listening on keeps everybody who captures on that issue out until it commits
(decision 0001). What carries out many runs in one transaction leaves such issues behind.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import trio

from engine.app import Engine
from engine.domain.commands.runs import ClaimRuns, StartRun, StartRuns
from engine.storage.database import Record
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.world import DAEMON, World, claim, running, settled

SWITCH_ON = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "                          mode, event_types)"
    f" VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous', ARRAY['{COMMENT}'])"
)
RUN = (
    "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, originator_user_id, status,"
    "                              dispatched_at)"
    " VALUES ($1, $2, $3, $4, $5, CASE WHEN $5 = 'dispatched' THEN"
    "         wakeful_now() - make_interval(mins => $6) END)"
    " RETURNING id, dispatched_at"
)
STATUS = "SELECT status FROM agent_task_queue WHERE id = $1"


def switching_on(world: World, issue: UUID) -> tuple[object, ...]:
    """Return the statement of a writer that makes a rule on an issue."""
    return (SWITCH_ON, world.workspace_id, issue, world.a, world.m.user_id)


async def run_of(
    psql: Psql, world: World, agent: UUID, issue: UUID, status: str, *, minutes: int = 0
) -> Record:
    """Make a run that was claimed so many minutes ago, if it is."""
    values = (agent, issue, world.runtime_id, world.m.user_id, status, minutes)
    return (await psql(RUN, *values))[0]


async def has_status(psql: Psql, run_id: UUID, status: str) -> None:
    async def probe() -> bool:
        return bool(await psql.value(STATUS, run_id) == status)

    await until(probe, f"run {status}")


async def test_recovery_leaves_the_issue_behind_and_timers_fire(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-119, W-097: a lost run whose issue is held keeps no other lost run and no timer waiting.

    The engine starts at once, too; the run that was left behind follows when its issue is free.
    """
    runs = ((world.a, world.issue), (world.b, world.other_issue))
    blocked, free = [
        (await run_of(psql, world, *each, "dispatched", minutes=9))["id"] for each in runs
    ]
    due = await psql.value("SELECT wakeful_now() + interval '2 seconds'")
    rule = await psql.rule(
        world, issue_id=world.other_issue, kind="at", mode="once", event_types=[], next_fire_at=due
    )
    async with psql.open_transaction(switching_on(world, world.issue)):
        with trio.fail_after(8):
            async with running(database_url):
                await has_status(psql, free, "failed")
                run = await psql.run(rule)
        assert run["created_at"] - due < timedelta(seconds=1)
        assert await psql.value(STATUS, blocked) == "dispatched"
    async with running(database_url):
        await has_status(psql, blocked, "failed")


async def test_a_claim_leaves_out_what_it_would_wait_for(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-104, W-071: a claim hands out what is free, and the rest as soon as it is."""
    await run_of(psql, world, world.a, world.issue, "queued")
    await run_of(psql, world, world.b, world.other_issue, "queued")
    await settled(engine)
    late: list[UUID] = []

    async def wait_for_the_other() -> None:
        asked = ClaimRuns(daemon_id=DAEMON, runtime_ids=(world.runtime_id,), wait_seconds=10)
        late.extend(each.agent.id for each in await engine.claim(world.daemon, asked))

    held = psql.open_transaction(switching_on(world, world.issue))
    async with trio.open_nursery() as nursery, held:
        with trio.fail_after(1):
            (first,) = await claim(engine, world)
        assert first.agent.id == world.b
        assert await claim(engine, world) == ()
        nursery.start_soon(wait_for_the_other)
        await psql.pause(0.2)
        assert late == []
    assert late == [world.a]


async def test_reports_that_would_wait_are_refused_and_the_others_done(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-113: of 32 starts in one call the two whose issues are held come back, and cost nothing."""
    issues = await psql.issues(world, 32)
    rows = [await run_of(psql, world, world.a, each, "dispatched") for each in issues]
    reports = tuple(StartRun(run_id=row["id"], dispatched_at=row["dispatched_at"]) for row in rows)
    held = [switching_on(world, issues[place]) for place in (0, 20)]
    async with psql.open_transaction(*held):
        with trio.fail_after(1.5):  # less than a single wait for a lock
            outcomes = await engine.submit(world.daemon, StartRuns(reports=reports))
    assert [place for place, each in enumerate(outcomes) if each.code] == [0, 20]
    assert {each.code for each in outcomes} == {None, "contention"}
    started = await psql.value("SELECT count(*) FROM agent_task_queue WHERE status = 'running'")
    assert started == 30
