"""Use cases of statuses. Everybody reads them, owners and admins change those of the workspace."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain import fields, statuses
from engine.domain.commands import UNSET
from engine.domain.commands.catalogue import (
    ArchiveStatus,
    CreateStatus,
    GetStatus,
    ListStatuses,
    UnarchiveStatus,
    UpdateStatus,
)
from engine.domain.statuses import BUILT_IN, CATEGORIES, Status
from engine.domain.views import Page
from engine.domain.views.catalogue import StatusView
from engine.errors import WakefulError, invalid, not_found
from engine.service import standing
from engine.service.catalogue import one_of_a_name, read_entry
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("statuses")
_KEY_INDEX: Final = "issue_status_workspace_id_key_key"
_WHAT: Final = "status"


async def find(session: Session, workspace_id: UUID, key: str) -> Status | None:
    """Return the status with this key that the workspace knows, archived or not."""
    if (built_in := BUILT_IN.get(key)) is not None:
        return built_in
    row = await session.fetchrow(_sql.by_key, workspace_id, key)
    return None if row is None else Status(**dict(row.items()))


async def require(session: Session, workspace_id: UUID, key: str) -> Status:
    """Return a status that an issue may get now; else 400 for the field `status`."""
    found = await find(session, workspace_id, key)
    if found is None:
        raise invalid("status", "the workspace has no such status")
    if found.is_archived:
        raise invalid("status", "the status is archived")
    return found


@serves(ListStatuses)
async def list_statuses(work: Work, query: ListStatuses) -> Page[StatusView]:
    """Return the statuses of a workspace: the seven built-in ones first."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session,
        _sql.list,
        workspace_id,
        list(BUILT_IN),
        [each.name for each in BUILT_IN.values()],
        [each.category for each in BUILT_IN.values()],
        limit=query.limit,
        offset=query.offset,
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetStatus)
async def get_status(work: Work, query: GetStatus) -> StatusView:
    """Return one status of the workspace's own. Raises 404."""
    return _view(await read_entry(work, _sql.get, query.status_id, _WHAT))


@serves(CreateStatus)
async def create_status(work: Work, command: CreateStatus) -> StatusView:
    """Make a status. Locks the workspace NO KEY UPDATE.

    Raises 403 for anybody but an owner or admin, 404, 400 for a field, and 409 for a key or a name
    that another status has, a built-in one included.
    """
    standing.require_person(work)
    workspace_id = standing.read_workspace(work, command.workspace_id)
    await _stand(work, workspace_id)
    key = statuses.new_key("key", command.key)
    name = await _free_name(work.session, workspace_id, command.name, None)
    category = fields.choice("category", command.category, CATEGORIES)
    color = fields.color("color", command.color)
    with one_of_a_name(_KEY_INDEX, _WHAT, "key"):
        status_id: UUID = await work.session.fetchval(
            _sql.insert, workspace_id, key, name, category, color
        )
    return await _read(work, status_id)


@serves(UpdateStatus)
async def update_status(work: Work, command: UpdateStatus) -> StatusView:
    """Change name and colour of a status. Locks and raises as above.

    Its category never changes: issues have been closed, or not, because of it (400).
    """
    workspace_id, row = await _manage(work, command.status_id)
    if command.category is not UNSET and command.category != row["category"]:
        raise invalid("category", "the category of a status never changes; make another status")
    name, color = row["name"], row["color"]
    if command.name is not UNSET:
        name = await _free_name(work.session, workspace_id, command.name, command.status_id)
    if command.color is not UNSET:
        color = fields.color("color", command.color)
    await work.session.execute(_sql.update, command.status_id, name, color)
    return await _read(work, command.status_id)


@serves(ArchiveStatus)
async def archive_status(work: Work, command: ArchiveStatus) -> StatusView:
    """Retire a status: issues keep it, none gets it any more. Locks and raises as above."""
    await _manage(work, command.status_id)
    await work.session.execute(_sql.archive, command.status_id)
    return await _read(work, command.status_id)


@serves(UnarchiveStatus)
async def unarchive_status(work: Work, command: UnarchiveStatus) -> StatusView:
    """Take a retired status back. Locks and raises as above."""
    await _manage(work, command.status_id)
    await work.session.execute(_sql.unarchive, command.status_id)
    return await _read(work, command.status_id)


async def _stand(work: Work, workspace_id: UUID) -> None:
    """Lock the workspace of a change, and check that an owner or admin makes it."""
    await work.session.execute(_sql.lock_workspace, workspace_id)
    standing.require_administrator(await standing.stand_in(work, workspace_id))


async def _manage(work: Work, status_id: UUID) -> tuple[UUID, Record]:
    """Return the workspace of a status and its row, both locked NO KEY UPDATE."""
    standing.require_person(work)
    workspace_id: UUID = (await read_entry(work, _sql.get, status_id, _WHAT))["workspace_id"]
    await _stand(work, workspace_id)
    row = await work.session.fetchrow(_sql.lock, status_id)
    if row is None:
        raise not_found(_WHAT)
    return workspace_id, row


async def _free_name(
    session: Session, workspace_id: UUID, name: str, status_id: UUID | None
) -> str:
    checked = statuses.new_name("name", name)
    if await session.fetchval(_sql.has_name, workspace_id, checked, status_id):
        raise WakefulError("conflict", "another status has this name", field="name")
    return checked


async def _read(work: Work, status_id: UUID) -> StatusView:
    return _view(await read_entry(work, _sql.get, status_id, _WHAT))


def _view(row: Record) -> StatusView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(StatusView)}
    return StatusView(**values)
