"""The use case of an issue's metadata: a merge patch (RFC 7396)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from engine.domain import metadata
from engine.domain.commands.tracker import PatchMetadata
from engine.domain.records import Json
from engine.errors import not_found
from engine.service import standing, timeline
from engine.service.registry import Work, serves
from engine.storage import queries

_sql: Final = queries.load("issues")


@serves(PatchMetadata)
async def patch_metadata(work: Work, command: PatchMetadata) -> Mapping[str, object]:
    """Merge a patch into the metadata of an issue, and return what it is then.

    A patch that changes nothing changes nothing, not even the revision. Locks the issue NO KEY
    UPDATE. Raises 403, 404, and 400 for the field `metadata` when the result is out of bounds.
    """
    session, issue_id = work.session, command.issue_id
    place = await standing.stand_at(work, issue_id)
    row = await session.fetchrow(_sql.lock_fields, issue_id)
    if row is None:
        raise not_found("issue")
    old: Json = row["metadata"]
    new = metadata.merged(old, command.patch)
    if not metadata.changed_keys(old, new):
        return old
    stored = metadata.checked("metadata", new)
    await session.execute(_sql.set_metadata, issue_id, stored)
    await tell(work, place.workspace_id, issue_id, old, stored)
    return stored


async def tell(work: Work, workspace_id: UUID, issue_id: UUID, old: Json, new: Json) -> None:
    """Write which keys of the metadata changed; what they hold stays out of it (W-044)."""
    await timeline.record(
        work,
        workspace_id,
        issue_id,
        "issue_metadata_changed",
        changed_fields=metadata.changed_keys(old, new),
    )
