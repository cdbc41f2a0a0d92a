"""Groups of the dispatcher: what does not fit, what fails, and what must not spin."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import trio
import trio.testing

from engine import limits
from engine.app import Engine
from engine.domain.commands.runs import CompleteRun, CompleteRuns, StartRun, StartRuns
from engine.domain.commands.wakeups import TriggerRule
from engine.domain.views.runs import ClaimedRun
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import World, claim, register, running, settled, start


async def test_what_did_not_fit_into_a_group_is_not_forgotten(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-070: one statement on 60 issues with three rules each: all 180 fire without a sweep."""
    issues = await psql.issues(world, 60)
    rules = [
        await psql.rule(world, issue_id=issue, event_types=[COMMENT])
        for issue in issues
        for _ in range(3)
    ]
    await psql(
        "INSERT INTO comment (issue_id, workspace_id, content)"
        " SELECT id, $2, 'to all' FROM unnest($1::uuid[]) AS id",
        *(issues, world.workspace_id),
    )
    await psql.drained(*rules, within=10)


async def test_what_waits_for_a_claimed_run_costs_nothing(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-100: 120 inputs behind a claimed run are looked at once each, and then no more."""
    rule = await register(engine, world)
    await psql.comment(world.issue)
    await psql.run(rule.id)
    assert len(await claim(engine, world)) == 1
    for _ in range(120):
        await engine.submit(world.m, TriggerRule(issue_id=world.issue, rule_id=rule.id))
    await settled(engine)
    before = engine.dispatcher.statistics.transactions
    await trio.testing.wait_all_tasks_blocked(0.5)
    assert engine.dispatcher.statistics.transactions == before


async def test_reports_on_quiet_issues_cost_no_dispatch(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-071: starts and ends of wakeup runs, one by one or many, dispatch only what waits."""
    issues = await psql.issues(world, 4)
    rules = [await register(engine, world, issue=issue) for issue in issues]
    for issue in issues:
        await psql.comment(issue)
    for rule in rules:
        await psql.run(rule.id)
    runs = [run for _ in rules for run in await claim(engine, world)]
    await settled(engine)
    before = engine.dispatcher.statistics.transactions
    await start(engine, world, runs[0])
    await engine.submit(world.daemon, CompleteRun(run_id=runs[0].id))
    many = [(run.id, run.dispatched_at) for run in runs[1:] if run.dispatched_at is not None]
    starts = tuple(StartRun(run_id=run_id, dispatched_at=at) for run_id, at in many)
    await engine.submit(world.daemon, StartRuns(reports=starts))
    await settled(engine)
    assert engine.dispatcher.statistics.transactions == before
    ends = tuple(CompleteRun(run_id=run_id) for run_id, _ in many)
    waiting = next(rule for rule in rules if rule.issue_id == runs[1].issue_id)
    await psql.receipt(waiting.id)  # past capture: nothing but the end of its run tells of it
    await engine.submit(world.daemon, CompleteRuns(reports=ends))
    await settled(engine)
    assert engine.dispatcher.statistics.transactions == before + 1
    assert len(await psql.runs(waiting.id)) == 2


async def test_a_failing_report_fails_no_other(engine: Engine, psql: Psql, world: World) -> None:
    """W-113: where a run cannot be ended at all, the others of the same call end."""
    issues = await psql.issues(world, 5)
    for issue in issues:
        await register(engine, world, issue=issue)
        await psql.comment(issue)
    runs: list[ClaimedRun] = []
    while len(runs) < len(issues):
        runs += await claim(engine, world)
    for run in runs:
        await start(engine, world, run)
    await psql(BROKEN_END.format(issue=runs[2].issue_id))
    await psql(BROKEN_END_TRIGGER)
    ends = tuple(CompleteRun(run_id=run.id) for run in runs)
    outcomes = await engine.submit(world.daemon, CompleteRuns(reports=ends))
    assert [each.id for each in outcomes] == [run.id for run in runs]
    codes = [each.code for each in outcomes]
    assert codes == [None, None, "internal_error", None, None]
    statuses = await psql(
        "SELECT status FROM agent_task_queue WHERE id = ANY ($1) ORDER BY array_position($1, id)",
        [run.id for run in runs],
    )
    assert [row["status"] for row in statuses] == [
        "completed", "completed", "running", "completed", "completed",
    ]  # fmt: skip


BROKEN_END = """
CREATE FUNCTION break_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.issue_id = '{issue}' THEN RAISE 'it cannot end'; END IF;
  RETURN NEW;
END $$
"""
BROKEN_END_TRIGGER = (
    "CREATE TRIGGER break_end BEFORE UPDATE ON agent_task_queue"
    " FOR EACH ROW EXECUTE FUNCTION break_end()"
)
RECEIPTS = (
    "INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, payload)"
    " SELECT id, 1, 'written past capture', 'comment.created', '{}' FROM issue_wakeup"
)
BEFORE = (
    "SELECT count(*) FROM agent_task_queue q, agent_task_queue of"
    " WHERE of.wakeup_id = $1 AND q.created_at < of.created_at"
)


async def test_facts_overtake_what_comes_in_bulk(engine: Engine, psql: Psql, world: World) -> None:
    """W-070: with 600 issues waiting in bulk a fact waits for the groups under way, no longer.

    That holds for another issue, and for one that waits in bulk itself.
    """
    issues = await psql.issues(world, 600)
    await psql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, event_types)"
        " SELECT $1, id, $2, $3, 'look', 'event', 'continuous', $4 FROM unnest($5::uuid[]) id",
        *(world.workspace_id, world.a, world.m.user_id, [COMMENT], issues),
    )
    rule = await psql.rule(world, event_types=[COMMENT])
    last = await psql.value("SELECT id FROM issue_wakeup WHERE issue_id = $1", issues[-1])
    await psql(RECEIPTS)  # told to nobody
    await settled(engine)
    engine.hints.look_at(issues, is_bulk=True)
    engine.hints.look_at([world.issue, issues[-1]])
    await psql.run(rule)
    await settled(engine)
    assert await psql.value("SELECT count(*) FROM agent_task_queue") == 601
    at_once = limits.DISPATCH_CONNECTIONS * limits.BULK_ISSUES_MAX
    for urgent in (rule, last):
        assert await psql.value(BEFORE, urgent) <= at_once


async def test_a_rule_that_makes_no_sense_stops_no_other(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-076: an interval beyond all time is that rule's error; its neighbour on the issue fires."""
    hopeless = await psql.rule(
        world,
        kind="every",
        interval_seconds=2**63 - 1,
        next_fire_at=await psql.value("SELECT wakeful_now() - interval '1 minute'"),
    )
    healthy = await psql.rule(world, event_types=[COMMENT])
    await psql.comment(world.issue)
    async with running(database_url):
        await psql.run(healthy)
        assert await psql.failed(hopeless)


async def test_bulk_has_places_while_facts_never_end(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-075: timers fire although more facts wait than a group takes; facts still come first."""
    dispatcher = engine.dispatcher
    await settled(engine)
    facts, timers = await psql.issues(world, 100), await psql.issues(world, 10)
    groups: list[list[UUID]] = []
    try:
        async with trio.open_nursery() as nursery:
            dispatcher._working = limits.DISPATCH_CONNECTIONS  # nobody works on what waits but us
            for issue in timers:
                nursery.start_soon(partial(dispatcher.dispatch, issue, is_bulk=True))
            for issue in facts:
                nursery.start_soon(dispatcher.dispatch, issue)
            await trio.testing.wait_all_tasks_blocked()
            while group := dispatcher._next_group():
                groups.append([each.issue_id for each in group])
                for each in group:
                    each.done.set()
    finally:
        dispatcher._working = 0
    counts = [len(set(facts).intersection(group)) for group in groups]
    assert [len(group) for group in groups] == [32, 32, 32, 14]
    assert counts == [28, 28, 30, 14]  # four timers, four, two, none
    assert sorted(each for group in groups for each in group) == sorted([*facts, *timers])
