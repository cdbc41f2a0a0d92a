"""Every change of an issue's status, assignee, project, labels, properties and metadata is a fact.

The facts are written by triggers; here the use cases are the writers, and rules of agent B hear.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands import Command
from engine.domain.commands.catalogue import (
    CreateLabel,
    CreateProject,
    CreateProperty,
    CreateSquad,
    CreateStatus,
    DeleteLabel,
)
from engine.domain.commands.tracker import (
    AttachLabel,
    ClearProperty,
    DetachLabel,
    PatchMetadata,
    SetProperty,
    UpdateIssue,
)
from engine.domain.principal import Principal
from tests.service.conftest import Executor, RunOf, Sql, World

RULE = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous', $5)"
)
SECRET = "marker-of-a-value"


async def listen(sql: Sql, world: World, *event_types: str, issue_id: UUID | None = None) -> None:
    """Leave a continuous rule for these types, on issue I unless told otherwise."""
    place = (world.workspace_id, issue_id or world.issue, world.b, world.m.user_id)
    await sql(RULE, *place, list(event_types))


async def heard(sql: Sql, event_type: str) -> list[dict[str, Any]]:
    """Return what was heard of a type, oldest receipt first."""
    rows = await sql(
        "SELECT payload FROM issue_wakeup_receipt WHERE event_type = $1 ORDER BY seq", event_type
    )
    return [row["payload"] for row in rows]


async def twice(
    execute: Executor, sql: Sql, caller: Principal, command: Command, event_types: Sequence[str]
) -> list[dict[str, Any]]:
    """Make one change twice and return the newest fact of each type; the repeat adds none.

    Each fact must name the caller, as who it is and with its run.
    """
    counts = await sql("SELECT coalesce(sum((payload->'coalesced_count')::int), 0) AS facts"
                       " FROM issue_wakeup_receipt")  # fmt: skip
    await execute(caller, command)
    facts = [(await heard(sql, event_type))[-1] for event_type in event_types]
    for fact in facts:
        assert (fact["actor_type"], fact["actor_id"]) == (caller.actor_type, str(caller.actor_id))
        assert fact["source_task_id"] == (str(caller.run_id) if caller.run_id else None)
        assert fact["agent_id"] == (str(caller.agent_id) if caller.agent_id else None)
    stored = await sql("SELECT id, payload FROM issue_wakeup_receipt ORDER BY seq")
    assert sum(row["payload"]["coalesced_count"] for row in stored) == (
        counts[0]["facts"] + len(event_types)
    )
    await execute(caller, command)
    assert await sql("SELECT id, payload FROM issue_wakeup_receipt ORDER BY seq") == stored
    return facts


async def test_a_label_is_heard(execute: Executor, sql: Sql, world: World, run_of: RunOf) -> None:
    """W-043, W-044: attaching and detaching tell label and action, by a person and by a run."""
    await listen(sql, world, "issue.labels_changed")
    label = await execute(world.m, CreateLabel(workspace_id=world.workspace_id, name="Bug"))
    run = await run_of(world.a, world.issue, world.m.user_id)
    told = partial(twice, execute, sql, event_types=("issue.labels_changed",))
    about = {"issue_id": world.issue, "label_id": label.id}
    for caller in (world.n, run):
        (fact,) = await told(caller, AttachLabel(**about))
        assert (fact["label_id"], fact["action"]) == (str(label.id), "added")
        (fact,) = await told(caller, DetachLabel(**about))
        assert (fact["label_id"], fact["action"]) == (str(label.id), "removed")


async def test_a_deleted_label_is_heard_on_each_issue(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-044: with a label goes one fact to the rule of every issue that had it."""
    label = await execute(world.m, CreateLabel(workspace_id=world.workspace_id, name="Bug"))
    for issue_id in (world.issue, world.other_issue):
        await execute(world.m, AttachLabel(issue_id=issue_id, label_id=label.id))
        await listen(sql, world, "issue.labels_changed", issue_id=issue_id)
    await execute(world.n, DeleteLabel(label_id=label.id))
    facts = await heard(sql, "issue.labels_changed")
    assert {fact["issue_id"] for fact in facts} == {str(world.issue), str(world.other_issue)}
    assert set(execute.opened) == {world.issue, world.other_issue}
    for fact in facts:
        assert (fact["action"], fact["actor_id"]) == ("removed", str(world.n.user_id))


async def test_a_property_is_heard_without_its_value(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-043, W-044: setting and clearing tell the property's key; its value is nowhere."""
    types = ("issue.updated", "issue.properties_changed")
    await listen(sql, world, *types)
    prop = await execute(world.m, CreateProperty(workspace_id=world.workspace_id, name="Note"))
    run = await run_of(world.a, world.issue, world.m.user_id)
    about: dict[str, Any] = {"issue_id": world.issue, "property_id": prop.id}
    for caller, command in (
        (world.n, SetProperty(**about, value=SECRET)),
        (run, ClearProperty(**about)),
    ):
        updated, changed = await twice(execute, sql, caller, command, types)
        assert updated["changed_fields"] == ["properties"]
        assert changed["changed_fields"] == [str(prop.id)]
    rows = await sql("SELECT x::text AS row FROM issue_wakeup_receipt x")
    assert all(SECRET not in row["row"] for row in rows)


async def test_metadata_are_heard_without_their_values(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-043, W-044: a merge patch, and a PATCH of the issue, tell the keys that changed."""
    types = ("issue.updated", "issue.metadata_changed")
    await listen(sql, world, *types)
    run = await run_of(world.a, world.issue, world.m.user_id)
    for caller, command, keys in (
        (world.n, PatchMetadata(issue_id=world.issue, patch={"b": SECRET, "a": 1}), ["a", "b"]),
        (run, PatchMetadata(issue_id=world.issue, patch={"a": None, "c": {}}), ["a", "c"]),
        (world.n, UpdateIssue(issue_id=world.issue, metadata={"c": {}}), ["b"]),
    ):
        updated, changed = await twice(execute, sql, caller, command, types)
        assert updated["changed_fields"] == ["metadata"]
        assert changed["changed_fields"] == keys
    rows = await sql("SELECT x::text AS row FROM issue_wakeup_receipt x")
    assert all(SECRET not in row["row"] for row in rows)


async def test_a_project_is_heard(execute: Executor, sql: Sql, world: World, run_of: RunOf) -> None:
    """W-043, W-044: a move to a project and out of it tells both ends."""
    types = ("issue.updated", "issue.project_changed")
    await listen(sql, world, *types)
    project = await execute(world.m, CreateProject(workspace_id=world.workspace_id, name="Ark"))
    run = await run_of(world.a, world.issue, world.m.user_id)
    for caller, before, after in ((world.n, None, project.id), (run, project.id, None)):
        command = UpdateIssue(issue_id=world.issue, project_id=after)
        updated, changed = await twice(execute, sql, caller, command, types)
        assert updated["changed_fields"] == ["project_id"]
        ends = (changed["previous_project_id"], changed["project_id"])
        assert ends == tuple(None if each is None else str(each) for each in (before, after))


async def test_a_custom_status_is_heard_with_its_category(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-043, W-044: a status of the workspace is told by key and category, like a built-in one."""
    types = ("issue.updated", "issue.status_changed")
    await listen(sql, world, *types)
    await execute(
        world.o,
        CreateStatus(
            workspace_id=world.workspace_id, key="qa", name="In QA", category="in_progress"
        ),
    )
    command = UpdateIssue(issue_id=world.issue, status="qa")
    updated, changed = await twice(execute, sql, world.n, command, types)
    assert updated["changed_fields"] == ["status"]
    assert updated["event_id"].partition(":")[0] == changed["event_id"].partition(":")[0]
    assert (changed["status"], changed["category"]) == ("qa", "in_progress")
    assert (changed["previous_status"], changed["previous_category"]) == ("todo", "todo")


async def test_a_squad_is_heard_as_assignee(execute: Executor, sql: Sql, world: World) -> None:
    """W-043, W-044: an assignment to a squad tells the squad; its leader's run is queued once."""
    types = ("issue.updated", "issue.assignee_changed", "task.queued")
    await listen(sql, world, *types)
    squad = await execute(
        world.m, CreateSquad(workspace_id=world.workspace_id, name="Ops", leader_id=world.a)
    )
    command = UpdateIssue(issue_id=world.issue, assignee_type="squad", assignee_id=squad.id)
    await execute(world.n, command)
    (updated,), (changed,), (queued,) = [await heard(sql, each) for each in types]
    assert updated["changed_fields"] == ["assignee_id", "assignee_type"]
    assert (changed["assignee_type"], changed["assignee_id"]) == ("squad", str(squad.id))
    assert (changed["previous_assignee_type"], changed["previous_assignee_id"]) == (None, None)
    assert changed["actor_id"] == str(world.n.user_id)
    assert queued["agent_id"] == str(world.a)
    await execute(world.n, command)
    assert [len(await heard(sql, each)) for each in types] == [1, 1, 1]
    assert {(await heard(sql, each))[0]["coalesced_count"] for each in types} == {1}


async def test_one_change_tells_each_of_its_parts(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-044: one PATCH of several fields is one update with sorted names, and a fact a part."""
    types = (
        "issue.updated",
        "issue.assignee_changed",
        "issue.metadata_changed",
        "issue.parent_changed",
        "issue.project_changed",
    )
    await listen(sql, world, *types)
    project = await execute(world.m, CreateProject(workspace_id=world.workspace_id, name="Ark"))
    command = UpdateIssue(
        issue_id=world.issue,
        title="Other",
        priority="high",
        stage=2,
        project_id=project.id,
        parent_id=world.other_issue,
        assignee_type="member",
        assignee_id=world.n.user_id,
        metadata={"a": 1},
    )
    facts = await twice(execute, sql, world.g, command, types)
    assert facts[0]["changed_fields"] == [
        "assignee_id", "assignee_type", "metadata", "parent_issue_id", "priority", "project_id",
        "stage", "title",
    ]  # fmt: skip
    assert len({fact["event_id"].partition(":")[0] for fact in facts}) == 1
