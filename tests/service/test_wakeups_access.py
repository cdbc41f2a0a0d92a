"""Who may read, change and wake rules, and what others see of them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.domain.commands.wakeups import (
    CreateRule,
    DeleteRule,
    DisableRule,
    EnableRule,
    GetRule,
    ListRuleRuns,
    ListRules,
    ReplaceRule,
    TriggerRule,
)
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.wakeup_steps import a_draft, create, refused


@pytest.mark.parametrize(
    ("who", "manages", "code"),
    [
        ("o", True, None),
        ("g", True, None),
        ("m", True, None),
        ("n", False, "not_allowed"),
        ("s", False, "not_found"),
        ("daemon", False, "not_allowed"),
    ],
)
async def test_who_may_do_what(
    execute: Executor, world: World, who: str, manages: bool, code: str | None
) -> None:
    """W-191, W-015: members read; the creator, owners and admins change; others see nothing."""
    rule = await create(execute, world)
    caller = getattr(world, who)
    place: dict[str, Any] = {"issue_id": world.issue, "rule_id": rule.id}
    for query in (ListRules(issue_id=world.issue), GetRule(**place), ListRuleRuns(**place)):
        if who in "ogmn":
            await execute(caller, query)
        else:
            assert await refused(execute, caller, query) == code
    changes = (
        ReplaceRule(**place, draft=a_draft(world)),
        EnableRule(**place, revision=2),
        TriggerRule(**place),
        DisableRule(**place),
        DeleteRule(**place),
    )
    for change in changes:
        if manages:
            await execute(caller, change)
        else:
            assert await refused(execute, caller, change) == code


async def test_a_run_without_a_person_saves_nothing(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-192: without an originator a run may not save or wake, and manages nothing."""
    rule = await create(execute, world)
    run = await run_of(world.a, world.issue, None)
    place: dict[str, Any] = {"issue_id": world.issue, "rule_id": rule.id}
    assert len(await execute(run, ListRules(issue_id=world.issue))) == 1
    for command in (
        CreateRule(issue_id=world.issue, draft=a_draft(world)),
        ReplaceRule(**place, draft=a_draft(world)),
        EnableRule(**place, revision=1),
        TriggerRule(**place),
    ):
        assert await refused(execute, run, command) == "no_human_principal"
    for withdrawal in (DisableRule(**place), DeleteRule(**place)):
        assert await refused(execute, run, withdrawal) == "not_allowed"


async def test_rights_count_as_they_are_in_the_transaction(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-196: an admin who was demoted since the request began manages no other's rule."""
    rule = await create(execute, world)
    await sql("UPDATE member SET role = 'member' WHERE user_id = $1", world.g.user_id)
    place: dict[str, Any] = {"issue_id": world.issue, "rule_id": rule.id}
    for command in (ReplaceRule(**place, draft=a_draft(world)), DisableRule(**place)):
        assert await refused(execute, world.g, command) == "not_allowed"


async def test_references_to_private_agents_are_hidden(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-060, W-194, W-195: N sees whom a rule wakes, but neither filter nor source that names P."""
    run = await run_of(world.p, world.issue, world.o.user_id)
    await create(execute, world, world.o, agent_id=world.p)
    await create(execute, world, world.o, filter_agent_id=world.p)
    types = ("task.completed",)
    await create(execute, world, world.o, event_types=types, filter_agent_id=world.p)
    await create(execute, world, world.o, event_types=types, filter_task_id=run.run_id)
    await create(execute, world, run, agent_id=world.a)
    shown = await execute(world.o, ListRules(issue_id=world.issue))
    assert shown[1].filter_actor_id == shown[2].filter_agent_id == world.p
    assert shown[1].filter_actor_name == shown[2].filter_agent_name == "P"
    assert shown[3].filter_task_id == shown[4].source_task_id == run.run_id
    hidden = await execute(world.n, ListRules(issue_id=world.issue))
    assert (hidden[0].agent_id, hidden[0].agent_name) == (world.p, "P")
    assert (hidden[1].filter_actor_type, hidden[1].filter_actor_id) == ("agent", None)
    assert hidden[1].filter_actor_name is None
    assert (hidden[2].filter_agent_id, hidden[2].filter_agent_name) == (None, None)
    assert hidden[3].filter_task_id is None
    assert hidden[4].created_by_agent
    for view in hidden[1:]:
        assert str(world.p) not in repr(view)
        assert str(run.run_id) not in repr(view)
    trigger = TriggerRule(issue_id=world.issue, rule_id=hidden[0].id)
    assert await refused(execute, world.g, trigger) == "cannot_invoke_agent"
