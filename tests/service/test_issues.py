from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from engine.domain.commands.tracker import (
    ArchiveAgent,
    CreateComment,
    CreateIssue,
    DeleteIssue,
    FindIssue,
    GetIssue,
    ListIssues,
    ListTimeline,
    UpdateAgent,
    UpdateIssue,
)
from engine.errors import WakefulError
from tests.service.conftest import Executor, RunOf, Sql, World, runs_of

# --- Making, reading, finding -------------------------------------------------------------------


async def test_an_issue_has_what_was_sent_and_the_next_number(
    execute: Executor, world: World
) -> None:
    """An issue gets the next number of its workspace, what was sent, and defaults for the rest."""
    view = await execute(
        world.m,
        CreateIssue(
            workspace_id=world.workspace_id,
            title=" Ship it ",
            description="All of it.",
            priority="high",
            parent_id=world.issue,
            stage=2,
            start_date=date(2030, 1, 1),
            due_date=date(2030, 1, 31),
            metadata={"customer": {"tier": 1}},
        ),
    )
    assert (view.identifier, view.number, view.title) == ("WF-3", 3, "Ship it")
    assert (view.status, view.category, view.priority) == ("todo", "todo", "high")
    assert (view.creator_type, view.creator_id) == ("member", world.m.user_id)
    assert (view.parent_id, view.stage) == (world.issue, 2)
    assert (view.start_date, view.due_date) == (date(2030, 1, 1), date(2030, 1, 31))
    assert (view.assignee_type, view.assignee_id, view.project_id) == (None, None, None)
    assert (view.labels, view.properties, view.revision) == ((), {}, 1)
    assert view.metadata == {"customer": {"tier": 1}}
    assert await execute(world.n, GetIssue(issue_id=view.id)) == view


async def test_numbers_have_no_gaps_and_no_twins(execute: Executor, world: World) -> None:
    """Issues made at the same time, and one that failed, leave consecutive numbers."""

    async def make(title: str) -> None:
        writer = Executor(execute.database)
        await writer(world.m, CreateIssue(workspace_id=world.workspace_id, title=title))

    bad = CreateIssue(workspace_id=world.workspace_id, title="Bad", parent_id=UUID(int=1))
    assert await execute.refused(world.m, bad, field="parent_id") == "invalid_input"
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(make, f"Issue {number}")
    page = await execute(world.m, ListIssues(workspace_id=world.workspace_id))
    assert [view.number for view in page.items] == list(range(10, 0, -1))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("title", {"title": " "}),
        ("title", {"title": "x" * 501}),
        ("title", {"title": "nul\x00"}),
        ("description", {"description": "x" * 262_145}),
        ("status", {"status": "open"}),
        ("priority", {"priority": "highest"}),
        ("assignee_type", {"assignee_type": "team", "assignee_id": UUID(int=1)}),
        ("assignee_id", {"assignee_type": "squad", "assignee_id": UUID(int=1)}),
        ("assignee_id", {"assignee_type": "member"}),
        ("assignee_id", {"assignee_type": "member", "assignee_id": UUID(int=1)}),
        ("assignee_id", {"assignee_type": "agent", "assignee_id": UUID(int=1)}),
        ("parent_id", {"parent_id": UUID(int=1)}),
        ("stage", {"stage": 0}),
        ("stage", {"stage": 1001}),
        ("project_id", {"project_id": UUID(int=1)}),
        ("due_date", {"due_date": "2030-01-01"}),
        ("metadata", {"metadata": []}),
        ("metadata", {"metadata": {"a": ["\x00"]}}),
    ],
)
async def test_a_bad_field_is_named(
    execute: Executor, sql: Sql, world: World, field: str, values: dict[str, Any]
) -> None:
    """What an issue cannot have is refused on making and changing it, and nothing is changed."""
    made = CreateIssue(workspace_id=world.workspace_id, title="N")
    assert await execute.refused(world.m, attrs.evolve(made, **values), field=field) == (
        "invalid_input"
    )
    changed = attrs.evolve(UpdateIssue(issue_id=world.issue), **values)
    assert await execute.refused(world.m, changed, field=field) == "invalid_input"
    rows = await sql("SELECT DISTINCT revision FROM issue")
    assert [row["revision"] for row in rows] == [1]


async def test_an_issue_is_found_by_identifier_and_id(execute: Executor, world: World) -> None:
    """A path takes `WF-1`, in any case, or the id; neither finds what the caller cannot read."""
    workspace = world.workspace_id
    for ref in ("WF-1", "wf-1", str(world.issue)):
        assert await execute(world.m, FindIssue(workspace_id=workspace, ref=ref)) == world.issue
    for ref in ("WF-99", "XX-1", "WF-1000000000000", "WF", "", str(UUID(int=1)), "WF-1\x00"):
        command = FindIssue(workspace_id=workspace, ref=ref)
        assert await execute.refused(world.m, command) == "not_found"
    for ref in ("WF-1", str(world.issue)):
        command = FindIssue(workspace_id=workspace, ref=ref)
        assert await execute.refused(world.s, command) == "not_found"
        assert await execute.refused(world.daemon, command) == "not_allowed"


async def test_strangers_find_no_issue(
    execute: Executor, world: World, run_of: RunOf, sql: Sql
) -> None:
    """W-191, W-192: whoever is no member, and a run of another workspace, gets 404 everywhere."""
    run = attrs.evolve(
        await run_of(world.a, world.issue, world.m.user_id),
        workspace_id=next(iter(world.s.roles)),
    )
    for caller in (world.s, run):
        for command in (
            GetIssue(issue_id=world.issue),
            UpdateIssue(issue_id=world.issue, title="Mine"),
            DeleteIssue(issue_id=world.issue),
            CreateComment(issue_id=world.issue, body="hello"),
            ListTimeline(issue_id=world.issue),
        ):
            assert await execute.refused(caller, command) == "not_found"


# --- Lists --------------------------------------------------------------------------------------


def titles(items: Sequence[Any]) -> list[str]:
    return [item.title for item in items]


async def test_issues_are_listed_newest_first(execute: Executor, world: World) -> None:
    """Lists are newest first, in pages, with the total of the whole list."""
    query = ListIssues(workspace_id=world.workspace_id)
    page = await execute(world.m, query)
    assert (titles(page.items), page.total) == (["K", "I"], 2)
    page = await execute(world.m, attrs.evolve(query, limit=1, offset=1))
    assert (titles(page.items), page.total) == (["I"], 2)


async def test_filters_narrow_a_list(execute: Executor, world: World) -> None:
    """Each filter narrows: status, category, assignee, parent; together they all hold."""
    workspace = world.workspace_id
    assignee = world.n.user_id
    for title, values in (
        ("review", {"status": "in_review"}),
        ("done", {"status": "done", "parent_id": world.issue}),
        ("mine", {"assignee_type": "member", "assignee_id": assignee, "parent_id": world.issue}),
    ):
        command = CreateIssue(workspace_id=workspace, title=title)
        await execute(world.m, attrs.evolve(command, **values))
    query = ListIssues(workspace_id=workspace)
    for filters, found in (
        ({"status": "in_review"}, ["review"]),
        ({"status": "nothing"}, []),
        ({"category": "in_progress"}, ["review"]),
        ({"category": "done"}, ["done"]),
        ({"assignee": assignee}, ["mine"]),
        ({"parent": world.issue}, ["mine", "done"]),
        ({"parent": world.issue, "category": "todo"}, ["mine"]),
    ):
        page = await execute(world.m, attrs.evolve(query, **filters))
        assert (titles(page.items), page.total) == (found, len(found)), filters
    bad = attrs.evolve(query, category="open")
    assert await execute.refused(world.m, bad, field="category") == "invalid_input"


async def test_a_search_is_literal_and_ignores_case(execute: Executor, world: World) -> None:
    """A search finds its text as it is, in title, description and identifier, in any case."""
    workspace = world.workspace_id
    for title, description in (("50% off_now", ""), ("50 percent", r"C:\temp"), ("Straße", "")):
        await execute(
            world.m, CreateIssue(workspace_id=workspace, title=title, description=description)
        )
    for search, found in (
        ("50%", ["50% off_now"]),
        ("F_N", ["50% off_now"]),
        ("OFF", ["50% off_now"]),
        (r"c:\T", ["50 percent"]),
        ("straß", ["Straße"]),
        ("wf-3", ["50% off_now"]),
        ("%", ["50% off_now"]),
        (" ", ["Straße", "50 percent", "50% off_now", "K", "I"]),
    ):
        page = await execute(world.m, ListIssues(workspace_id=workspace, search=search))
        assert titles(page.items) == found, search


# --- Changing -----------------------------------------------------------------------------------


async def test_only_what_is_sent_changes(execute: Executor, world: World) -> None:
    """What is not sent stays, null takes away, and sending the same again changes nothing."""
    first = await execute(
        world.m,
        UpdateIssue(
            issue_id=world.issue, stage=3, due_date=date(2030, 1, 1), metadata={"a": 1, "b": True}
        ),
    )
    assert (first.title, first.stage, first.revision) == ("I", 3, 2)
    second = await execute(
        world.m,
        UpdateIssue(issue_id=world.issue, stage=None, metadata={"a": True, "b": True}),
    )
    assert (second.stage, second.due_date, second.revision) == (None, date(2030, 1, 1), 3)
    assert second.metadata["a"] is True
    third = await execute(world.m, UpdateIssue(issue_id=world.issue, title="I", stage=None))
    assert third == second


async def test_what_somebody_else_stored_does_not_hold_up_the_rest(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An issue whose status no workspace knows can still be renamed, and gets a known one."""
    await sql("UPDATE issue SET status = 'strange' WHERE id = $1", world.issue)
    view = await execute(world.m, UpdateIssue(issue_id=world.issue, title="Renamed"))
    assert (view.title, view.status, view.category) == ("Renamed", "strange", None)
    view = await execute(world.m, UpdateIssue(issue_id=world.issue, status="blocked"))
    assert (view.status, view.category) == ("blocked", "in_progress")


async def test_an_assignee_is_taken_away_by_either_half(execute: Executor, world: World) -> None:
    """Type and id of an assignee go together: nulling one nulls the other, half of one is 400."""
    assign = UpdateIssue(issue_id=world.issue, assignee_type="member", assignee_id=world.n.user_id)
    nothing = UpdateIssue(issue_id=world.issue)
    halves: list[dict[str, Any]] = [{"assignee_type": None}, {"assignee_id": None}]
    for half in halves:
        await execute(world.m, assign)
        view = await execute(world.m, attrs.evolve(nothing, **half))
        assert (view.assignee_type, view.assignee_id) == (None, None)
    alone = attrs.evolve(nothing, assignee_id=world.n.user_id)
    assert await execute.refused(world.m, alone, field="assignee_type") == "invalid_input"


async def test_an_issue_is_never_below_itself(execute: Executor, world: World) -> None:
    """Sub-issues form a tree: no issue becomes its own ancestor, not even by two moves at once."""
    move = UpdateIssue(issue_id=world.issue, parent_id=world.issue)
    assert await execute.refused(world.m, move, field="parent_id") == "invalid_input"
    refusals = []

    async def put(child: UUID, parent: UUID) -> None:
        try:
            writer = Executor(execute.database)
            await writer(world.m, UpdateIssue(issue_id=child, parent_id=parent))
        except WakefulError as error:
            refusals.append(error.details.get("field"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put, world.issue, world.other_issue)
        nursery.start_soon(put, world.other_issue, world.issue)
    assert refusals == ["parent_id"]


async def test_issues_nest_only_so_deep(execute: Executor, world: World) -> None:
    """The way up from an issue has at most 64 steps; a parent further down is refused."""
    parent = world.issue
    for _ in range(64):
        command = CreateIssue(workspace_id=world.workspace_id, title="Below", parent_id=parent)
        parent = (await execute(world.m, command)).id
    command = CreateIssue(workspace_id=world.workspace_id, title="Below", parent_id=parent)
    assert await execute.refused(world.m, command, field="parent_id") == "invalid_input"


# --- Assignments --------------------------------------------------------------------------------


async def test_an_assignment_to_an_agent_queues_a_run(
    execute: Executor, sql: Sql, world: World
) -> None:
    """Assigning an issue to an agent, new or old, queues one run with the person's authority."""
    made = await execute(
        world.m,
        CreateIssue(
            workspace_id=world.workspace_id, title="New", assignee_type="agent", assignee_id=world.a
        ),
    )
    assert execute.work is not None
    assert execute.work.runtimes == {world.runtime_id}
    assign = UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.a)
    await execute(world.m, assign)
    await execute(world.m, assign)
    for issue_id in (made.id, world.issue):
        (run,) = await runs_of(sql, issue_id)
        assert (run["agent_id"], run["status"]) == (world.a, "queued")
        assert run["originator_user_id"] == world.m.user_id
        assert run["originator_source"] == "direct_human"
        assert run["context"]["reason"] == "assignment"
        assert run["delegated_from_task_id"] is None


async def test_who_cannot_work_gets_no_run(execute: Executor, sql: Sql, world: World) -> None:
    """No run: an agent without runtime, a closed issue, a person; an archived agent is refused."""
    await execute(world.o, UpdateAgent(agent_id=world.b, runtime_id=None))
    command = UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.b)
    assert (await execute(world.m, command)).assignee_id == world.b
    await execute(
        world.m,
        UpdateIssue(
            issue_id=world.issue, status="done", assignee_type="agent", assignee_id=world.a
        ),
    )
    await execute(
        world.m,
        UpdateIssue(
            issue_id=world.other_issue, assignee_type="member", assignee_id=world.n.user_id
        ),
    )
    assert await sql("SELECT FROM agent_task_queue") == []
    await execute(world.o, ArchiveAgent(agent_id=world.a))
    command = UpdateIssue(issue_id=world.other_issue, assignee_type="agent", assignee_id=world.a)
    assert await execute.refused(world.m, command, field="assignee_id") == "agent_unavailable"


async def test_a_private_agent_is_assigned_by_whom_it_admits(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-012: to others a private agent is no agent; assigned by its owner it gets its run."""
    command = UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.p)
    for caller in (world.m, world.g):
        assert await execute.refused(caller, command, field="assignee_id") == "invalid_input"
    await execute(world.o, command)
    assert [run["agent_id"] for run in await runs_of(sql, world.issue)] == [world.p]


async def test_an_agent_delegates_with_the_authority_of_its_person(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """A run assigns in its person's name; without a person, or to itself, it calls nobody."""
    caller = await run_of(world.a, world.issue, world.m.user_id)
    made = await execute(
        caller, CreateIssue(title="Part", assignee_type="agent", assignee_id=world.b)
    )
    assert (made.creator_type, made.creator_id) == ("agent", world.a)
    (run,) = await runs_of(sql, made.id)
    assert run["originator_user_id"] == world.m.user_id
    assert run["originator_source"] == "delegation"
    assert run["delegated_from_task_id"] == caller.run_id
    await execute(
        caller, UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.a)
    )
    assert [run["id"] for run in await runs_of(sql, world.issue)] == [caller.run_id]
    orphan = await run_of(world.b, world.other_issue, None)
    await execute(
        orphan,
        UpdateIssue(issue_id=world.other_issue, assignee_type="agent", assignee_id=world.a),
    )
    assert [run["id"] for run in await runs_of(sql, world.other_issue)] == [orphan.run_id]
