"""The simulated world itself: its clock, its faults, its scripts, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import trio

from engine.clock import VirtualClock
from engine.domain.commands.runs import ClaimRuns, RegisterDaemon, RuntimeDraft
from engine.domain.commands.tracker import CreateToken, UpdateAgent
from engine.domain.records import RunStatus
from engine.errors import WakefulError
from engine.simulation import RunAtWork, Work, World
from tests.engine.foreign import foreign, until
from tests.simulation.steps import Scene, scene

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
SOURCE = "SELECT prosrc FROM pg_proc WHERE proname = 'wakeful_now'"


async def test_every_writer_sees_virtual_time(world: World) -> None:
    """W-260, W-084: psql reads and stores the virtual time, which stands still between stops."""
    s = await scene(world)
    async with foreign(world.database_url, connections=1) as psql:
        for _ in range(2):
            assert await psql.value("SELECT wakeful_now()") == world.now
        await world.advance(400 * DAY)
        comment_id = await psql.comment(s.issue_id)
        stored = await psql.value("SELECT created_at FROM comment WHERE id = $1", comment_id)
        assert stored == world.now


async def test_an_ordinary_database_reads_no_table(database_url: str) -> None:
    """W-260: without a simulation the clock is the server's, and nothing is looked up."""
    async with foreign(database_url, connections=1) as psql:
        assert (await psql.value(SOURCE)).strip() == "SELECT clock_timestamp()"
        assert await psql.value("SELECT to_regclass('simulation_clock')") is None


async def test_a_database_in_use_is_refused(database_url: str) -> None:
    """W-260: nobody's time is stopped by mistake; a simulation that was left goes on."""
    async with foreign(database_url, connections=1) as psql:
        values = {"name": "Real", "slug": "real", "issue_prefix": "R"}
        workspace_id = await psql.insert("workspace", dict(values))
        with pytest.raises(WakefulError, match="in use"):
            async with World.open(start=NOON, database_url=database_url):
                raise AssertionError
        assert (await psql.value(SOURCE)).strip() == "SELECT clock_timestamp()"
        await psql("DELETE FROM workspace WHERE id = $1", workspace_id)
    async with World.open(start=NOON, database_url=database_url) as world:
        await world.advance(DAY)
    async with World.open(start=NOON, database_url=database_url) as world:
        assert world.now == NOON + DAY


async def test_a_virtual_clock_passes_when_it_is_told() -> None:
    """W-260: a wait ends when so much virtual time has passed, and a step back ends none."""
    clock = VirtualClock(NOON)
    ended: list[float] = []

    async def wait(until: float) -> None:
        await clock.wait(trio.Event(), until)
        ended.append(until)

    async with trio.open_nursery() as nursery:
        for until in (60.0, 120.0, 0.0):
            nursery.start_soon(wait, until)
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [0.0]
        for minutes, expected in ((-10, [0.0]), (-9, [0.0, 60.0]), (-8, [0.0, 60.0, 120.0])):
            clock.learn(NOON + minutes * MINUTE)
            await trio.testing.wait_all_tasks_blocked()
            assert ended == expected
    assert clock.current_time() == 120
    assert clock.seconds_until(NOON) == 480
    event = trio.Event()
    event.set()
    await clock.wait(event, float("inf"))


async def test_time_passes_forwards(world: World) -> None:
    """W-260: `advance` refuses an instant that has passed: `step_to` is the way back."""
    with pytest.raises(ValueError, match="step_to"):
        await world.advance(world.now - SECOND)


async def test_an_error_leaves_as_itself(database_url: str) -> None:
    """W-260: what a script raises reaches its caller without groups around it."""

    async def fail() -> None:
        raise KeyError("gone")

    async def live() -> None:
        async with World.open(start=NOON, database_url=database_url) as world:
            world.plan(NOON + HOUR, fail)
            await world.advance(DAY)

    with pytest.raises(KeyError, match="gone"):
        await live()


async def test_a_waiting_claim_ends_with_virtual_time(world: World) -> None:
    """W-103, W-260: a claim that waits 30 s ends when the world has passed them, not before."""
    s = await scene(world, online=False)
    token = await world.submit(
        world.owner.principal,
        CreateToken(workspace_id=world.workspace_id, name="other", kind="daemon"),
    )
    daemon = await world.authenticate(token.token)
    offered = (RuntimeDraft(name="main", provider="test"),)
    registered = await world.submit(daemon, RegisterDaemon(daemon_id="other", runtimes=offered))
    claim = ClaimRuns(daemon_id="other", runtime_ids=(registered.runtimes[0].id,), wait_seconds=30)
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await world.engine.claim(daemon, claim))

    async def waits() -> bool:
        return [each.state.name for each in world.engine.desk._waiters] == ["WAITING"]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await until(waits, "the claim waits")
        await world.advance(29 * SECOND)
        assert (answers, world.engine.desk.waiting) == ([], 1)
        await world.advance(SECOND)
    assert answers == [()]
    assert s.daemon.claimed == 0


async def history(url: str) -> list[Any]:
    """Let a world live for a week, and return all that happened in it."""

    async def help_out(at_work: RunAtWork) -> None:
        await at_work.comment("still at it")

    async with World.open(start=NOON, database_url=url) as world:
        s = await scene(world, Work(takes=3 * MINUTE, does=help_out))
        rules = [
            await s.rule(kind="every", interval_seconds=17_000),
            await s.rule(kind="cron", cron_expression="30 2 * * *", timezone="Europe/Berlin"),
            await s.rule(kind="event", mode="continuous", event_types=("comment.created",)),
        ]
        for hours in (10, 20, 40):
            comment = partial(s.ann.comment, s.issue_id, "how is it going?")
            world.plan(NOON + hours * HOUR, comment)
        world.plan(NOON + 30 * HOUR, partial(s.daemon.go_offline, NOON + 36 * HOUR))
        await world.advance(DAY)
        await world.restart_engine()
        await world.advance(NOON + 2 * DAY)
        return [
            [
                (each.planned_at, each.fired_at)
                for rule in rules[:2]
                for each in await world.firings(rule)
            ],
            [
                (each.id, each.created_at, each.started_at, each.completed_at, each.status)
                for rule in rules
                for each in await s.runs(rule)
            ],
            [(each.id, each.action, each.created_at) for each in await world.timeline(s.issue_id)],
        ]


async def test_the_same_script_gives_the_same_history(database_url: str, empty_url: str) -> None:
    """W-260: two worlds with one script have the same firings, runs and timeline, ids included."""
    one, other = await history(database_url), await history(empty_url)
    firings, runs, timeline = one
    assert len(firings) == 10 + 2
    assert len(timeline) > len(runs) > 20
    assert one == other


async def test_an_agent_acts_in_its_run(world: World) -> None:
    """W-260: a script does as its agent what an agent does: comments, rules, check-ins."""
    left: list[Any] = []

    async def act(at_work: RunAtWork) -> None:
        if at_work.run.wakeup_id is None or not left:
            left.append(await at_work.add_rule("again", kind="every", interval_seconds=3_600))
            await at_work.comment("I will look again")
        else:
            await at_work.check_in("nothing new")

    s = await scene(world, Work(takes=2 * MINUTE, does=act))
    await s.ann.update_issue(s.issue_id, assignee_type="agent", assignee_id=s.agent.id)
    begun = world.now
    await world.advance(2 * HOUR + 10 * MINUTE)
    (rule,) = left
    assert rule.created_at == begun + 2 * MINUTE
    runs = await s.runs(rule)
    assert [each.completed_at for each in runs] == [
        rule.created_at + HOUR + 2 * MINUTE,
        rule.created_at + 2 * HOUR + 2 * MINUTE,
    ]
    assert s.daemon.claimed == 3
    assert s.daemon.refused == []


async def test_a_lost_claim_is_handed_out_again(world: World) -> None:
    """W-105: the answer of a claim is lost: the same run is handed out again after 90 s, once."""
    works = iter((Work(is_lost=True), Work(takes=MINUTE)))
    ann, daemon = await world.person("Ann"), await world.daemon("laptop")
    agent = await world.agent("Checker", daemon, lambda _: next(works))
    issue = await ann.create_issue("Lost")
    s = Scene(world=world, ann=ann, daemon=daemon, agent=agent, issue_id=issue.id)
    rule = await s.rule(kind="at", after_seconds=60)
    due = world.now + MINUTE
    await world.advance(due + 89 * SECOND)
    (run,) = await s.runs(rule)
    assert (daemon.lost, daemon.claimed, run.status) == (1, 0, RunStatus.DISPATCHED)
    await world.advance(10 * MINUTE)
    (run,) = await s.runs(rule)
    assert (daemon.lost, daemon.claimed, run.status) == (1, 1, RunStatus.COMPLETED)
    assert run.started_at == due + 90 * SECOND


async def test_a_run_token_ends_after_a_day(world: World) -> None:
    """W-192: what a run does later than 24 hours after its claim is refused."""

    async def speak(at_work: RunAtWork) -> None:
        await at_work.comment("done at last")

    s = await scene(world, Work(takes=DAY + SECOND, does=speak))
    rule = await s.rule(kind="at", after_seconds=60)
    await world.advance(DAY + HOUR)
    (run,) = await s.runs(rule)
    assert s.daemon.refused == [(run.id, "not_authenticated")]


async def test_revoked_rights_refuse_an_old_run(world: World) -> None:
    """W-108: a run whose person lost the right to invoke is refused at a claim two days later."""
    s = await scene(world, online=False)
    rule = await s.rule(kind="at", after_seconds=60)
    await world.advance(2 * MINUTE)
    await world.submit(
        world.owner.principal, UpdateAgent(agent_id=s.agent.id, visibility="private")
    )
    await world.advance(2 * DAY)
    await s.daemon.come_back()
    await world.advance(MINUTE)
    (run,) = await s.runs(rule)
    assert (run.status, run.failure_reason) == (RunStatus.FAILED, "invalid_task_identity")
    assert s.daemon.claimed == 0


async def test_wakeup_runs_do_not_expire(world: World) -> None:
    """W-109: after three hours offline an ordinary run has expired, the wakeup's is queued."""
    s = await scene(world, online=False)
    rule = await s.rule(kind="at", after_seconds=60)
    await s.ann.update_issue(s.issue_id, assignee_type="agent", assignee_id=s.agent.id)
    await world.advance(3 * HOUR)
    (mine,) = await s.runs(rule)
    (other,) = [each for each in await world.runs(s.issue_id) if each.wakeup_id is None]
    assert mine.status is RunStatus.QUEUED
    assert (other.status, other.failure_reason) == (RunStatus.FAILED, "queued_expired")


async def test_reports_wait_for_the_engine(world: World) -> None:
    """W-260: what ends while the engine is away, or the daemon, is reported afterwards."""
    s = await scene(world, Work(takes=10 * MINUTE, output="done"))
    rule = await s.rule(kind="every", interval_seconds=3_600)
    begun = world.now
    await world.advance(HOUR + MINUTE)
    await world.stop_engine()
    with pytest.raises(WakefulError, match="stopped"):
        await s.ann.comment(s.issue_id, "hello?")
    await world.advance(HOUR / 2)
    await world.start_engine()
    await world.advance(begun + 2 * HOUR + MINUTE)
    await s.daemon.go_offline(begun + 2 * HOUR + 40 * MINUTE)
    await world.advance(begun + 3 * HOUR)
    first, second, third = await s.runs(rule)
    assert first.completed_at == begun + HOUR + 31 * MINUTE
    assert second.completed_at == begun + 2 * HOUR + 40 * MINUTE
    assert third.started_at == begun + 3 * HOUR


async def test_a_restarted_daemon_has_forgotten_its_runs(world: World) -> None:
    """W-110: what a daemon worked on when it was restarted fails with `runtime_recovery`."""
    s = await scene(world, Work(takes=HOUR))
    rule = await s.rule(kind="at", after_seconds=60)
    await world.advance(10 * MINUTE)
    await s.daemon.go_offline()
    await world.advance(MINUTE)
    await s.daemon.come_back(restarted=True)
    await world.advance(2 * HOUR)
    runs = await world.runs(s.issue_id)
    assert [each.failure_reason for each in runs] == ["runtime_recovery", None]
    assert runs[1].status is RunStatus.COMPLETED
    assert [each.id for each in await s.runs(rule)] == [each.id for each in runs]
