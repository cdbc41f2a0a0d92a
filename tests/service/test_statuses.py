from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.catalogue import (
    ArchiveStatus,
    CreateStatus,
    ListStatuses,
    UnarchiveStatus,
    UpdateStatus,
)
from engine.domain.commands.tracker import CreateIssue, GetIssue, ListIssues, UpdateIssue
from engine.domain.statuses import BUILT_IN
from engine.errors import WakefulError
from tests.service.conftest import Executor, Sql, World

RULE = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous',"
    " '{comment.created}') RETURNING id"
)


def made(world: World, **fields: Any) -> CreateStatus:
    command = CreateStatus(
        workspace_id=world.workspace_id, key="qa", name="In QA", category="in_progress"
    )
    return attrs.evolve(command, **fields)


async def test_the_built_in_statuses_come_first(execute: Executor, world: World) -> None:
    """The seven built-in statuses lead every list, in their order, without id and times."""
    await execute(world.g, made(world, name="A first", color="#A0B1C2"))
    page = await execute(world.n, ListStatuses(workspace_id=world.workspace_id))
    assert page.total == 8
    assert [each.key for each in page.items] == [
        "backlog", "todo", "in_progress", "in_review", "blocked", "done", "cancelled", "qa",
    ]  # fmt: skip
    assert all(
        (each.id, each.is_system, each.archived_at, each.created_at) == (None, True, None, None)
        for each in page.items[:7]
    )
    own = page.items[7]
    assert (own.name, own.category, own.color) == ("A first", "in_progress", "#a0b1c2")
    assert (own.is_system, own.id is None, own.created_at is None) == (False, False, False)
    page = await execute(world.n, ListStatuses(workspace_id=world.workspace_id, limit=2, offset=6))
    assert [each.key for each in page.items] == ["cancelled", "qa"]


async def test_built_in_statuses_are_the_same_in_sql(sql: Sql, world: World) -> None:
    """What capture and closing read of a built-in status in SQL is what the API says of it."""
    for key, status in BUILT_IN.items():
        (row,) = await sql(
            "SELECT status_category($1, $2) AS category, status_is_closed($1, $2) AS closed",
            world.workspace_id,
            key,
        )
        assert (row["category"], row["closed"]) == (status.category, status.is_closed)


async def test_a_bad_field_is_named(execute: Executor, world: World) -> None:
    """A status that cannot be, or has key or name of a built-in one, is refused by its field."""
    for field, value, code in (
        ("key", "", "invalid_input"),
        ("key", "_a", "invalid_input"),
        ("key", "QA", "invalid_input"),
        ("key", "in-qa", "invalid_input"),
        ("key", "ä", "invalid_input"),
        ("key", "a" * 33, "invalid_input"),
        ("key", "done", "conflict"),
        ("name", "IN REVIEW", "conflict"),
        ("category", "open", "invalid_input"),
        ("category", "cancelled", "invalid_input"),
        ("color", "red", "invalid_input"),
        ("color", "#12345", "invalid_input"),
        ("color", "#123456;", "invalid_input"),
    ):
        command = made(world, **{field: value})
        assert await execute.refused(world.o, command, field=field) == code, (field, value)


async def test_a_key_is_taken_once(execute: Executor, world: World) -> None:
    """Of two statuses with one key one is a conflict for `key`, also when both come at once."""
    refusals = []

    async def make(name: str) -> None:
        try:
            await Executor(execute.database)(world.o, made(world, name=name))
        except WakefulError as error:
            refusals.append((error.code, error.details.get("field")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make, "One")
        nursery.start_soon(make, "Two")
    assert refusals == [("conflict", "key")]


async def test_a_name_is_taken_once_also_at_the_same_time(execute: Executor, world: World) -> None:
    """Of two statuses that get one name at once, one is refused."""
    refusals = []

    async def make(key: str) -> None:
        try:
            await Executor(execute.database)(world.o, made(world, key=key, name=key.upper()[:2]))
        except WakefulError as error:
            refusals.append((error.code, error.details.get("field")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make, "xy_one")
        nursery.start_soon(make, "xy_two")
    assert refusals == [("conflict", "name")]


async def test_a_category_never_changes(execute: Executor, world: World) -> None:
    """Another category is 400 and names the field; the one that it has is no change."""
    status = await execute(world.g, made(world))
    change = UpdateStatus(status_id=status.id, category="done", name="Renamed")
    assert await execute.refused(world.g, change, field="category") == "invalid_input"
    same = UpdateStatus(status_id=status.id, category="in_progress", color="#000000")
    view = await execute(world.g, same)
    assert (view.name, view.category, view.color) == ("In QA", "in_progress", "#000000")
    view = await execute(world.g, UpdateStatus(status_id=status.id, color=None))
    assert view.color is None


async def test_an_issue_has_a_status_of_its_workspace(execute: Executor, world: World) -> None:
    """A custom status is given on making and changing, and filters find it and its category."""
    await execute(world.g, made(world))
    issue = await execute(
        world.m, CreateIssue(workspace_id=world.workspace_id, title="Q", status="qa")
    )
    assert (issue.status, issue.category) == ("qa", "in_progress")
    view = await execute(world.m, UpdateIssue(issue_id=world.issue, status="qa"))
    assert (view.status, view.category) == ("qa", "in_progress")
    query = ListIssues(workspace_id=world.workspace_id)
    for filtered in (
        attrs.evolve(query, status="qa"),
        attrs.evolve(query, category="in_progress"),
    ):
        page = await execute(world.m, filtered)
        assert {each.id for each in page.items} == {issue.id, world.issue}


async def test_an_archived_status_stays_and_is_given_to_nobody(
    execute: Executor, world: World
) -> None:
    """An archived status stays on issues, which can still be changed; no other issue gets it."""
    status = await execute(world.g, made(world))
    await execute(world.m, UpdateIssue(issue_id=world.issue, status="qa"))
    await execute(world.g, ArchiveStatus(status_id=status.id))
    view = await execute(world.m, UpdateIssue(issue_id=world.issue, title="Other", status="qa"))
    assert (view.title, view.status, view.category) == ("Other", "qa", "in_progress")
    give = UpdateIssue(issue_id=world.other_issue, status="qa")
    make = CreateIssue(workspace_id=world.workspace_id, title="New", status="qa")
    for command in (give, make):
        assert await execute.refused(world.m, command, field="status") == "invalid_input"
    await execute(world.g, UnarchiveStatus(status_id=status.id))
    assert (await execute(world.m, give)).status == "qa"


async def test_a_status_of_another_workspace_is_none(execute: Executor, world: World) -> None:
    """A key that only another workspace knows is unknown."""
    await execute(world.s, CreateStatus(key="theirs", name="Theirs", category="done"))
    give = UpdateIssue(issue_id=world.issue, status="theirs")
    assert await execute.refused(world.m, give, field="status") == "invalid_input"


@pytest.mark.parametrize("category", ["done", "closed"])
async def test_a_custom_status_closes(
    execute: Executor, sql: Sql, world: World, category: str
) -> None:
    """W-186: a custom status of category done or closed switches rules off, like a built-in one."""
    await execute(world.g, made(world, category=category))
    await sql(RULE, world.workspace_id, world.issue, world.a, world.m.user_id)
    assign: dict[str, Any] = {"assignee_type": "agent", "assignee_id": world.a}
    await execute(world.m, UpdateIssue(issue_id=world.issue, status="qa", **assign))
    (rule,) = await sql("SELECT enabled, disabled_at FROM issue_wakeup")
    assert (rule["enabled"], rule["disabled_at"] is None) == (False, False)
    assert await sql("SELECT FROM agent_task_queue") == []


async def test_the_timeline_names_a_custom_status(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An entry has keys and names as they were: a later renaming leaves it alone."""
    status = await execute(world.g, made(world))
    await execute(world.m, UpdateIssue(issue_id=world.issue, status="qa"))
    await execute(world.g, UpdateStatus(status_id=status.id, name="Renamed"))
    (entry,) = await sql("SELECT details FROM activity_log WHERE action = 'issue_status_changed'")
    assert entry["details"] == {
        "previous_status": "todo",
        "previous_status_name": "Todo",
        "status": "qa",
        "status_name": "In QA",
    }
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).status == "qa"
