"""Groups of the dispatcher: what does not fit, what fails, and what must not spin."""

from __future__ import annotations

import trio
import trio.testing

from engine.app import Engine
from engine.domain.commands.wakeups import TriggerRule
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import World, claim, register, running, settled


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
