"""Time: never early, never twice for one period, on the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from engine.app import Engine
from engine.domain.commands.tracker import UpdateIssue
from engine.domain.commands.wakeups import DisableRule, EnableRule
from tests.engine.foreign import Psql, until
from tests.engine.world import World, claim, register, running, settled, start

# W-119 says 100 ms on an idle machine, which the benchmark measures; this one may be busy.
LATE_MAX: Final = timedelta(seconds=1)
MOVE: Final = "UPDATE issue_wakeup SET next_fire_at = $2 WHERE id = $1"
CLOCK: Final = (
    "CREATE OR REPLACE FUNCTION wakeful_now() RETURNS timestamptz LANGUAGE sql VOLATILE"
    " PARALLEL SAFE AS $$ SELECT clock_timestamp() + interval '{offset}' $$"
)


def instant(text: str) -> datetime:
    """Return the instant of an RFC 3339 text, to the microsecond."""
    found = datetime.fromisoformat(text)
    assert found.tzinfo is not None
    return found.astimezone(UTC)


async def now(psql: Psql) -> datetime:
    """Return the time of the one clock."""
    found: datetime = await psql.value("SELECT wakeful_now()")
    return found


async def test_an_at_rule_fires_once_and_keeps_its_time(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-114: it fires at its instant, once, is consumed then, and still shows when it was planned.

    W-117: the fact has the planned instant as its key, in RFC 3339, and the kind.
    """
    rule = await register(engine, world, kind="at", after_seconds=1)
    assert rule.next_fire_at is not None
    run = await psql.run(rule.id)
    assert rule.next_fire_at <= run["created_at"] < rule.next_fire_at + LATE_MAX
    stored = await psql.row(rule.id)
    assert not stored["enabled"]
    assert stored["disabled_at"] is None
    assert stored["next_fire_at"] == rule.next_fire_at
    assert stored["last_task_id"] == run["id"]
    (receipt,) = await psql.receipts(rule.id)
    assert receipt["event_type"] == "time.due"
    assert receipt["event_key"] == receipt["payload"]["planned_at"]
    assert instant(receipt["event_key"]) == rule.next_fire_at
    assert receipt["event_key"].endswith(("Z", "+00:00"))
    assert receipt["payload"]["kind"] == "at"
    assert receipt["task_id"] == run["id"]
    await psql.pause(0.3)
    await settled(engine)
    assert len(await psql.runs(rule.id)) == 1


async def test_a_disabled_at_rule_keeps_its_time(engine: Engine, psql: Psql, world: World) -> None:
    """W-114: switched off before its time it does not fire, and its time stays readable.

    W-119: a due time that was removed wakes nobody.
    """
    rule = await register(engine, world, kind="at", after_seconds=1)
    off = await engine.submit(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    assert off.next_fire_at == rule.next_fire_at
    await psql.pause(1.3)
    await settled(engine)
    assert await psql.runs(rule.id) == []


async def test_an_at_rule_waits_for_an_offline_runtime(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-114: a timer that comes due while its runtime is offline stays one queued run."""
    await psql("UPDATE agent_runtime SET last_seen_at = wakeful_now() - interval '3 days'")
    rule = await register(engine, world, kind="at", after_seconds=31_536_000)
    await psql(MOVE, rule.id, await now(psql))
    run = await psql.run(rule.id)
    assert await claim(engine, world) == ()
    assert (await psql.run(rule.id))["status"] == run["status"] == "queued"


async def test_every_keeps_its_grid(engine: Engine, psql: Psql, world: World) -> None:
    """W-115: a dispatch 20 s late plans the next time on the original second."""
    rule = await register(engine, world, kind="every", interval_seconds=60)
    assert rule.next_fire_at is not None
    planned = await now(psql) - timedelta(seconds=20)
    await psql(MOVE, rule.id, planned)
    await psql.run(rule.id)
    assert (await psql.row(rule.id))["next_fire_at"] == planned + timedelta(seconds=60)
    (receipt,) = await psql.receipts(rule.id)
    assert instant(receipt["payload"]["planned_at"]) == planned
    assert receipt["payload"]["kind"] == "every"
    assert (await psql.row(rule.id))["enabled"]


async def test_missed_periods_are_one_check(psql: Psql, world: World, database_url: str) -> None:
    """W-115: after six hours without an engine `every 10m` fires once, for the last elapsed step.

    The next time is on the grid and in the future; history is not replayed.
    """
    ten = timedelta(minutes=10)
    first = await now(psql) - timedelta(hours=6, minutes=3)
    rule_id = await psql.rule(
        world, kind="every", interval_seconds=600, next_fire_at=first, created_at=first - ten
    )
    async with running(database_url) as engine:
        await psql.run(rule_id)
        await settled(engine)
    (receipt,) = await psql.receipts(rule_id)
    planned = instant(receipt["payload"]["planned_at"])
    following = (await psql.row(rule_id))["next_fire_at"]
    assert planned == first + 36 * ten
    assert following == planned + ten > await now(psql)
    assert len(await psql.runs(rule_id)) == 1


async def test_cron_goes_on_strictly_after_now(engine: Engine, psql: Psql, world: World) -> None:
    """W-116: fired late by periods it makes one run, and goes on with the next occurrence.

    The expression and the zone stay as they were sent.
    """
    cron: dict[str, Any] = {
        "kind": "cron",
        "cron_expression": "*/2  * * * *",
        "timezone": "Europe/Berlin",
    }
    rule = await register(engine, world, **cron)
    late = rule.next_fire_at
    assert late is not None
    await psql(MOVE, rule.id, late - timedelta(minutes=6))
    await psql.run(rule.id)
    stored = await psql.row(rule.id)
    following = stored["next_fire_at"]
    assert await now(psql) < following <= await now(psql) + timedelta(minutes=2)
    assert (following.minute % 2, following.second, following.microsecond) == (0, 0, 0)
    assert stored["cron_expression"] == rule.cron_expression == cron["cron_expression"]
    assert stored["timezone"] == cron["timezone"]
    await settled(engine)
    assert len(await psql.receipts(rule.id)) == 1
    assert len(await psql.runs(rule.id)) == 1


async def test_a_newer_time_replaces_a_pending_one(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-117: three periods while the run is claimed are one pending fact, of the last of them.

    W-118: the timer advances meanwhile, and the one further run follows the start.
    """
    rule = await register(engine, world, kind="every", interval_seconds=60)
    await psql(MOVE, rule.id, await now(psql) - timedelta(hours=2))
    first = await psql.run(rule.id)
    (claimed,) = await claim(engine, world)
    base = await now(psql)
    for minutes in (45, 30, 15):
        moved = base - timedelta(minutes=minutes)
        await psql(MOVE, rule.id, moved)

        async def advanced() -> bool:
            return bool((await psql.row(rule.id))["next_fire_at"] > base)

        await until(advanced, "the timer advances")
        pending = [row for row in await psql.receipts(rule.id) if row["processed_at"] is None]
        (receipt,) = pending
        planned = instant(receipt["payload"]["planned_at"])
        assert base - timedelta(minutes=1) < planned <= await now(psql)
    assert receipt["event_type"] == "time.due"
    assert receipt["task_id"] is None
    assert (await psql.run(rule.id))["handoff_note"] == first["handoff_note"]
    await start(engine, world, claimed)

    async def both() -> bool:
        return len(await psql.runs(rule.id)) == 2

    await until(both, "the further run")
    _, second = await psql.runs(rule.id)
    (fact,) = second["context"]["wakeup_evidence"]["facts"]
    assert instant(fact["payload"]["planned_at"]) == planned


async def test_two_engines_fire_one_timer_once(psql: Psql, world: World, database_url: str) -> None:
    """W-117, G-06: a second engine at the same instant adds no receipt and no run."""
    async with running(database_url) as one, running(database_url) as other:
        rules = [
            await register(engine, world, kind="at", after_seconds=1)
            for engine in (one, other)
            for _ in range(5)
        ]
        for rule in rules:
            await psql.run(rule.id)
        await settled(one)
        await settled(other)
        for rule in rules:
            assert len(await psql.runs(rule.id)) == 1
            assert len(await psql.receipts(rule.id)) == 1
            assert (await psql.row(rule.id))["last_error"] is None


async def test_a_foreign_timer_wakes_a_sleeping_scheduler(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-119: while it sleeps an hour ahead, a rule of psql due in 2 s fires on time."""
    await register(engine, world, kind="every", interval_seconds=3_600)
    await settled(engine)
    due = await now(psql) + timedelta(seconds=2)
    rule_id = await psql.rule(world, kind="at", mode="once", next_fire_at=due)
    run = await psql.run(rule_id)
    assert due <= run["created_at"] < due + LATE_MAX


async def test_an_earlier_time_wakes_a_sleeping_scheduler(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-119: a timer that psql moves from an hour ahead to a second ahead fires on time."""
    rule = await register(engine, world, kind="every", interval_seconds=3_600)
    await settled(engine)
    due = await now(psql) + timedelta(seconds=1)
    await psql(MOVE, rule.id, due)
    run = await psql.run(rule.id)
    assert due <= run["created_at"] < due + LATE_MAX


async def test_enabling_a_timer_wakes_a_sleeping_scheduler(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-119: a consumed timer that is armed again for a second ahead fires on time."""
    rule = await register(engine, world, kind="at", after_seconds=1)
    first = await psql.run(rule.id)
    await psql("UPDATE agent_task_queue SET status = 'cancelled' WHERE id = $1", first["id"])
    stored = await psql.row(rule.id)
    due = await now(psql) + timedelta(seconds=1)
    enabled = await engine.submit(
        world.m,
        EnableRule(
            issue_id=world.issue,
            rule_id=rule.id,
            revision=stored["revision"],
            rearm=True,
            at=due,
        ),
    )
    assert enabled.next_fire_at == due

    async def both() -> bool:
        return len(await psql.runs(rule.id)) == 2

    await until(both, "the second firing")
    _, second = await psql.runs(rule.id)
    assert due <= second["created_at"] < due + LATE_MAX


async def test_many_timers_are_all_on_time(engine: Engine, psql: Psql, world: World) -> None:
    """W-119: forty timers within a second and a half fire in their order, none early or late."""
    issues = await psql.issues(world, 40)
    base = await now(psql) + timedelta(seconds=1)
    due = {
        await psql.rule(
            world,
            issue_id=issue,
            kind="at",
            mode="once",
            next_fire_at=base + timedelta(milliseconds=37 * number),
        ): base + timedelta(milliseconds=37 * number)
        for number, issue in enumerate(issues)
    }
    for rule_id, planned in due.items():
        run = await psql.run(rule_id)
        assert planned <= run["created_at"] < planned + LATE_MAX


async def test_a_thousand_timers_of_one_instant(engine: Engine, psql: Psql, world: World) -> None:
    """W-119: a thousand timers of one instant all fire, none early, in one pass of few groups.

    How long it takes is a row of the benchmarks.
    """
    issues = await psql.issues(world, 1_000)
    due = await now(psql) + timedelta(seconds=1.5)
    await psql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, next_fire_at)"
        " SELECT $1, id, $2, $3, 'look', 'at', 'once', $4 FROM unnest($5::uuid[]) id",
        *(world.workspace_id, world.a, world.m.user_id, due, issues),
    )
    await settled(engine)
    before = engine.dispatcher.statistics.transactions

    async def fired() -> bool:
        return bool(await psql.value("SELECT count(*) FROM agent_task_queue") == 1_000)

    await until(fired, "a thousand runs", within=30)
    await settled(engine)
    assert await psql.value("SELECT min(created_at) FROM agent_task_queue") >= due
    assert await psql.value("SELECT count(DISTINCT wakeup_id) FROM agent_task_queue") == 1_000
    assert await psql.value("SELECT count(*) FROM issue_wakeup WHERE enabled") == 0
    assert engine.dispatcher.statistics.alone == 0
    assert engine.dispatcher.statistics.transactions - before < 20


@pytest.mark.parametrize("offset", ["10 minutes", "-10 minutes"])
async def test_timers_follow_the_clock_of_the_database(
    psql: Psql, world: World, database_url: str, offset: str
) -> None:
    """W-084: with the host's clock ten minutes off, timers fire at database time, once."""
    await psql(CLOCK.format(offset=offset))
    async with running(database_url) as engine:
        rule = await register(engine, world, kind="at", after_seconds=1)
        assert rule.next_fire_at is not None
        own = await psql.rule(
            world, kind="at", mode="once", next_fire_at=await now(psql) + timedelta(seconds=1)
        )
        run = await psql.run(rule.id)
        assert rule.next_fire_at <= run["created_at"] < rule.next_fire_at + LATE_MAX
        await psql.run(own)
        await settled(engine)
        assert len(await psql.runs(rule.id)) == 1
        assert abs(run["created_at"] - await now(psql)) < timedelta(minutes=1)


async def test_a_clock_that_steps_repeats_and_skips_nothing(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-119: ten minutes back after a firing repeat nothing; ten forth fire what was missed, once.

    The step is that of the database's clock; what happens next on any issue makes the engine look.
    """
    rule = await register(engine, world, kind="every", interval_seconds=60)
    await psql(MOVE, rule.id, await now(psql))
    await psql.run(rule.id)
    following = (await psql.row(rule.id))["next_fire_at"]
    await psql(CLOCK.format(offset="-10 minutes"))
    await register(engine, world, kind="at", after_seconds=1)
    await psql.pause(1.3)
    await settled(engine)
    assert len(await psql.receipts(rule.id)) == 1
    assert (await psql.row(rule.id))["next_fire_at"] == following
    await psql(CLOCK.format(offset="10 minutes"))
    await psql.rule(world, kind="at", mode="once", next_fire_at=await now(psql))
    await psql.fired(rule.id, 2)
    assert following < await now(psql) < (await psql.row(rule.id))["next_fire_at"]
    await settled(engine)
    assert len(await psql.runs(rule.id)) == 1
    assert len(await psql.receipts(rule.id)) == 2


async def test_a_timer_of_a_closed_issue_does_not_fire(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-114: a timer whose issue was closed before its time never fires."""
    rule = await register(engine, world, kind="at", after_seconds=1)
    await engine.submit(world.n, UpdateIssue(issue_id=world.issue, status="done"))
    await psql.pause(1.3)
    await settled(engine)
    assert await psql.runs(rule.id) == []
    assert not (await psql.row(rule.id))["enabled"]
