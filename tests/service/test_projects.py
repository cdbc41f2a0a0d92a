from __future__ import annotations

from uuid import UUID

import attrs

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.catalogue import (
    ArchiveProject,
    CreateProject,
    UnarchiveProject,
    UpdateProject,
)
from engine.domain.commands.tracker import CreateIssue, GetIssue, ListIssues, UpdateIssue
from engine.domain.views.catalogue import ProjectView
from tests.service.conftest import Executor, RunOf, Sql, World


async def project_of(execute: Executor, world: World, name: str) -> ProjectView:
    view = await execute(world.m, CreateProject(workspace_id=world.workspace_id, name=name))
    assert isinstance(view, ProjectView)
    return view


async def test_a_description_is_a_text(execute: Executor, world: World) -> None:
    """A project has a description of up to 262,144 bytes; a longer or broken one is refused."""
    project = await project_of(execute, world, "P")
    assert project.description == ""
    changed = await execute(world.n, UpdateProject(project_id=project.id, description=" Why. "))
    assert (changed.name, changed.description) == ("P", " Why. ")
    for description in ("x" * 262_145, "nul\x00"):
        for command in (
            CreateProject(workspace_id=world.workspace_id, name="N", description=description),
            UpdateProject(project_id=project.id, description=description),
        ):
            assert await execute.refused(world.m, command, field="description") == "invalid_input"


async def test_issues_are_in_projects(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """An issue is made in a project, moved, by a run too, and taken out; lists are filtered."""
    first, second = [await project_of(execute, world, name) for name in ("P", "Q")]
    make = CreateIssue(workspace_id=world.workspace_id, title="In", project_id=first.id)
    issue = await execute(world.m, make)
    assert issue.project_id == first.id
    run = await run_of(world.a, world.issue, world.m.user_id)
    await execute(run, UpdateIssue(issue_id=world.issue, project_id=first.id))
    query = ListIssues(workspace_id=world.workspace_id, project=first.id)
    assert {each.id for each in (await execute(world.n, query)).items} == {issue.id, world.issue}
    moved = await execute(world.m, UpdateIssue(issue_id=issue.id, project_id=second.id))
    assert (moved.project_id, moved.revision) == (second.id, 2)
    same = await execute(world.m, UpdateIssue(issue_id=issue.id, project_id=second.id))
    assert same == moved
    out = await execute(world.m, UpdateIssue(issue_id=issue.id, project_id=None))
    assert out.project_id is None
    entries = await sql(
        "SELECT details FROM activity_log WHERE action = 'issue_updated' AND issue_id = $1",
        issue.id,
    )
    assert [each["details"] for each in entries] == 2 * [{"changed_fields": ["project_id"]}]


async def test_an_archived_project_keeps_its_issues(execute: Executor, world: World) -> None:
    """Issues stay in an archived project and are changed there; no other issue gets in."""
    project = await project_of(execute, world, "P")
    await execute(world.m, UpdateIssue(issue_id=world.issue, project_id=project.id))
    await execute(world.m, ArchiveProject(project_id=project.id))
    view = await execute(
        world.m, UpdateIssue(issue_id=world.issue, project_id=project.id, title="T")
    )
    assert (view.title, view.project_id) == ("T", project.id)
    move = UpdateIssue(issue_id=world.other_issue, project_id=project.id)
    make = CreateIssue(workspace_id=world.workspace_id, title="N", project_id=project.id)
    for command in (move, make):
        assert await execute.refused(world.m, command, field="project_id") == "invalid_input"
    await execute(world.m, UnarchiveProject(project_id=project.id))
    assert (await execute(world.m, move)).project_id == project.id


async def test_a_project_of_another_workspace_is_none(execute: Executor, world: World) -> None:
    """W-191: the id of another workspace's project is as good as none."""
    foreign = await execute(world.s, CreateProject(name="Theirs"))
    for project_id in (foreign.id, UUID(int=1)):
        move = UpdateIssue(issue_id=world.issue, project_id=project_id)
        assert await execute.refused(world.m, move, field="project_id") == "invalid_input"
    query = ListIssues(workspace_id=world.workspace_id)
    assert (await execute(world.m, attrs.evolve(query, project=foreign.id))).items == ()
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).project_id is None
