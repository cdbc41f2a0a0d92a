"""Use cases of comments: said by a person, or by an agent from a run.

Agents that a comment mentions, and the agent whose comment it answers, get an ordinary run; people
get an item in their inbox. Its author, and owners and admins of the workspace, change and delete a
comment; whoever reads the issue resolves it. A deleted comment cannot be found by its id any more
(404); lists keep its place.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields, mentions
from engine.domain.access import may_read
from engine.domain.commands.conversation import (
    DeleteComment,
    GetComment,
    ResolveComment,
    UnresolveComment,
    UpdateComment,
)
from engine.domain.commands.tracker import CreateComment, ListComments
from engine.domain.mentions import Mentions
from engine.domain.views import Page
from engine.domain.views.conversation import CommentView
from engine.errors import WakefulError, invalid, not_found
from engine.service import closing, inbox, standing, summons, timeline
from engine.service.agents import member_behind
from engine.service.enqueue import RunReason
from engine.service.registry import Work, serves
from engine.service.standing import Standing
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("comments")
_agents: Final = queries.load("agents")
_issues: Final = queries.load("issues")
_NOBODY: Final = Mentions()


@serves(ListComments)
async def list_comments(work: Work, query: ListComments) -> Page[CommentView]:
    """Return the comments of an issue. Raises 404 where the caller may not read it."""
    await standing.read_issue(work, query.issue_id)
    rows, total = await fetch_page(
        work.session, _sql.list, query.issue_id, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetComment)
async def get_comment(work: Work, query: GetComment) -> CommentView:
    """Return one comment. Raises 404 for a deleted one, and where the caller may not read it."""
    await find_comment(work, query.comment_id)
    return await _read(work, query.comment_id)


@serves(CreateComment)
async def create_comment(work: Work, command: CreateComment) -> CommentView:
    """Write a comment in the name of the caller, and queue the runs that it asks for.

    Locks agents, issue and pending runs, in lock order, before the insert is captured. Raises 403,
    404, and 400 for a field.
    """
    session, issue_id = work.session, command.issue_id
    body = _checked(command.body)
    place = await standing.stand_at(work, issue_id)
    parent = await _parent(work, command)
    answered = {} if parent is None else {parent["author_type"]: parent["author_id"]}
    mentioned = mentions.parse(body)
    called = await _called_agents(work, place.workspace_id, mentioned, answered.get("agent"))
    if not await session.fetchval(_issues.hold, issue_id):
        raise not_found("issue")
    await closing.lock_pending_runs(session, issue_id, called)
    row = await session.fetchrow(
        _sql.insert,
        issue_id,
        place.workspace_id,
        work.caller.actor_type,
        work.caller.actor_id,
        body,
        command.parent_id,
        work.caller.run_id,
    )
    assert row is not None, "an insert returns its row"
    view = _view(row)
    await timeline.record(
        work, place.workspace_id, issue_id, "comment_created", comment_id=str(view.id)
    )
    for agent_id in called:
        reason = RunReason.REPLY if agent_id == answered.get("agent") else RunReason.MENTION
        await summons.summon(work, agent_id, issue_id, reason, comment_id=view.id)
    await inbox.tell_of_comment(work, issue_id, view.id, mentioned, answered.get("member"))
    return view


@serves(UpdateComment)
async def update_comment(work: Work, command: UpdateComment) -> CommentView:
    """Give a comment another text; the text that it has already changes nothing.

    Who edits is the actor, whoever the author is (W-050). Agents and people that only the new text
    mentions are called and told as by a new comment. Locks as a new comment does, then the comment.
    Raises 403, 404, and 400 for a field.
    """
    session, comment_id = work.session, command.comment_id
    body = _checked(command.body)
    found, place = await _stand_at(work, comment_id)
    _require_author(work, place, found)
    mentioned = mentions.parse(body)
    called = await _called_agents(work, place.workspace_id, mentioned, None)
    row = await _lock(work, found["issue_id"], comment_id, called)
    if row["content"] == body:
        return await _read(work, comment_id)
    before = mentions.parse(row["content"])
    await session.execute(_sql.set_content, comment_id, body)
    await _tell(work, place, found, comment_id, "comment_updated")
    for agent_id in await _not_mentioned(work, called, before):
        await summons.summon(
            work, agent_id, found["issue_id"], RunReason.MENTION, comment_id=comment_id
        )
    await inbox.tell_of_edit(work, found["issue_id"], comment_id, mentioned, before)
    return await _read(work, comment_id)


@serves(DeleteComment)
async def delete_comment(work: Work, command: DeleteComment) -> None:
    """Make a tombstone of a comment: its text is gone for good, replies stay where they are.

    A comment that is deleted already stays so. Locks the issue KEY SHARE, then the comment. Raises
    403, 404.
    """
    found, place = await _stand_at(work, command.comment_id)
    _require_author(work, place, found)
    row = await _lock(work, found["issue_id"], command.comment_id, [], deleted_too=True)
    if row["deleted_at"] is None:
        await work.session.execute(_sql.delete, command.comment_id)
        await _tell(work, place, found, command.comment_id, "comment_deleted")


@serves(ResolveComment)
async def resolve_comment(work: Work, command: ResolveComment) -> CommentView:
    """Mark a comment as dealt with; one that is so already keeps who did it and when.

    Locks the issue KEY SHARE, then the comment. Raises 403 for a daemon, 404.
    """
    found, place = await _stand_at(work, command.comment_id)
    row = await _lock(work, found["issue_id"], command.comment_id, [])
    if row["resolved_at"] is None:
        caller = work.caller
        await work.session.execute(
            _sql.resolve, command.comment_id, caller.actor_type, caller.actor_id
        )
        await _tell(work, place, found, command.comment_id, "comment_resolved")
    return await _read(work, command.comment_id)


@serves(UnresolveComment)
async def unresolve_comment(work: Work, command: UnresolveComment) -> CommentView:
    """Take the mark away, if it is there. Locks and raises as `resolve_comment`."""
    found, place = await _stand_at(work, command.comment_id)
    row = await _lock(work, found["issue_id"], command.comment_id, [])
    if row["resolved_at"] is not None:
        await work.session.execute(_sql.unresolve, command.comment_id)
        await _tell(work, place, found, command.comment_id, "comment_unresolved")
    return await _read(work, command.comment_id)


# --- Where a comment is, and who may change it --------------------------------------------------


async def find_comment(work: Work, comment_id: UUID) -> Record:
    """Return issue, workspace and author of a comment that the caller may read, deleted or not.

    Raises 403 for a daemon, 404 (W-191).
    """
    standing.refuse_daemon(work)
    row = await work.session.fetchrow(_sql.place, comment_id)
    if row is None or not may_read(work.caller, row["workspace_id"]):
        raise not_found("comment")
    return row


async def hold_comment(work: Work, issue_id: UUID, comment_id: UUID) -> None:
    """Hold a comment that is not deleted, and its issue, until COMMIT. Raises 404.

    Locks the issue KEY SHARE, then the comment SHARE.
    """
    if not await work.session.fetchval(_issues.hold, issue_id):
        raise not_found("comment")
    if not await work.session.fetchval(_sql.hold_live, comment_id):
        raise not_found("comment")


async def _stand_at(work: Work, comment_id: UUID) -> tuple[Record, Standing]:
    """Return where a comment is and whose, and where the caller stands there; locks the latter."""
    found = await find_comment(work, comment_id)
    return found, await standing.stand_in(work, found["workspace_id"])


def _require_author(work: Work, place: Standing, comment: Record) -> None:
    """Raise 403 unless the caller wrote the comment, or its person administrates the workspace."""
    author = (comment["author_type"], comment["author_id"])
    if author != (work.caller.actor_type, work.caller.actor_id) and not place.is_administrator:
        raise WakefulError("not_allowed", "only its author, an owner or an admin may do this")


async def _lock(
    work: Work, issue_id: UUID, comment_id: UUID, called: list[UUID], *, deleted_too: bool = False
) -> Record:
    """Lock a comment that is about to change, and before it the issue and what it may queue.

    Raises 404 for a comment that went, or was deleted, meanwhile.
    """
    if not await work.session.fetchval(_issues.hold, issue_id):
        raise not_found("comment")
    await closing.lock_pending_runs(work.session, issue_id, called)
    row = await work.session.fetchrow(_sql.lock, comment_id)
    if row is None or (row["deleted_at"] is not None and not deleted_too):
        raise not_found("comment")
    return row


async def _tell(
    work: Work, place: Standing, comment: Record, comment_id: UUID, action: str
) -> None:
    await timeline.record(
        work, place.workspace_id, comment["issue_id"], action, comment_id=str(comment_id)
    )


# --- Whom a comment reaches ---------------------------------------------------------------------


async def _parent(work: Work, command: CreateComment) -> Record | None:
    """Return who wrote the comment that this one answers directly, if it does so.

    Raises 400 when the parent is no comment of the issue, or was deleted.
    """
    if command.parent_id is None:
        return None
    row = await work.session.fetchrow(_sql.parent, command.parent_id, command.issue_id)
    if row is None:
        raise invalid("parent_id", "there is no such comment on the issue")
    return row


async def _called_agents(
    work: Work, workspace_id: UUID, mentioned: Mentions, answered: UUID | None
) -> list[UUID]:
    """Return the agents that a comment calls, in id order, held against removal."""
    person = member_behind(work, workspace_id)
    wanted = [*mentioned.agent_ids, *([] if answered is None else [answered])]
    if person is None or not (wanted or mentioned.names):
        return []
    rows = await work.session.fetch(
        _agents.addressed,
        workspace_id,
        list(mentioned.names),
        wanted,
        person,
        work.caller.agent_id,
    )
    return [row["id"] for row in rows]


async def _not_mentioned(work: Work, called: list[UUID], before: Mentions) -> list[UUID]:
    """Return those of the called agents whom the earlier text did not mention in any way."""
    if not called or before == _NOBODY:
        return called
    rows = await work.session.fetch(
        _sql.mentioned_before, called, list(before.agent_ids), list(before.names)
    )
    earlier = {row["id"] for row in rows}
    return [agent_id for agent_id in called if agent_id not in earlier]


# --- Texts and rows -----------------------------------------------------------------------------


def _checked(body: str) -> str:
    text = fields.text("body", body, bytes_max=limits.COMMENT_BYTES_MAX)
    if not text.strip():
        raise invalid("body", "body must not be blank")
    return text


async def _read(work: Work, comment_id: UUID) -> CommentView:
    row = await work.session.fetchrow(_sql.get, comment_id)
    if row is None:
        raise not_found("comment")
    return _view(row)


def _view(row: Record) -> CommentView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(CommentView)}
    return CommentView(**values)
