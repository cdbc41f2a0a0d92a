from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from engine.domain.commands.tracker import (
    CreateComment,
    CreateIssue,
    ListTimeline,
    UpdateAgent,
    UpdateIssue,
)
from engine.domain.principal import Principal
from tests.service.conftest import Executor, RunOf, Sql, World


async def entries(execute: Executor, caller: Principal, issue_id: UUID) -> list[Any]:
    page = await execute(caller, ListTimeline(issue_id=issue_id))
    assert page.total == len(page.items)
    return list(page.items)


async def test_the_timeline_tells_what_happened(execute: Executor, world: World) -> None:
    """Each change writes its entry, newest first: who, what, never a text."""
    marker = "marker-of-a-body"
    comment = await execute(world.n, CreateComment(issue_id=world.issue, body=marker))
    await execute(
        world.m,
        UpdateIssue(
            issue_id=world.issue,
            title=marker,
            description=marker,
            metadata={"note": marker},
            status="in_progress",
            assignee_type="member",
            assignee_id=world.n.user_id,
        ),
    )
    found = await entries(execute, world.g, world.issue)
    assert [(each.action, each.actor_id, each.details) for each in found] == [
        (
            "issue_assigned",
            world.m.user_id,
            {
                "previous_assignee_type": None,
                "previous_assignee_id": None,
                "assignee_type": "member",
                "assignee_id": str(world.n.user_id),
            },
        ),
        (
            "issue_status_changed",
            world.m.user_id,
            {
                "previous_status": "todo",
                "previous_status_name": "Todo",
                "status": "in_progress",
                "status_name": "In Progress",
            },
        ),
        ("issue_metadata_changed", world.m.user_id, {"changed_fields": ["note"]}),
        ("issue_updated", world.m.user_id, {"changed_fields": ["description", "title"]}),
        ("comment_created", world.n.user_id, {"comment_id": str(comment.id)}),
        ("issue_created", world.m.user_id, {}),
    ]
    assert {each.actor_type for each in found} == {"member"}
    assert marker not in repr(found)


async def test_an_agent_is_named_as_the_actor(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-193: what a run does is its agent's doing."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    await execute(run, UpdateIssue(issue_id=world.issue, status="in_review"))
    newest = (await entries(execute, world.m, world.issue))[0]
    assert (newest.actor_type, newest.actor_id) == ("agent", world.a)


async def test_a_change_that_fails_leaves_no_entry(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An entry is written in the transaction of its change: rolled back with it."""
    before = len(await sql("SELECT FROM activity_log"))
    for command in (
        UpdateIssue(issue_id=world.issue, title="New", status="nonsense"),
        CreateIssue(workspace_id=world.workspace_id, title="New", parent_id=UUID(int=1)),
        UpdateIssue(issue_id=world.issue, title="I"),
    ):
        if command.title == "I":
            await execute(world.m, command)
        else:
            assert await execute.refused(world.m, command) == "invalid_input"
    assert len(await sql("SELECT FROM activity_log")) == before


async def test_a_timeline_comes_in_pages(execute: Executor, world: World) -> None:
    """Newest first, in pages, in an order that stands."""
    for stage in range(1, 6):
        await execute(world.m, UpdateIssue(issue_id=world.issue, stage=stage))
    whole = await entries(execute, world.m, world.issue)
    parts: list[Any] = []
    for offset in range(0, 6, 2):
        page = await execute(world.m, ListTimeline(issue_id=world.issue, limit=2, offset=offset))
        assert page.total == 6
        parts.extend(page.items)
    assert parts == whole


@pytest.mark.parametrize("about", ["filter_agent_id", "filter_task_id", "filter_actor_id"])
async def test_the_copy_of_a_rule_hides_private_agents(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, about: str
) -> None:
    """W-194: whoever may not see an agent finds no trace of it in the copies of rules."""
    run = await run_of(world.p, world.other_issue, world.o.user_id)
    rule = {
        "id": str(UUID(int=7)),
        "agent_id": str(world.a),
        "filter_agent_id": None,
        "filter_task_id": None,
        "filter_actor_type": "agent" if about == "filter_actor_id" else None,
        "filter_actor_id": None,
        "source_task_id": str(run.run_id),
        about: str(run.run_id if about == "filter_task_id" else world.p),
    }
    await sql(
        "INSERT INTO activity_log (workspace_id, issue_id, actor_type, actor_id, action, details)"
        " VALUES ($1, $2, 'agent', $3, 'wakeup_triggered', $4)",
        world.workspace_id,
        world.issue,
        world.p,
        {"wakeup": rule, "actor_type": "agent", "actor_id": str(world.p), "count": 1},
    )
    for caller in (world.m, world.g):
        newest = (await entries(execute, caller, world.issue))[0]
        told = json.dumps([str(newest.actor_id), newest.details])
        assert str(world.p) not in told
        assert str(run.run_id) not in told
        assert newest.details["wakeup"]["agent_id"] == str(world.a)
        assert newest.details["count"] == 1
    for caller in (world.o, run):
        newest = (await entries(execute, caller, world.issue))[0]
        assert newest.actor_id == world.p
        assert newest.details["wakeup"] == rule
    assert world.m.user_id is not None
    await execute(world.o, UpdateAgent(agent_id=world.p, invokers=(world.m.user_id,)))
    assert (await entries(execute, world.m, world.issue))[0].details["wakeup"] == rule


async def test_the_copy_of_a_rule_that_nobody_can_read_is_harmless(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An entry of another writer, with ids that are none, is shown without them."""
    await sql(
        "INSERT INTO activity_log (workspace_id, issue_id, actor_type, action, details) VALUES"
        " ($1, $2, 'system', 'wakeup_triggered', $3)",
        world.workspace_id,
        world.issue,
        {"wakeup": {"filter_agent_id": "nobody", "source_task_id": 7, "kind": "event"}},
    )
    newest = (await entries(execute, world.m, world.issue))[0]
    assert newest.details["wakeup"]["filter_agent_id"] is None
    assert newest.details["wakeup"]["source_task_id"] is None
    assert newest.details["wakeup"]["kind"] == "event"
