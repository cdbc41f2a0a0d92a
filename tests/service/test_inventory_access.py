"""Who sees which rules of a workspace, and what of private agents; nobody reads instructions."""

from __future__ import annotations

from typing import Any

import pytest

from engine.domain.commands.inventory import ListInventory, ListSummaries
from engine.domain.commands.wakeups import TriggerRule
from engine.domain.principal import Principal
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.test_inventory import SECRET, inventory, summaries
from tests.service.wakeup_steps import create, refused
from web import wire


async def test_targets_are_named_whoever_may_wake_them(execute: Executor, world: World) -> None:
    """W-195: a rule that wakes P is listed, counted and found by that name for N, without text."""
    rule = await create(execute, world, world.o, agent_id=world.p, instruction=SECRET)
    narrowed: tuple[dict[str, Any], ...] = ({}, {"search": "p"}, {"agent_id": world.p})
    for asked in narrowed:
        found = await inventory(execute, world, world.n, **asked)
        (item,) = found.items
        assert (item.id, item.agent_id, item.agent_name) == (rule.id, world.p, "P")
        assert (found.counts.active, [each.name for each in found.agents]) == (1, ["P"])
        assert SECRET not in wire.dumps(found).decode()
    boards = await summaries(execute, world)
    assert boards[0].previews[0].agent_name == "P"
    assert SECRET not in wire.dumps(boards).decode()
    trigger = TriggerRule(issue_id=world.issue, rule_id=rule.id)
    assert await refused(execute, world.n, trigger) == "cannot_invoke_agent"


@pytest.mark.parametrize("of_p", ["actor", "agent", "run", "source"])
async def test_private_agents_are_hidden(
    execute: Executor, world: World, run_of: RunOf, of_p: str
) -> None:
    """W-194: what a rule says of P is there for O, in inventory and board, and null for N."""
    run = await run_of(world.p, world.issue, world.o.user_id)
    ended = ("task.completed",)
    cases: dict[str, tuple[Principal, dict[str, Any], dict[str, Any]]] = {
        "actor": (
            world.o,
            {"filter_actor_type": "agent", "filter_actor_id": world.p},
            {"filter_actor_id": world.p, "filter_actor_name": "P"},
        ),
        "agent": (
            world.o,
            {"event_types": ended, "filter_agent_id": world.p},
            {"filter_agent_id": world.p, "filter_agent_name": "P"},
        ),
        "run": (
            world.o,
            {"event_types": ended, "filter_task_id": run.run_id},
            {"filter_task_id": run.run_id},
        ),
        "source": (
            run,
            {"agent_id": world.a},
            {"source_task_id": run.run_id, "source_agent_id": world.p, "source_agent_name": "P"},
        ),
    }
    caller, changes, fields = cases[of_p]
    await create(execute, world, caller, **changes)
    for who, is_hidden in ((world.o, False), (world.n, True)):
        (item,) = (await inventory(execute, world, who)).items
        ((preview,),) = [each.previews for each in await summaries(execute, world, who)]
        for view in (item, preview):
            for name, value in fields.items():
                assert getattr(view, name) == (None if is_hidden else value), name
            text = wire.dumps(view).decode()
            assert (str(world.p) in text or str(run.run_id) in text) != is_hidden
        assert item.source == ("agent" if of_p == "source" else "member")
        assert item.filter_actor_type == changes.get("filter_actor_type")


@pytest.mark.parametrize(
    ("who", "code"),
    [
        ("o", None),
        ("g", None),
        ("m", None),
        ("n", None),
        ("s", "not_found"),
        ("daemon", "not_allowed"),
    ],
)
async def test_members_see_the_rules_of_their_workspace(
    execute: Executor, sql: Sql, world: World, who: str, code: str | None
) -> None:
    """W-210, W-191: every rule of the workspace is counted for its members, for nobody else."""
    rule = await create(execute, world)
    await sql(
        "INSERT INTO issue (workspace_id, number, title)"
        " SELECT w.id, 1, 'elsewhere' FROM workspace w WHERE w.slug = 'elsewhere'"
    )
    await sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode) SELECT i.workspace_id, i.id, $1, $2, 'x', 'event', 'once' FROM issue i"
        " WHERE i.title = 'elsewhere'",
        *(world.a, world.m.user_id),
    )
    caller = getattr(world, who)
    inventoried = ListInventory(workspace_id=world.workspace_id)
    summarised = ListSummaries(workspace_id=world.workspace_id)
    if code is not None:
        for query in (inventoried, summarised):
            assert await refused(execute, caller, query) == code
        return
    found = await execute(caller, inventoried)
    assert ([item.id for item in found.items], found.counts.all) == ([rule.id], 1)
    assert found.items[0].can_manage == (who != "n")
    (summary,) = await execute(caller, summarised)
    assert summary.active_count == 1


async def test_a_run_sees_the_inventory(execute: Executor, world: World, run_of: RunOf) -> None:
    """W-210: an agent's run sees the rules of its workspace, and what its person may manage."""
    await create(execute, world)
    for person, manages in ((world.m, True), (world.n, False)):
        run = await run_of(world.a, world.issue, person.user_id, "dispatched")
        (item,) = (await inventory(execute, world, run)).items
        assert item.can_manage == manages
        await execute.end(run)
