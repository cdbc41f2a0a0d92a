"""Use cases of labels: the catalogue of a workspace, and what its issues have of it.

A label is attached and detached without touching the issue's row, so that neither waits for a
change of the issue; its timeline tells of both.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.catalogue import (
    CreateLabel,
    DeleteLabel,
    GetLabel,
    ListLabels,
    UpdateLabel,
)
from engine.domain.commands.tracker import AttachLabel, DetachLabel
from engine.domain.views import Page
from engine.domain.views.catalogue import LabelView
from engine.errors import invalid, not_found
from engine.service import standing, timeline
from engine.service.catalogue import manage_entry, one_of_a_name, read_entry
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("labels")
_issues: Final = queries.load("issues")
_NAME_INDEX: Final = "issue_label_workspace_name_idx"
_WHAT: Final = "label"


@serves(ListLabels)
async def list_labels(work: Work, query: ListLabels) -> Page[LabelView]:
    """Return the labels of a workspace."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session, _sql.list, workspace_id, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetLabel)
async def get_label(work: Work, query: GetLabel) -> LabelView:
    """Return one label. Raises 404."""
    return await _read(work, query.label_id)


@serves(CreateLabel)
async def create_label(work: Work, command: CreateLabel) -> LabelView:
    """Make a label, as a person or as a run. Raises 403, 404, 400 for a field, 409 for a name."""
    place = await standing.stand_in(work, command.workspace_id)
    name = fields.line("name", command.name)
    color = fields.color("color", command.color)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        label_id: UUID = await work.session.fetchval(_sql.insert, place.workspace_id, name, color)
    return await _read(work, label_id)


@serves(UpdateLabel)
async def update_label(work: Work, command: UpdateLabel) -> LabelView:
    """Change a label. Locks it NO KEY UPDATE. Raises as above, 403 also for a run."""
    _, row = await manage_entry(work, _sql.get, _sql.lock, command.label_id, _WHAT)
    name, color = row["name"], row["color"]
    if command.name is not UNSET:
        name = fields.line("name", command.name)
    if command.color is not UNSET:
        color = fields.color("color", command.color)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        await work.session.execute(_sql.update, command.label_id, name, color)
    return await _read(work, command.label_id)


@serves(DeleteLabel)
async def delete_label(work: Work, command: DeleteLabel) -> None:
    """Remove a label; every issue that has it loses it, and its timeline says so.

    Locks the label FOR UPDATE, then those issues KEY SHARE. Raises 403, 404.
    """
    session, label_id = work.session, command.label_id
    _, row = await manage_entry(work, _sql.get, _sql.lock_for_delete, label_id, _WHAT)
    await session.execute(_sql.lock_issues, label_id)
    caller = work.caller
    await session.execute(
        _sql.detach_everywhere, label_id, caller.actor_type, caller.actor_id, row["name"]
    )
    await session.execute(_sql.delete, label_id)


@serves(AttachLabel)
async def attach_label(work: Work, command: AttachLabel) -> None:
    """Give an issue a label; one that it has already changes nothing.

    Locks label and issue KEY SHARE. Raises 403, 404, and 400 when the issue has too many.
    """
    held = await _hold(work, command)
    session, issue_id, label_id = work.session, command.issue_id, command.label_id
    if not await session.execute(_sql.attach, issue_id, label_id):
        return
    if await session.fetchval(_sql.count_attached, issue_id) > limits.LABELS_OF_ISSUE_MAX:
        raise invalid("label_id", f"an issue has at most {limits.LABELS_OF_ISSUE_MAX} labels")
    await _tell(work, command, "issue_label_added", held)


@serves(DetachLabel)
async def detach_label(work: Work, command: DetachLabel) -> None:
    """Take a label from an issue; one that it does not have changes nothing. Locks as above."""
    held = await _hold(work, command)
    if await work.session.execute(_sql.detach, command.issue_id, command.label_id):
        await _tell(work, command, "issue_label_removed", held)


async def _hold(work: Work, command: AttachLabel | DetachLabel) -> Record:
    """Hold label and issue against removal, and return the row of the label. Raises 404."""
    place = await standing.stand_at(work, command.issue_id)
    row = await work.session.fetchrow(_sql.hold, command.label_id, place.workspace_id)
    if row is None:
        raise not_found(_WHAT)
    if not await work.session.fetchval(_issues.hold, command.issue_id):
        raise not_found("issue")
    return row


async def _tell(work: Work, command: AttachLabel | DetachLabel, action: str, label: Record) -> None:
    await timeline.record(
        work,
        label["workspace_id"],
        command.issue_id,
        action,
        label_id=str(command.label_id),
        name=label["name"],
    )


async def _read(work: Work, label_id: UUID) -> LabelView:
    return _view(await read_entry(work, _sql.get, label_id, _WHAT))


def _view(row: Record) -> LabelView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(LabelView)}
    return LabelView(**values)
