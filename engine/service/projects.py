"""Use cases of projects. Every member makes, changes and retires them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.catalogue import (
    ArchiveProject,
    CreateProject,
    GetProject,
    ListProjects,
    UnarchiveProject,
    UpdateProject,
)
from engine.domain.views import Page
from engine.domain.views.catalogue import ProjectView
from engine.errors import invalid
from engine.service import standing
from engine.service.catalogue import manage_entry, one_of_a_name, read_entry
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("projects")
_NAME_INDEX: Final = "project_workspace_name_idx"
_WHAT: Final = "project"


async def require(session: Session, workspace_id: UUID, project_id: UUID | None) -> None:
    """Check that an issue may get into this project now; else 400 for the field `project_id`."""
    if project_id is None:
        return
    is_archived = await session.fetchval(_sql.is_archived, project_id, workspace_id)
    if is_archived is None:
        raise invalid("project_id", "there is no such project in the workspace")
    if is_archived:
        raise invalid("project_id", "the project is archived")


@serves(ListProjects)
async def list_projects(work: Work, query: ListProjects) -> Page[ProjectView]:
    """Return the projects of a workspace."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session, _sql.list, workspace_id, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetProject)
async def get_project(work: Work, query: GetProject) -> ProjectView:
    """Return one project. Raises 404."""
    return await _read(work, query.project_id)


@serves(CreateProject)
async def create_project(work: Work, command: CreateProject) -> ProjectView:
    """Make a project. Raises 403 for a run, 404, 400 for a field, 409 for a taken name."""
    standing.require_person(work)
    place = await standing.stand_in(work, command.workspace_id)
    name = fields.line("name", command.name)
    description = _description(command.description)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        project_id: UUID = await work.session.fetchval(
            _sql.insert, place.workspace_id, name, description
        )
    return await _read(work, project_id)


@serves(UpdateProject)
async def update_project(work: Work, command: UpdateProject) -> ProjectView:
    """Change a project; what is not sent stays. Locks it NO KEY UPDATE. Raises as above."""
    row = await _manage(work, command.project_id)
    name, description = row["name"], row["description"]
    if command.name is not UNSET:
        name = fields.line("name", command.name)
    if command.description is not UNSET:
        description = _description(command.description)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        await work.session.execute(_sql.update, command.project_id, name, description)
    return await _read(work, command.project_id)


@serves(ArchiveProject)
async def archive_project(work: Work, command: ArchiveProject) -> ProjectView:
    """Retire a project: its issues stay in it, no other gets in. Locks and raises as above."""
    await _manage(work, command.project_id)
    await work.session.execute(_sql.archive, command.project_id)
    return await _read(work, command.project_id)


@serves(UnarchiveProject)
async def unarchive_project(work: Work, command: UnarchiveProject) -> ProjectView:
    """Take a retired project back. Locks and raises as above."""
    await _manage(work, command.project_id)
    await work.session.execute(_sql.unarchive, command.project_id)
    return await _read(work, command.project_id)


def _description(value: str) -> str:
    return fields.text("description", value, bytes_max=limits.DESCRIPTION_BYTES_MAX)


async def _manage(work: Work, project_id: UUID) -> Record:
    _, row = await manage_entry(work, _sql.get, _sql.lock, project_id, _WHAT)
    return row


async def _read(work: Work, project_id: UUID) -> ProjectView:
    return _view(await read_entry(work, _sql.get, project_id, _WHAT))


def _view(row: Record) -> ProjectView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(ProjectView)}
    return ProjectView(**values)
