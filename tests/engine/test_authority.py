"""A dispatch asks anew who may do what, and ends a rule that has lost its ground."""

from __future__ import annotations

from typing import Final

import pytest

from engine.app import Engine
from engine.domain.commands.tracker import ArchiveAgent, RemoveMember, UpdateAgent, UpdateIssue
from engine.service.dispatch import CONTENTION
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import World, register, running, say, settled

ORPHANS: Final = (
    "SELECT count(*) FROM agent_task_queue q"
    " WHERE NOT EXISTS (SELECT FROM agent a WHERE a.id = q.agent_id)"
)
# Each takes $1, the workspace, and what it names of the world.
LOSSES: Final = {
    "creator removed": "DELETE FROM member WHERE user_id = '{m}'",
    "creator may not invoke": "UPDATE agent SET visibility = 'private' WHERE id = '{a}'",
    "agent archived": "UPDATE agent SET archived_at = wakeful_now() WHERE id = '{a}'",
    "agent without a runtime": "UPDATE agent SET runtime_id = NULL WHERE id = '{a}'",
    "issue closed": "UPDATE issue SET status = 'done' WHERE id = '{issue}'",
    "switched off": "UPDATE issue_wakeup SET disabled_at = wakeful_now()",
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_rule_without_its_ground_is_switched_off(
    engine: Engine, psql: Psql, world: World, loss: str
) -> None:
    """W-080: the rule goes off, its input is discarded, its unstarted run cancelled."""
    rule = await register(engine, world)
    await say(engine, world.n, world.issue)
    run = await psql.run(rule.id)
    await psql.drained(rule.id)
    await psql(LOSSES[loss].format(m=world.m.user_id, a=world.a, issue=world.issue))
    await psql.receipt(rule.id)
    await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
    await psql.drained(rule.id)
    stored = await psql.row(rule.id)
    assert not stored["enabled"]
    assert stored["disabled_at"] is not None
    assert stored["last_error"] or loss in ("issue closed", "switched off")
    consumed, discarded = await psql.receipts(rule.id)
    assert consumed["task_id"] == run["id"]
    assert discarded["task_id"] is None
    after = await psql.run(rule.id)
    assert after["status"] == "cancelled"
    assert after["error"]


async def test_a_due_timer_without_its_creator_goes_off(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-080: a timer of a person who left fires nothing and does not come due again."""
    rule = await register(engine, world, kind="every", interval_seconds=60)
    await psql("DELETE FROM member WHERE user_id = $1", world.m.user_id)
    await psql("UPDATE issue_wakeup SET next_fire_at = wakeful_now() WHERE id = $1", rule.id)
    assert await psql.failed(rule.id)
    stored = await psql.row(rule.id)
    assert not stored["enabled"]
    assert stored["disabled_at"] is not None
    await settled(engine)
    assert await psql.runs(rule.id) == []


async def test_removing_a_member_through_the_api_ends_their_rules(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-080: after M was removed a fact makes no run and the rule of M goes off with its reason."""
    rule = await register(engine, world)
    other = await register(engine, world, caller=world.g)
    member_id = await psql.value("SELECT id FROM member WHERE user_id = $1", world.m.user_id)
    await engine.submit(world.o, RemoveMember(workspace_id=world.workspace_id, member_id=member_id))
    await say(engine, world.n, world.issue)
    await psql.run(other.id)
    await settled(engine)
    await psql.drained(rule.id)
    assert await psql.runs(rule.id) == []
    stored = await psql.row(rule.id)
    assert not stored["enabled"]
    assert stored["last_error"]


async def test_archiving_or_unhousing_an_agent_ends_its_rules(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-080: rules of an agent that is retired, or has no runtime, go off at their next fact."""
    retired = await register(engine, world, agent_id=world.a)
    homeless = await register(engine, world, agent_id=world.b)
    workspace = world.workspace_id
    await engine.submit(world.o, ArchiveAgent(workspace_id=workspace, agent_id=world.a))
    away = UpdateAgent(workspace_id=workspace, agent_id=world.b, runtime_id=None)
    await engine.submit(world.o, away)
    await say(engine, world.n, world.issue)
    await settled(engine)
    for rule in (retired, homeless):
        await psql.drained(rule.id)
        assert await psql.runs(rule.id) == []
        stored = await psql.row(rule.id)
        assert not stored["enabled"]
        assert stored["last_error"]


async def test_closing_an_issue_switches_its_rules_off(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-080: a closed issue has no enabled rule, no pending input and no unstarted run of one."""
    rule = await register(engine, world)
    waiting = await register(engine, world, mode="once", event_types=("issue.status_changed",))
    await say(engine, world.n, world.issue)
    await psql.run(rule.id)
    await engine.submit(world.n, UpdateIssue(issue_id=world.issue, status="done"))
    await settled(engine)
    await psql.drained(rule.id, waiting.id)
    for each in (rule, waiting):
        assert not (await psql.row(each.id))["enabled"]
    assert (await psql.run(rule.id))["status"] == "cancelled"
    assert await psql.runs(waiting.id) == []


async def test_a_rule_without_its_issue_goes_away(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-080: when the issue is gone the rule is deleted with its receipts."""
    (gone,) = await psql.issues(world, 1)
    rule_id = await psql.rule(world, issue_id=gone, event_types=[COMMENT])
    await psql.receipt(rule_id)
    await psql("DELETE FROM issue WHERE id = $1", gone)
    async with running(database_url) as engine:
        await settled(engine)
    rules = "SELECT count(*) FROM issue_wakeup WHERE id = $1"
    assert await psql.value(rules, rule_id) == 0
    assert await psql.receipts(rule_id) == []
    assert await psql.runs(rule_id) == []


async def test_a_consumed_one_shot_discards_what_still_comes(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-080: a receipt for a one-shot that has fired is processed without a run."""
    rule = await register(engine, world, mode="once")
    await say(engine, world.n, world.issue)
    run = await psql.run(rule.id)
    stored = await psql.row(rule.id)
    assert stored["last_task_id"] == run["id"]
    assert not stored["enabled"]
    assert stored["disabled_at"] is None
    await psql.receipt(rule.id)
    await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
    await psql.drained(rule.id)
    consumed, discarded = await psql.receipts(rule.id)
    assert consumed["task_id"] == run["id"]
    assert discarded["task_id"] is None
    after = await psql.run(rule.id)
    assert after["status"] == "queued", "the run that it has started stays"
    assert after["handoff_note"] == run["handoff_note"]


async def test_an_agent_that_is_being_deleted_gets_no_run(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-190: a fact while psql has deleted the agent, uncommitted, makes no run, then or later."""
    async with running(database_url, sweep_seconds=0.2) as engine:
        rule = await register(engine, world)
        other = await register(engine, world, agent_id=world.b)
        async with psql.open_transaction(("DELETE FROM agent WHERE id = $1", world.a)):
            await say(engine, world.n, world.issue)
            await psql.run(other.id)
            assert await psql.failed(rule.id) == CONTENTION
            assert await psql.runs(rule.id) == []
        await psql.drained(rule.id)
        stored = await psql.row(rule.id)
        assert not stored["enabled"]
        assert stored["last_error"] not in (None, CONTENTION)
        await say(engine, world.n, world.issue)
        await psql.drained(other.id)
    assert await psql.value(ORPHANS) == 0
