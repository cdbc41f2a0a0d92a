"""Timers over days and weeks, in virtual time on the real engine and a real database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine.domain.records import RunStatus
from engine.domain.schedule import next_after, parse_cron
from engine.simulation import Work, World
from tests.engine.foreign import Psql, foreign
from tests.simulation.steps import facts, planned, scene

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def receipts(psql: Psql, rule_id: object) -> list[tuple[str, str, bool]]:
    """Return event key, planned time and whether it is processed of a rule's receipts."""
    rows = await psql(
        "SELECT event_key, payload ->> 'planned_at' AS planned_at, processed_at IS NOT NULL AS done"
        " FROM issue_wakeup_receipt WHERE wakeup_id = $1 ORDER BY seq",
        rule_id,
    )
    return [(row["event_key"], row["planned_at"], row["done"]) for row in rows]


async def test_an_alarm_waits_days_for_its_runtime(world: World) -> None:
    """W-114: an `at` rule that came due offline is consumed and stays one queued run for days.

    W-109: when the runtime is back, its first look claims the run.
    """
    s = await scene(world, online=False)
    at = world.now + HOUR
    rule = await s.rule(kind="at", at=at)
    await world.advance(3 * DAY)
    (run,) = await s.runs(rule)
    assert (run.status, run.created_at) == (RunStatus.QUEUED, at)
    stored = await world.rule(rule)
    assert (stored.enabled, stored.next_fire_at, stored.disabled_at) == (False, at, None)

    await s.daemon.come_back()
    back_at = world.now
    await world.advance(2 * MINUTE)
    (run,) = await s.runs(rule)
    assert (run.started_at, run.completed_at) == (back_at, back_at + MINUTE)
    assert [each.planned_at for each in await world.firings(rule)] == [at]


async def test_a_late_dispatch_does_not_shift_the_grid(world: World) -> None:
    """W-115: dispatched 20 s late, an interval of 60 s goes on at the original second."""
    s = await scene(world)
    rule = await s.rule(kind="every", interval_seconds=60)
    first = world.now + MINUTE
    assert rule.next_fire_at == first
    await world.advance(59 * SECOND)
    await world.stop_engine()
    await world.advance(21 * SECOND)
    await world.start_engine()
    await world.advance(first + 3 * MINUTE)
    firings = await world.firings(rule)
    assert [each.planned_at for each in firings] == [first + k * MINUTE for k in range(4)]
    late = [each.fired_at - each.planned_at for each in firings]
    assert late == [20 * SECOND, 0 * SECOND, 0 * SECOND, 0 * SECOND]


async def test_an_outage_is_one_check(world: World) -> None:
    """W-115: six hours without an engine make one run of `every 10m`, for the last elapsed step.

    The next time is on the grid and in the future.
    """
    s = await scene(world)
    rule = await s.rule(kind="every", interval_seconds=600)
    begun = world.now
    await world.advance(5 * MINUTE)
    await world.stop_engine()
    await world.advance(6 * HOUR)
    await world.start_engine()
    await world.advance(MINUTE)
    (firing,) = await world.firings(rule)
    assert firing.planned_at == begun + 6 * HOUR
    assert firing.fired_at == begun + 6 * HOUR + 5 * MINUTE
    assert (await world.rule(rule)).next_fire_at == begun + 6 * HOUR + 10 * MINUTE
    assert len(await s.runs(rule)) == 1


async def test_a_late_cron_rule_goes_on_after_now(world: World) -> None:
    """W-116: late by two periods it makes one run and goes on strictly later than now.

    Expression and zone stay as they were sent.
    """
    s = await scene(world)
    sent = {"cron_expression": "0 9  * * 1-5", "timezone": "Europe/Berlin"}
    rule = await s.rule(kind="cron", **sent)
    await world.stop_engine()
    await world.advance(datetime(2027, 3, 3, 12, tzinfo=UTC))  # Wednesday; due since Tuesday
    await world.start_engine()
    await world.advance(MINUTE)
    (firing,) = await world.firings(rule)
    assert firing.planned_at == datetime(2027, 3, 3, 8, tzinfo=UTC)
    stored = await world.rule(rule)
    assert stored.next_fire_at == datetime(2027, 3, 4, 8, tzinfo=UTC) > world.now
    assert {"cron_expression": stored.cron_expression, "timezone": stored.timezone} == sent
    assert len(await s.runs(rule)) == 1


async def test_a_newer_time_takes_the_place_of_a_waiting_one(world: World) -> None:
    """W-117: three periods beside a claimed run are one pending receipt, whose key is its time.

    W-118: the timer goes on meanwhile, and after the start there is one further run.
    """
    s = await scene(world, Work(is_lost=True))
    rule = await s.rule(kind="every", interval_seconds=60)
    begun = world.now
    await world.advance(begun + MINUTE + 40 * SECOND)
    (run,) = await s.runs(rule)
    assert run.status is RunStatus.DISPATCHED
    await s.daemon.go_offline()
    await world.advance(begun + 2 * MINUTE + 20 * SECOND)
    async with foreign(world.database_url, connections=1) as psql:
        assert await receipts(psql, rule.id) == [
            (key := "2027-03-01T08:01:30.250000000Z", key, True),
            (key := "2027-03-01T08:02:30.250000000Z", key, False),
        ]
        await world.stop_engine()
        await world.advance(begun + 5 * MINUTE + 10 * SECOND)
        await world.start_engine()
        await world.advance(SECOND)
        pending = [key for key, _, done in await receipts(psql, rule.id) if not done]
        assert pending == ["2027-03-01T08:05:30.250000000Z"]


async def test_a_queued_run_is_refreshed(world: World) -> None:
    """W-118: five periods while the run waits are one run with one fact, the fifth time."""
    s = await scene(world, online=False)
    rule = await s.rule(kind="every", interval_seconds=60)
    begun = world.now
    await world.advance(5 * MINUTE)
    (run,) = await s.runs(rule)
    assert run.status is RunStatus.QUEUED
    assert planned(run) == begun + 5 * MINUTE
    assert facts(run)[0]["payload"]["coalesced_count"] == 1
    assert len(await world.firings(rule)) == 5


async def test_enabling_schedules_from_now(world: World) -> None:
    """W-025: after three hours off, `every 1h` comes an hour from now and cron at its next time.

    Missed times are not replayed. Deadlines do not exist yet.
    """
    s = await scene(world)
    every = await s.rule(kind="every", interval_seconds=3_600)
    cron = await s.rule(kind="cron", cron_expression="15,45 * * * *")
    for rule in (every, cron):
        await s.ann.disable_rule(rule)
    await world.advance(3 * HOUR + 7 * MINUTE)
    enabled_at = world.now
    assert (await s.ann.enable_rule(every)).next_fire_at == enabled_at + HOUR
    following = next_after(parse_cron("15,45 * * * *", "UTC"), enabled_at)
    assert (await s.ann.enable_rule(cron)).next_fire_at == following
    await world.advance(enabled_at + HOUR - SECOND)
    assert await world.firings(every) == []
    assert [each.planned_at for each in await world.firings(cron)] == [
        following,
        following + HOUR / 2 if following else None,
    ]
    await world.advance(SECOND)
    assert [each.planned_at for each in await world.firings(every)] == [enabled_at + HOUR]


async def test_a_clock_that_steps_back_repeats_nothing(world: World) -> None:
    """W-119: ten minutes back after a firing: nothing until the next planned time, then once.

    W-115: which is on the grid.
    """
    s = await scene(world)
    rule = await s.rule(kind="every", interval_seconds=300)
    begun = world.now
    await world.advance(begun + 5 * MINUTE)
    assert len(await world.firings(rule)) == 1
    await world.step_to(begun - 5 * MINUTE)
    await world.advance(begun + 10 * MINUTE - SECOND)
    assert len(await world.firings(rule)) == 1
    await world.advance(begun + 10 * MINUTE)
    assert [each.planned_at for each in await world.firings(rule)] == [
        begun + 5 * MINUTE,
        begun + 10 * MINUTE,
    ]


async def test_a_clock_that_steps_forward_fires_once(world: World) -> None:
    """W-119: ten hours forth at one go fire each missed rule once, an alarm and a cron rule too."""
    s = await scene(world)
    rules = [
        await s.rule(kind="every", interval_seconds=60),
        await s.rule(kind="cron", cron_expression="*/5 * * * *"),
        await s.rule(kind="at", after_seconds=3_600),
    ]
    await world.step_to(world.now + 10 * HOUR)
    for rule in rules:
        (firing,) = await world.firings(rule)
        assert firing.fired_at == world.now
    assert (await world.rule(rules[0])).next_fire_at == world.now + MINUTE


async def test_a_new_time_from_another_writer_counts(world: World) -> None:
    """W-119: what psql writes while the engine sleeps an hour ahead fires at its instant.

    An earlier time and a removed one are minded as well.
    """
    s = await scene(world)
    rule = await s.rule(kind="every", interval_seconds=3_600)
    removed = await s.rule(kind="at", after_seconds=60)
    begun = world.now
    move = "UPDATE issue_wakeup SET next_fire_at = wakeful_now() + interval '2 s' WHERE id = $1"
    async with foreign(world.database_url, connections=1) as psql:
        await psql(move, rule.id)
        await psql("UPDATE issue_wakeup SET enabled = false WHERE id = $1", removed.id)
        await world.advance(MINUTE + HOUR)
    assert [each.fired_at for each in await world.firings(rule)] == [
        begun + 2 * SECOND,
        begun + HOUR + 2 * SECOND,
    ]
    assert await world.firings(removed) == []


@pytest.mark.parametrize(
    ("start", "hours"),
    [
        (datetime(2027, 3, 27, 23, 30, tzinfo=UTC), 5),
        (datetime(2027, 10, 30, 22, 30, tzinfo=UTC), 5),
    ],
)
async def test_the_night_of_a_change(database_url: str, start: datetime, hours: int) -> None:
    """W-121, W-122, W-123, W-124: rules live through Berlin's changes as the requirements say."""
    async with World.open(start=start, database_url=database_url) as world:
        s = await scene(world, online=False)
        cron = {"kind": "cron", "timezone": "Europe/Berlin"}
        fixed = await s.rule(cron_expression="30 2 * * *", **cron)
        wild = await s.rule(cron_expression="*/30 2 * * *", **cron)
        every = await s.rule(kind="every", interval_seconds=3_600)
        await world.advance(hours * HOUR)
        times = {
            name: [each.fired_at for each in await world.firings(rule)]
            for name, rule in (("fixed", fixed), ("wild", wild), ("every", every))
        }
        half = HOUR / 2
        if start.month == 3:  # 02:00 to 03:00 is skipped, at 01:00 UTC
            assert times["fixed"] == [start + 3 * half]
            assert times["wild"] == []
        else:  # 02:00 to 03:00 comes twice, from 00:00 UTC on
            assert times["fixed"] == [start + 4 * half]
            assert times["wild"] == [start + k * half for k in (3, 4, 5, 6)]
        assert times["every"] == [start + k * HOUR for k in range(1, hours + 1)]
