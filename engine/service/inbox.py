"""The inbox: what asks for a person's attention, written in the transaction that gives the reason.

Items are of people who are members at that time, and nobody is told of what they did themselves.
They are read by their person alone, and only as long as that person is a member.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain.commands.conversation import ListInbox, ReadInboxItem
from engine.domain.mentions import Mentions
from engine.domain.views import Page
from engine.domain.views.conversation import InboxItemView
from engine.errors import not_found
from engine.service import standing
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("inbox")
_NOBODY: Final = Mentions()


@serves(ListInbox)
async def list_inbox(work: Work, query: ListInbox) -> Page[InboxItemView]:
    """Return the items of the calling person in a workspace. Raises 403, 404."""
    user_id = standing.require_person(work)
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session,
        _sql.list,
        workspace_id,
        user_id,
        query.unread,
        limit=query.limit,
        offset=query.offset,
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(ReadInboxItem)
async def read_inbox_item(work: Work, command: ReadInboxItem) -> InboxItemView:
    """Mark an item of the caller as read; one that is read already keeps its time.

    Locks the item. Raises 403 for anybody but a person, 404.
    """
    user_id = standing.require_person(work)
    workspace_id = await work.session.fetchval(_sql.place, command.item_id, user_id)
    if workspace_id not in work.caller.workspace_ids:
        raise not_found("inbox item")
    await standing.stand_in(work, workspace_id)
    row = await work.session.fetchrow(_sql.read, command.item_id)
    if row is None:
        raise not_found("inbox item")
    return _view(row)


async def tell_assignee(
    work: Work, issue_id: UUID, assignee_type: str | None, assignee_id: UUID | None
) -> None:
    """Tell a person, whom the caller knows to be a member, that an issue is theirs now.

    To be called when that has been written. An agent gets a run instead (`summons`).
    """
    if assignee_type != "member" or assignee_id == work.caller.user_id:
        return
    caller = work.caller
    await work.session.execute(
        _sql.tell_of_assignment, issue_id, caller.actor_type, caller.actor_id, assignee_id
    )


async def tell_of_comment(
    work: Work, issue_id: UUID, comment_id: UUID, mentioned: Mentions, answered: UUID | None
) -> None:
    """Tell people whom a new comment concerns, each once, for the most pressing of the reasons.

    It mentions them, it replies to a comment of theirs (`answered` is that user), or they made the
    issue or have it.
    """
    await _tell(work, issue_id, comment_id, mentioned, is_new=True, answered=answered)


async def tell_of_edit(
    work: Work, issue_id: UUID, comment_id: UUID, mentioned: Mentions, before: Mentions
) -> None:
    """Tell people whom only the new text of a comment mentions, unless they were told of it."""
    if mentioned.user_ids or mentioned.names:
        await _tell(work, issue_id, comment_id, mentioned, before=before)


async def _tell(
    work: Work,
    issue_id: UUID,
    comment_id: UUID,
    mentioned: Mentions,
    *,
    before: Mentions = _NOBODY,
    is_new: bool = False,
    answered: UUID | None = None,
) -> None:
    caller = work.caller
    await work.session.execute(
        _sql.tell_of_comment,
        issue_id,
        comment_id,
        caller.actor_type,
        caller.actor_id,
        caller.user_id,
        list(mentioned.user_ids),
        list(mentioned.names),
        is_new,
        answered,
        list(before.user_ids),
        list(before.names),
    )


def _view(row: Record) -> InboxItemView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(InboxItemView)}
    return InboxItemView(**values)
