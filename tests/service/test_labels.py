from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import trio

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.catalogue import CreateLabel, DeleteLabel, UpdateLabel
from engine.domain.commands.tracker import (
    AttachLabel,
    DeleteIssue,
    DetachLabel,
    GetIssue,
    ListIssues,
)
from engine.domain.views.catalogue import LabelView
from engine.errors import WakefulError
from engine.storage.database import Record
from tests.service.conftest import Executor, RunOf, Sql, World


async def label_of(execute: Executor, world: World, name: str, **fields: Any) -> LabelView:
    command = CreateLabel(workspace_id=world.workspace_id, name=name, **fields)
    view = await execute(world.m, command)
    assert isinstance(view, LabelView)
    return view


async def told(sql: Sql) -> list[Record]:
    """Return what timelines say of labels, oldest first."""
    return await sql(
        "SELECT * FROM activity_log WHERE action LIKE 'issue_label%' ORDER BY created_at, id"
    )


async def test_a_colour_is_one(execute: Executor, world: World) -> None:
    """A colour is #rrggbb in any case, or none; anything else is refused by its field."""
    label = await label_of(execute, world, "Bug", color="#FF0000")
    assert label.color == "#ff0000"
    assert (await execute(world.m, UpdateLabel(label_id=label.id, name="Bugs"))).color == "#ff0000"
    assert (await execute(world.m, UpdateLabel(label_id=label.id, color=None))).color is None
    for color in ("", "red", "#fff", "#gggggg", "url(x)", "#123456\n", "nul\x00"):
        for command in (
            CreateLabel(workspace_id=world.workspace_id, name="N", color=color),
            UpdateLabel(label_id=label.id, color=color),
        ):
            assert await execute.refused(world.m, command, field="color") == "invalid_input"


async def test_an_issue_shows_its_labels(execute: Executor, world: World) -> None:
    """Labels stand on their issue by name, as they are now, and lists are filtered by them."""
    zebra, apple = [await label_of(execute, world, name) for name in ("Zebra", "apple")]
    for label in (zebra, apple):
        await execute(world.n, AttachLabel(issue_id=world.issue, label_id=label.id))
    await execute(world.m, UpdateLabel(label_id=zebra.id, name="Zoo", color="#000000"))
    view = await execute(world.n, GetIssue(issue_id=world.issue))
    assert [attrs.astuple(each) for each in view.labels] == [
        (apple.id, "apple", None),
        (zebra.id, "Zoo", "#000000"),
    ]
    page = await execute(world.n, ListIssues(workspace_id=world.workspace_id, label=zebra.id))
    assert (page.items, page.total) == ((view,), 1)
    await execute(world.n, DetachLabel(issue_id=world.issue, label_id=zebra.id))
    assert (await execute(world.n, ListIssues(label=zebra.id))).items == ()
    view = await execute(world.n, GetIssue(issue_id=world.issue))
    assert [each.name for each in view.labels] == ["apple"]


async def test_once_more_changes_nothing(execute: Executor, sql: Sql, world: World) -> None:
    """W-043: attaching or detaching a label again is no error, no entry, and no new revision."""
    label = await label_of(execute, world, "Bug")
    for command in (AttachLabel, AttachLabel, DetachLabel, DetachLabel):
        await execute(world.m, command(issue_id=world.issue, label_id=label.id))
    details = {"label_id": str(label.id), "name": "Bug"}
    assert [(each["action"], each["actor_id"], each["details"]) for each in await told(sql)] == [
        ("issue_label_added", world.m.user_id, details),
        ("issue_label_removed", world.m.user_id, details),
    ]
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).revision == 1


async def test_a_run_labels_as_its_agent(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-193: what a run does with a label is its agent's doing."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    label = await execute(run, CreateLabel(name="Found by A"))
    await execute(run, AttachLabel(issue_id=world.issue, label_id=label.id))
    (entry,) = await told(sql)
    assert (entry["actor_type"], entry["actor_id"]) == ("agent", world.a)


async def test_what_is_not_there_is_not_found(execute: Executor, world: World) -> None:
    """W-191: an issue, or a label, of another workspace is 404, for strangers and for members."""
    label = await label_of(execute, world, "Bug")
    foreign = await execute(world.s, CreateLabel(name="Theirs"))
    for caller, issue_id, label_id in (
        (world.s, world.issue, label.id),
        (world.s, world.issue, foreign.id),
        (world.m, world.issue, foreign.id),
        (world.m, world.issue, UUID(int=1)),
        (world.m, UUID(int=1), label.id),
    ):
        for command in (AttachLabel, DetachLabel):
            about = command(issue_id=issue_id, label_id=label_id)
            assert await execute.refused(caller, about) == "not_found"


async def test_an_issue_has_only_so_many_labels(execute: Executor, sql: Sql, world: World) -> None:
    """The 101st label of an issue is refused; one that it has already is not."""
    rows = await sql(
        "WITH made AS (INSERT INTO issue_label (workspace_id, name)"
        " SELECT $1, 'L' || n FROM generate_series(1, 100) n RETURNING id)"
        " INSERT INTO issue_to_label (issue_id, label_id) SELECT $2, id FROM made"
        " RETURNING label_id",
        world.workspace_id,
        world.issue,
    )
    label = await label_of(execute, world, "One more")
    command = AttachLabel(issue_id=world.issue, label_id=label.id)
    assert await execute.refused(world.m, command, field="label_id") == "invalid_input"
    await execute(world.m, attrs.evolve(command, label_id=rows[0]["label_id"]))
    assert len((await execute(world.m, GetIssue(issue_id=world.issue))).labels) == 100


async def test_a_deleted_label_leaves_every_issue(
    execute: Executor, sql: Sql, world: World
) -> None:
    """A label goes from all issues that have it, each timeline says so, and its name is free."""
    label = await label_of(execute, world, "Bug")
    for issue_id in (world.issue, world.other_issue):
        await execute(world.m, AttachLabel(issue_id=issue_id, label_id=label.id))
    await execute(world.n, DeleteLabel(label_id=label.id))
    assert await sql("SELECT FROM issue_to_label") == []
    removed = [each for each in await told(sql) if each["action"] == "issue_label_removed"]
    assert {each["issue_id"] for each in removed} == {world.issue, world.other_issue}
    assert {each["actor_id"] for each in removed} == {world.n.user_id}
    assert [each["details"] for each in removed] == 2 * [{"label_id": str(label.id), "name": "Bug"}]
    assert await execute.refused(world.m, DeleteLabel(label_id=label.id)) == "not_found"
    await label_of(execute, world, "bug")


async def test_labels_and_issues_go_while_others_attach(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-190: labels and issues deleted beside attaching writers leave no link, and never a 500."""
    labels = [await label_of(execute, world, f"L{number}") for number in range(3)]
    issues = (world.issue, world.other_issue)
    codes: set[str] = set()
    attached = trio.Event()

    async def attach() -> None:
        for _ in range(4):
            for issue_id in issues:
                for label in labels:
                    await _try(AttachLabel(issue_id=issue_id, label_id=label.id))
                    attached.set()
                    await _try(DetachLabel(issue_id=issue_id, label_id=label.id))

    async def _try(command: Any) -> None:
        try:
            await Executor(execute.database)(world.m, command)
        except WakefulError as error:
            codes.add(error.code)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(attach)
        await attached.wait()
        for label in labels[:2]:
            nursery.start_soon(_try, DeleteLabel(label_id=label.id))
        nursery.start_soon(_try, DeleteIssue(issue_id=world.issue))
    assert codes == {"not_found"}
    assert await sql("SELECT FROM issue_to_label WHERE issue_id = $1", world.issue) == []
    assert len(await sql("SELECT FROM issue_label")) == 1
