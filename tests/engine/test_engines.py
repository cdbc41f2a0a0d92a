"""Several engines on one database: each hint has one engine, and each plan one holder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio

from engine import limits
from engine.actors.fleet import first_for
from engine.actors.plans import Done, Job, PlanNews
from engine.app import Engine
from engine.storage import queries
from engine.storage.database import Database, Lane, Query, Session
from tests.engine.foreign import COMMENT, Psql, foreign, until
from tests.engine.world import World, register, running, say, settled

ENGINES_LOCK = "SELECT pg_advisory_lock_shared(2, 0), pg_notify('wakeful_engines', 'here')"
PLANS = "SELECT * FROM sys_cron_executions ORDER BY plan_time, job_name"


@asynccontextmanager
async def fleet(url: str, count: int, **settings: Any) -> AsyncIterator[list[Engine]]:
    """Run several engines that know of each other."""
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(running(url, **settings)) for _ in range(count)]
        await known(*engines)
        yield engines


async def known(*engines: Engine) -> None:
    """Wait until each of these engines knows exactly the others."""
    await holds(lambda: all(each.fleet.others == len(engines) - 1 for each in engines))


async def holds(condition: Callable[[], bool], *, within: float = 10.0) -> None:
    """Wait until a condition of this process holds."""

    async def probe() -> bool:
        return condition()

    await until(probe, "the engines know", within=within)


async def all_settled(engines: list[Engine]) -> None:
    for engine in engines:
        await settled(engine)


# --- Hints --------------------------------------------------------------------------------------


async def test_a_foreign_fact_is_worked_by_its_engine(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-083: of three engines that hear of a fact the one whose issue it is makes the run."""
    issues = await psql.issues(world, 30)
    rules = [await psql.rule(world, issue_id=issue, event_types=[COMMENT]) for issue in issues]
    async with fleet(database_url, 3) as engines:
        await all_settled(engines)
        for issue in issues:
            await psql.comment(issue)
        for rule in rules:
            await psql.run(rule)
        await all_settled(engines)
        backends = [engine.fleet.backend or 0 for engine in engines]
        firsts = [first_for(issue, backends) for issue in issues]
        assert len(set(firsts)) == 3
        assert sum(engine.dispatcher.statistics.started for engine in engines) == 30
        for engine, backend in zip(engines, backends, strict=True):
            own = firsts.count(backend)
            assert engine.fleet.statistics.left_to_others == 30 - own
            # A busy machine may be so slow that another one steps in after its 250 ms.
            late = sum(each.fleet.statistics.taken_over for each in engines)
            assert abs(engine.dispatcher.statistics.started - own) <= late


async def test_what_a_dead_engine_leaves_is_taken_over(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-083: an engine that says nothing delays its facts by 250 ms; when it is gone, by nothing.

    The mute engine is a session that holds the engines' lock and works nothing.
    """
    issues = await psql.issues(world, 20)
    rules = [await psql.rule(world, issue_id=issue, event_types=[COMMENT]) for issue in issues]
    async with running(database_url) as engine:
        await settled(engine)
        async with foreign(database_url, connections=1) as mute:
            await mute(ENGINES_LOCK)
            await holds(lambda: engine.fleet.others == 1)
            for issue in issues[:10]:
                await psql.comment(issue)
            for rule in rules[:10]:
                await psql.run(rule, within=3)
            await settled(engine)
            assert engine.fleet.statistics.taken_over > 0
            assert engine.fleet.others == 1, "it lives, it is only mute"
        for issue in issues[10:]:
            await psql.comment(issue)
        for rule in rules[10:]:
            await psql.run(rule, within=3)
        await holds(lambda: engine.fleet.others == 0)


async def test_an_engine_that_stops_says_so(psql: Psql, world: World, database_url: str) -> None:
    """W-083: engines know who comes and who goes, without asking again and again."""
    async with running(database_url) as first:
        async with running(database_url) as second:
            await known(first, second)
        await holds(lambda: first.fleet.others == 0)
        async with running(database_url) as third:
            await known(first, third)


# --- Time ---------------------------------------------------------------------------------------


async def test_timers_are_shared_out(psql: Psql, world: World, database_url: str) -> None:
    """W-083: timers of one instant are fired by two engines, each one once and none early."""
    issues = await psql.issues(world, 40)
    async with fleet(database_url, 2) as engines:
        await all_settled(engines)
        due = await psql.value("SELECT wakeful_now() + interval '1 second'")
        at = {"kind": "at", "mode": "once", "next_fire_at": due}
        rules = [await psql.rule(world, issue_id=issue, **at) for issue in issues]
        for rule in rules:
            run = await psql.run(rule)
            assert run["created_at"] >= due
        await all_settled(engines)
        started = [engine.dispatcher.statistics.started for engine in engines]
        assert sum(started) == 40
        assert min(started) > 0


async def test_a_timer_outlives_the_engine_that_took_it(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-083: a timer that one engine registered is fired by another, though the first has gone.

    W-074: the other one slept, and had no statement to run for it until it was due.
    """
    async with running(database_url, sweep_idle_after=0.3) as second:
        async with running(database_url) as first:
            await known(first, second)
            rule = await register(first, world, kind="at", after_seconds=2)
        assert second.alarm.next_due == rule.next_fire_at
        run = await psql.run(rule.id, within=4)
        assert rule.next_fire_at is not None
        assert rule.next_fire_at <= run["created_at"] < rule.next_fire_at + timedelta(seconds=1)
        await settled(second)


async def test_an_engine_keeps_the_others_awake(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-074: what an engine committed just before it died is found by one whose plans had paused.

    The dead engine is a gateway as an engine opens it, with nobody behind it to follow up.
    """
    rule = await psql.rule(world, event_types=[COMMENT])
    gateway, engines = queries.load("gateway"), queries.load("engines")
    opening = Database.open(
        database_url, begin=gateway.begin, flush=gateway.flush, busy=engines.busy
    )
    comment = Query(
        "test.comment",
        "INSERT INTO comment (issue_id, workspace_id, author_type, content)"
        " VALUES ($1, $2, 'system', 'the last words')",
    )

    async def write(session: Session) -> None:
        await session.execute(comment, world.issue, world.workspace_id)

    async with running(database_url, sweep_seconds=0.3, sweep_idle_after=0.3) as engine:
        await holds(engine.alarm.is_idle)
        async with psql.heard("wakeful_wakeups") as heard:
            async with opening as dead:
                await dead.write(Lane.API, write)
            await psql.run(rule, within=3)
            assert await heard() == []
        await holds(engine.alarm.is_idle)


# --- Plans --------------------------------------------------------------------------------------


async def test_each_plan_has_one_row(psql: Psql, world: World, database_url: str) -> None:
    """W-082: three engines carry each plan of each job out once."""
    issue = world.issue
    rule = await psql.rule(world, issue_id=issue, event_types=[COMMENT])
    async with fleet(database_url, 3, sweep_seconds=0.4) as engines:

        async def several() -> bool:
            plans = await psql.value("SELECT count(DISTINCT plan_time) FROM sys_cron_executions")
            return bool(plans >= 5)

        await until(several, "five plans")
        await all_settled(engines)
    rows = await psql(PLANS)
    assert len({(row["job_name"], row["plan_time"]) for row in rows}) == len(rows)
    assert {row["job_name"] for row in rows} == set(Job)
    by_plan: dict[Any, set[str]] = {}
    for row in rows:
        by_plan.setdefault(row["plan_time"], set()).add(row["job_name"])
        assert row["status"] == "SUCCESS", dict(row.items())
        assert (row["scope_kind"], row["scope_id"], row["attempt"]) == ("global", "", 1)
        assert row["started_at"] >= row["plan_time"]
        assert row["finished_at"] >= row["started_at"]
        assert row["duration_ms"] >= 0
        assert row["rows_affected"] == 0
        assert row["result"] is not None
        assert row["error_code"] is None
    assert all(jobs == set(Job) for jobs in by_plan.values())
    assert await psql.runs(rule) == []


async def test_a_stale_lease_is_taken_over(psql: Psql, world: World, database_url: str) -> None:
    """W-082: a plan whose holder was silent for 60 s gets a new holder with a new token.

    One that was heard of since keeps its plan, and so does one that has ended, well or badly.
    """
    states = {
        Job.DISPATCH: ("RUNNING", -1),
        Job.RECOVERY: ("RUNNING", 50),
        Job.RETENTION: ("FAILED", -1),
    }
    for job, (status, seconds) in states.items():
        await psql(
            "INSERT INTO sys_cron_executions (job_name, plan_time, status, runner_id, stale_after)"
            " VALUES ($1, date_bin('1 hour', wakeful_now(), 'epoch'), $2, 'another',"
            "   wakeful_now() + make_interval(secs => $3))",
            *(job, status, float(seconds)),
        )
    before = {row["job_name"]: row for row in await psql(PLANS)}
    async with running(database_url, sweep_seconds=3_600, sweep_idle_after=0.2):

        async def taken() -> bool:
            return any(row["status"] == "SUCCESS" for row in await psql(PLANS))

        await until(taken, "the stale plan is carried out")
    after = {row["job_name"]: row for row in await psql(PLANS)}
    assert after.keys() == before.keys()
    taken_over = after.pop(Job.DISPATCH)
    assert taken_over["lease_token"] != before[Job.DISPATCH]["lease_token"]
    assert taken_over["runner_id"] != "another"
    assert taken_over["attempt"] == 1
    for job, row in after.items():
        assert dict(row.items()) == dict(before[job].items())


async def test_a_lease_is_kept_while_its_job_works(
    engine: Engine, psql: Psql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-082: the holder of a lease is heard of while its job works: nobody takes it over."""
    assert (limits.LEASE_HEARTBEAT_SECONDS, limits.LEASE_STALE_SECONDS) == (10, 60)
    monkeypatch.setattr(limits, "LEASE_HEARTBEAT_SECONDS", 0.05)
    plans = engine._plans
    plan = await plans.take()
    assert [lease.job for lease in plan.leases] == list(Job)
    lease = plan.leases[0]
    beats = set()

    async def job() -> Done:
        async def heard() -> bool:
            (row,) = await psql("SELECT * FROM sys_cron_executions WHERE id = $1", lease.id)
            assert round((row["stale_after"] - row["heartbeat_at"]).total_seconds()) == 60
            beats.add(row["heartbeat_at"])
            return len(beats) >= 3

        await until(heard, "two heartbeats")
        assert (await plans.take()).leases == ()
        return Done(rows=7, result={"it": "worked"})

    assert await plans.carry_out(lease, job)
    (row,) = await psql("SELECT * FROM sys_cron_executions WHERE id = $1", lease.id)
    assert (row["status"], row["rows_affected"], row["result"]) == ("SUCCESS", 7, {"it": "worked"})
    assert not await plans.carry_out(lease, job_of_nobody), "it has ended"


async def job_of_nobody() -> Done:
    return Done(rows=0, result={})


async def test_a_job_has_an_end(
    engine: Engine, psql: Psql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-082: a job that takes longer than 45 s is given up, as one failed attempt."""
    assert limits.JOB_SECONDS_MAX == 45
    monkeypatch.setattr(limits, "JOB_SECONDS_MAX", 0.05)
    lease = (await engine._plans.take()).leases[0]

    async def endless() -> Done:
        await trio.sleep_forever()
        raise AssertionError

    assert not await engine._plans.carry_out(lease, endless)
    (row,) = await psql("SELECT * FROM sys_cron_executions WHERE id = $1", lease.id)
    assert (row["status"], row["error_code"]) == ("FAILED", "budget_exceeded")
    assert (await engine._plans.take()).leases == (), "a plan is tried once"


async def test_a_plan_that_its_engine_left_is_closed(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-082: the latest plan alone is carried out; an older stale one says that its engine went."""
    await psql(
        "INSERT INTO sys_cron_executions (job_name, plan_time, runner_id, stale_after)"
        " VALUES ($1, wakeful_now() - interval '2 minutes', 'gone', wakeful_now())",
        Job.DISPATCH,
    )
    async with running(database_url, sweep_seconds=0.3):

        async def closed() -> Any:
            return await psql.value(
                "SELECT error_code FROM sys_cron_executions WHERE status = 'FAILED'"
            )

        assert await until(closed, "the old plan is closed") == "lease_expired"


async def test_old_plans_are_forgotten(psql: Psql, world: World, database_url: str) -> None:
    """W-082: rows of plans are kept for a day."""
    for hours in (23, 25):
        await psql(
            "INSERT INTO sys_cron_executions (job_name, plan_time, status, runner_id, stale_after)"
            " SELECT $1, now - make_interval(hours => $2), 'SUCCESS', 'x', now"
            "   FROM wakeful_now() now",
            *(Job.DISPATCH, hours),
        )
    old = "SELECT count(*) FROM sys_cron_executions WHERE runner_id = 'x'"
    async with running(database_url, sweep_seconds=0.3):

        async def forgotten() -> bool:
            return bool(await psql.value(old) == 1)

        await until(forgotten, "the plan of yesterday is gone")


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "plan",
        "plan []",
        "plan {}",
        'plan {"x": 1}',
        "gone x",
        'plan {"plan": 1, "retention": 2, "recovery": 3}',
        "what",
    ],
)
async def test_nonsense_between_engines_does_no_harm(
    engine: Engine, psql: Psql, world: World, payload: str
) -> None:
    """W-083: a notification that no engine has sent is passed over."""
    await psql("SELECT pg_notify('wakeful_engines', $1)", payload)
    rule = await psql.rule(world, event_types=[COMMENT])
    await psql.comment(world.issue)
    await psql.run(rule)
    assert not engine.alarm.is_idle()


def test_news_of_a_plan_are_read_as_they_were_written() -> None:
    """W-082: what an engine tells of a plan arrives whole, absent instants included."""
    at = datetime(2027, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
    news = PlanNews(plan=at, retention=None, recovery=at)
    assert PlanNews.from_text(news.to_text()) == news


# --- Together -----------------------------------------------------------------------------------


async def test_four_engines_lose_and_double_nothing(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-083: 1000 facts on 100 issues, through four engines and past them: one run an issue.

    G-01, G-02: every fact is counted once, in the receipts and in the runs.
    """
    issues = await psql.issues(world, 100)
    rules = [await psql.rule(world, issue_id=issue, event_types=[COMMENT]) for issue in issues]
    async with fleet(database_url, 4, sweep_seconds=0.5) as engines:

        async def write(engine: Engine, first: int) -> None:
            for number in range(first, first + 125):
                await say(engine, world.n, issues[number % 100])

        async def write_past(first: int) -> None:
            for start in range(first, first + 125, 5):
                await psql(
                    "INSERT INTO comment (issue_id, workspace_id, content)"
                    " SELECT id, $2, 'past the engines' FROM unnest($1::uuid[]) id",
                    [issues[number % 100] for number in range(start, start + 5)],
                    world.workspace_id,
                )

        async with trio.open_nursery() as nursery:
            for number, engine in enumerate(engines):
                nursery.start_soon(write, engine, number * 125)
                nursery.start_soon(write_past, 500 + number * 125)
        await psql.drained(*rules, within=30)
        await all_settled(engines)
    assert await psql.value("SELECT count(*) FROM comment") == 1_000
    assert await psql.value("SELECT count(*) FROM agent_task_queue") == 100
    counted = await psql(
        "SELECT x.wakeup_id, count(DISTINCT x.task_id) AS runs,"
        "       sum((x.payload ->> 'coalesced_count')::int)::int AS facts"
        "  FROM issue_wakeup_receipt x GROUP BY x.wakeup_id"
    )
    assert {row["wakeup_id"]: (row["runs"], row["facts"]) for row in counted} == dict.fromkeys(
        rules, (1, 10)
    )
    told = await psql.value(
        "SELECT sum((f -> 'payload' ->> 'coalesced_count')::int)::int FROM agent_task_queue q,"
        "   jsonb_array_elements(q.context -> 'wakeup_evidence' -> 'facts') f"
    )
    assert told == 1_000


@pytest.mark.parametrize(
    ("channel", "payload"),
    [
        ("wakeful_engines", "plan " + "[" * 7_000),
        ("wakeful_engines", 'plan {"plan": "0001-01-01T00:00:00+10:00"}'),
        ("wakeful_engines", "gone soon"),
        ("wakeful_timers", "at noon"),
        ("wakeful_runs", "the fast one"),
    ],
    ids=["nested", "before time", "engine", "timer", "run"],
)
async def test_a_senseless_notification_harms_nobody(
    engine: Engine, psql: Psql, world: World, channel: str, payload: str
) -> None:
    """W-073: whatever somebody notifies, the engine goes on and hears what comes behind it."""
    rule = await register(engine, world)
    await settled(engine)
    await psql("SELECT pg_notify($1, $2)", channel, payload)
    await psql.comment(world.issue)
    await psql.run(rule.id, within=2)


async def test_one_task_looks_after_what_others_got(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-083: hints for others' issues never make more than one task, however slow its looks are."""
    await settled(engine)
    issues = await psql.issues(world, 20)
    elsewhere = [each for each in issues if first_for(each, {1, 2, 3}) != 1]
    assert len(elsewhere) > 5
    slow = Query("test.slow", "SELECT pg_catalog.pg_sleep(1)")
    async with psql.open_transaction(), trio.open_nursery() as nursery:
        engine.fleet.stands(1)
        engine.fleet._others = frozenset({2, 3})  # as if two others had been counted
        nursery.start_soon(engine._database.read, Lane.BACKGROUND, lambda s: s.fetch(slow))
        tasks = []
        for issue in elsewhere:
            engine.fleet.heard(issue)
            await psql.pause(limits.OTHERS_FIRST_SECONDS / 3)
            tasks.append(sum(token.name == "fleet look" for token in engine.ledger.open_tokens()))
    assert max(tasks) == 1, tasks
    await settled(engine)
