"""Use cases of files: uploaded or linked, then bound to an issue or to a comment.

A bound file is seen by whoever sees the issue. One that hangs on nothing, or on a deleted comment,
is seen by its uploader and by owners and admins alone; they bind, take off and remove files. What
has hung on nothing for a day goes (`engine.service.retention`).
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import attachments as checks
from engine.domain.access import is_administrator, may_read
from engine.domain.commands.conversation import (
    BindAttachment,
    CreateAttachment,
    DeleteAttachment,
    GetAttachment,
    ListAttachments,
    ReadAttachment,
)
from engine.domain.views import Page
from engine.domain.views.conversation import AttachmentView, FileContent
from engine.errors import WakefulError, invalid, not_found
from engine.service import standing, timeline
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("attachments")
_comments: Final = queries.load("comments")
_identity: Final = queries.load("identity")
_issues: Final = queries.load("issues")


@attrs.frozen(kw_only=True)
class _Binding:
    """What a file hangs on, and the issue which that is or belongs to."""

    issue_id: UUID | None = None
    comment_id: UUID | None = None
    home_id: UUID | None = None

    @property
    def target(self) -> tuple[UUID | None, UUID | None]:
        return (self.issue_id, self.comment_id)


@serves(ListAttachments)
async def list_attachments(work: Work, query: ListAttachments) -> Page[AttachmentView]:
    """Return the files of an issue and of its comments. Raises 403, 404."""
    await standing.read_issue(work, query.issue_id)
    rows, total = await fetch_page(
        work.session, _sql.list, query.issue_id, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetAttachment)
async def get_attachment(work: Work, query: GetAttachment) -> AttachmentView:
    """Return what is known of a file. Raises 403, and 404 for one that the caller may not see."""
    return _view(await _find(work, query.attachment_id))


@serves(ReadAttachment)
async def read_attachment(work: Work, query: ReadAttachment) -> FileContent:
    """Return what a file holds. Raises 403, and 404, also for a file that is only a link."""
    row = await _find(work, query.attachment_id)
    content = await work.session.fetchval(_sql.content, query.attachment_id)
    if content is None:
        raise not_found("content of the attachment")
    return FileContent(filename=row["filename"], content=content)


@serves(CreateAttachment)
async def create_attachment(work: Work, command: CreateAttachment) -> AttachmentView:
    """Keep a file, or the address of one, that hangs on nothing yet.

    Locks the workspace KEY SHARE. Raises 403, 404, 400 for a field, and `upload_capacity_exceeded`
    when too much hangs on nothing already. Uploads of the same moment do not see each other there:
    the limit is for what piles up, each of them is bounded by its body.
    """
    filename = checks.filename("filename", command.filename)
    url = None if command.url is None else checks.url("url", command.url)
    content = command.content
    if (url is None) == (content is None):
        raise invalid("url", "a file has either content or an address", code="missing_field")
    place = await standing.stand_in(work, command.workspace_id)
    size = 0 if content is None else len(content)
    await _require_room(work, place.workspace_id, size, "url" if content is None else "file")
    row = await work.session.fetchrow(
        _sql.insert,
        place.workspace_id,
        work.caller.actor_type,
        work.caller.actor_id,
        work.caller.run_id,
        filename,
        url,
        checks.media_type(command.content_type),
        size,
    )
    assert row is not None, "an insert returns its row"
    if content is not None:
        await work.session.execute(_sql.insert_content, row["id"], content)
    return _view(row)


async def _require_room(work: Work, workspace_id: UUID, size: int, field: str) -> None:
    """Raise 400 when one more file would make too much that hangs on nothing."""
    least = limits.UNBOUND_BYTES_MIN
    taken: int = await work.session.fetchval(_sql.unbound_bytes, workspace_id, least)
    if taken + max(size, least) > limits.UNBOUND_BYTES_MAX:
        raise WakefulError(
            "upload_capacity_exceeded",
            "too many uploads of this workspace are bound to nothing; bind or delete some, or wait"
            " until the oldest are a day old",
            field=field,
        )


@serves(BindAttachment)
async def bind_attachment(work: Work, command: BindAttachment) -> AttachmentView:
    """Hang a file on an issue or a comment of its workspace, or take it off.

    Where it hangs already it stays, and nobody is told. Locks the old and the new issue KEY SHARE
    in id order, a new comment SHARE, then the file. Raises 403, 404, 400 for a field, and
    `contention` when somebody else moves it at this moment.
    """
    session = work.session
    found = await _find(work, command.attachment_id)
    place = await standing.stand_in(work, found["workspace_id"])
    _require_uploader(work, place, found)
    old = _binding(found)
    new = await _wanted(work, command, place.workspace_id)
    await _hold_issues(work, old, new)
    if new.comment_id is not None and not await session.fetchval(
        _comments.hold_live, new.comment_id
    ):
        raise _no_comment()
    await _lock(work, command.attachment_id, old)
    if new.target == old.target:
        return _view(found)
    row = await session.fetchrow(_sql.bind, command.attachment_id, *new.target)
    assert row is not None, "the file is locked"
    await _tell(work, place.workspace_id, command.attachment_id, "attachment_detached", old)
    await _tell(work, place.workspace_id, command.attachment_id, "attachment_attached", new)
    return _view(row)


@serves(DeleteAttachment)
async def delete_attachment(work: Work, command: DeleteAttachment) -> None:
    """Remove a file with its content.

    Locks its issue KEY SHARE, then the file. Raises 403, 404, and `contention` as above.
    """
    found = await _find(work, command.attachment_id)
    place = await standing.stand_in(work, found["workspace_id"])
    _require_uploader(work, place, found)
    old = _binding(found)
    await _hold_issues(work, old)
    await _lock(work, command.attachment_id, old)
    await work.session.execute(_sql.delete_content, command.attachment_id)
    await work.session.execute(_sql.delete, command.attachment_id)
    await _tell(work, place.workspace_id, command.attachment_id, "attachment_detached", old)


# --- Who sees and changes a file ----------------------------------------------------------------


async def _find(work: Work, attachment_id: UUID) -> Record:
    """Return a file that the caller may see. Raises 403 for a daemon, 404."""
    standing.refuse_daemon(work)
    row = await work.session.fetchrow(_sql.get, attachment_id)
    if row is None or not may_read(work.caller, row["workspace_id"]):
        raise not_found("attachment")
    is_seen = (
        row["home_id"] is not None
        or _is_uploader(work, row)
        or is_administrator(work.caller, row["workspace_id"])
    )
    if not is_seen:
        raise not_found("attachment")
    return row


def _is_uploader(work: Work, row: Record) -> bool:
    uploader = (row["uploader_type"], row["uploader_id"])
    return uploader == (work.caller.actor_type, work.caller.actor_id)


def _require_uploader(work: Work, place: standing.Standing, row: Record) -> None:
    if not _is_uploader(work, row) and not place.is_administrator:
        raise WakefulError("not_allowed", "only its uploader, an owner or an admin may do this")


# --- What a file hangs on -----------------------------------------------------------------------


def _binding(row: Record) -> _Binding:
    return _Binding(
        issue_id=row["issue_id"], comment_id=row["comment_id"], home_id=row["bound_issue_id"]
    )


async def _wanted(work: Work, command: BindAttachment, workspace_id: UUID) -> _Binding:
    """Return the binding that is asked for. Raises 400 unless its target is in the workspace."""
    issue_id, comment_id = command.issue_id, command.comment_id
    if issue_id is not None and comment_id is not None:
        raise invalid("comment_id", "a file hangs on an issue or on a comment, not on both")
    if comment_id is not None:
        row = await work.session.fetchrow(_comments.place, comment_id)
        if row is None or row["workspace_id"] != workspace_id:
            raise _no_comment()
        return _Binding(comment_id=comment_id, home_id=row["issue_id"])
    if issue_id is None:
        return _Binding()
    if await work.session.fetchval(_identity.place_of_issue, issue_id) != workspace_id:
        raise _no_issue()
    return _Binding(issue_id=issue_id, home_id=issue_id)


async def _hold_issues(work: Work, old: _Binding, new: _Binding | None = None) -> None:
    """Hold the issues of a file, the old and the new one, in id order. Raises 400 or 404."""
    wanted = {each.home_id for each in (old, new) if each is not None}
    for issue_id in sorted(each for each in wanted if each is not None):
        if await work.session.fetchval(_issues.hold, issue_id):
            continue
        if issue_id == old.home_id:
            raise not_found("attachment")
        assert new is not None, "an issue is the old or the new one"
        raise _no_issue() if new.issue_id is not None else _no_comment()


async def _lock(work: Work, attachment_id: UUID, seen: _Binding) -> None:
    """Lock a file that hangs on what the caller has seen. Raises 404, and `contention` if not."""
    row = await work.session.fetchrow(_sql.lock, attachment_id)
    if row is None:
        raise not_found("attachment")
    if (row["issue_id"], row["comment_id"]) != seen.target:
        raise WakefulError("contention", "the file was moved meanwhile; try again")


async def _tell(
    work: Work, workspace_id: UUID, attachment_id: UUID, action: str, binding: _Binding
) -> None:
    """Write on the timeline of an issue that a file came or went; its name stays out of it."""
    if binding.home_id is None:
        return
    details = {"attachment_id": str(attachment_id)}
    if binding.comment_id is not None:
        details["comment_id"] = str(binding.comment_id)
    await timeline.record(work, workspace_id, binding.home_id, action, **details)


def _no_issue() -> WakefulError:
    return invalid("issue_id", "there is no such issue in the workspace")


def _no_comment() -> WakefulError:
    return invalid("comment_id", "there is no such comment in the workspace")


def _view(row: Record) -> AttachmentView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(AttachmentView)}
    return AttachmentView(**values)
