"""Use cases of properties: the catalogue of a workspace, and the values on its issues.

Every member makes, changes and retires them. A value is judged by its property as it is now; what
was stored before stays, also when its option has gone or the property is archived.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.catalogue import (
    ArchiveProperty,
    CreateProperty,
    GetProperty,
    ListProperties,
    UnarchiveProperty,
    UpdateProperty,
)
from engine.domain.commands.tracker import ClearProperty, SetProperty
from engine.domain.properties import PropertyType, checked_config, checked_value, parse_type
from engine.domain.views import Page
from engine.domain.views.catalogue import PropertyView
from engine.errors import invalid, not_found
from engine.service import standing, timeline
from engine.service.catalogue import manage_entry, one_of_a_name, read_entry
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("properties")
_issues: Final = queries.load("issues")
_NAME_INDEX: Final = "issue_property_workspace_name_idx"
_WHAT: Final = "property"


@serves(ListProperties)
async def list_properties(work: Work, query: ListProperties) -> Page[PropertyView]:
    """Return the properties of a workspace."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session, _sql.list, workspace_id, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetProperty)
async def get_property(work: Work, query: GetProperty) -> PropertyView:
    """Return one property. Raises 404."""
    return await _read(work, query.property_id)


@serves(CreateProperty)
async def create_property(work: Work, command: CreateProperty) -> PropertyView:
    """Make a property. Raises 403 for a run, 404, 400 for a field, 409 for a taken name."""
    standing.require_person(work)
    place = await standing.stand_in(work, command.workspace_id)
    name = fields.line("name", command.name)
    kind = parse_type("type", command.type)
    config = checked_config("config", kind, command.config)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        property_id: UUID = await work.session.fetchval(
            _sql.insert, place.workspace_id, name, kind, config
        )
    return await _read(work, property_id)


@serves(UpdateProperty)
async def update_property(work: Work, command: UpdateProperty) -> PropertyView:
    """Change a property; what is not sent stays. Locks it NO KEY UPDATE. Raises as above."""
    row = await _manage(work, command.property_id)
    name, config = row["name"], row["config"]
    if command.name is not UNSET:
        name = fields.line("name", command.name)
    if command.config is not UNSET:
        config = checked_config("config", PropertyType(row["type"]), command.config)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        await work.session.execute(_sql.update, command.property_id, name, config)
    return await _read(work, command.property_id)


@serves(ArchiveProperty)
async def archive_property(work: Work, command: ArchiveProperty) -> PropertyView:
    """Retire a property: values stay, none is set any more. Locks and raises as above."""
    await _manage(work, command.property_id)
    await work.session.execute(_sql.archive, command.property_id)
    return await _read(work, command.property_id)


@serves(UnarchiveProperty)
async def unarchive_property(work: Work, command: UnarchiveProperty) -> PropertyView:
    """Take a retired property back. Locks and raises as above."""
    await _manage(work, command.property_id)
    await work.session.execute(_sql.unarchive, command.property_id)
    return await _read(work, command.property_id)


# --- Values on issues ---------------------------------------------------------------------------


@serves(SetProperty)
async def set_property(work: Work, command: SetProperty) -> None:
    """Give an issue a value of a property; the value that it has already changes nothing.

    Locks the issue NO KEY UPDATE. Raises 403, 404, and 400 for a value that is none of the
    property's type, an archived property, and more values than an issue may have.
    """
    row = await _lock_issue(work, command)
    if row["is_archived"]:
        raise invalid("property_id", "the property is archived")
    kind = PropertyType(row["type"])
    value = checked_value("value", kind, row["config"], command.value)
    size = await work.session.fetchval(
        _sql.set_value, command.issue_id, str(command.property_id), value
    )
    if size is None:
        return
    if size > limits.PROPERTIES_BYTES_MAX:
        raise invalid(
            "value", f"all values of an issue have at most {limits.PROPERTIES_BYTES_MAX} bytes"
        )
    await _tell(work, command, row)


@serves(ClearProperty)
async def clear_property(work: Work, command: ClearProperty) -> None:
    """Take the value of a property, archived or not, from an issue; none changes nothing.

    Locks as above. Raises 403, 404.
    """
    row = await _lock_issue(work, command)
    if await work.session.execute(_sql.clear_value, command.issue_id, str(command.property_id)):
        await _tell(work, command, row)


async def _lock_issue(work: Work, command: SetProperty | ClearProperty) -> Record:
    """Return the property that a change of the issue is about, the issue locked. Raises 404."""
    place = await standing.stand_at(work, command.issue_id)
    row = await work.session.fetchrow(_sql.of_workspace, command.property_id, place.workspace_id)
    if row is None:
        raise not_found(_WHAT)
    if await work.session.fetchrow(_issues.lock_fields, command.issue_id) is None:
        raise not_found("issue")
    return row


async def _tell(work: Work, command: SetProperty | ClearProperty, row: Record) -> None:
    """Say which property changed: its name and never a value (W-044)."""
    await timeline.record(
        work,
        row["workspace_id"],
        command.issue_id,
        "issue_property_changed",
        property_id=str(command.property_id),
        name=row["name"],
    )


# --- Rows ---------------------------------------------------------------------------------------


async def _manage(work: Work, property_id: UUID) -> Record:
    _, row = await manage_entry(work, _sql.get, _sql.lock, property_id, _WHAT)
    return row


async def _read(work: Work, property_id: UUID) -> PropertyView:
    return _view(await read_entry(work, _sql.get, property_id, _WHAT))


def _view(row: Record) -> PropertyView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(PropertyView)}
    return PropertyView(**{**values, "type": PropertyType(row["type"])})
