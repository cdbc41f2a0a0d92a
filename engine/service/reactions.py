"""Use cases of reactions: of whoever reads an issue, to the issue and to its comments."""

from __future__ import annotations

from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from engine.domain.commands.conversation import (
    AddCommentReaction,
    AddIssueReaction,
    ListCommentReactions,
    ListIssueReactions,
    RemoveCommentReaction,
    RemoveIssueReaction,
)
from engine.domain.reactions import emoji
from engine.domain.views import Page
from engine.domain.views.conversation import AddedReactionView, ReactionView
from engine.errors import not_found
from engine.service import comments, standing
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page
from engine.storage.queries import Query

V = TypeVar("V", bound=ReactionView)

_sql: Final = queries.load("reactions")
_comments: Final = queries.load("comments")
_issues: Final = queries.load("issues")


@serves(ListIssueReactions)
async def list_issue_reactions(work: Work, query: ListIssueReactions) -> Page[ReactionView]:
    """Return the reactions to an issue and to its comments. Raises 403, 404."""
    await standing.read_issue(work, query.issue_id)
    return await _list(work, _sql.list_of_issue, query.issue_id, query)


@serves(ListCommentReactions)
async def list_comment_reactions(work: Work, query: ListCommentReactions) -> Page[ReactionView]:
    """Return the reactions to a comment. Raises 403, and 404 for a deleted one, too."""
    await comments.find_comment(work, query.comment_id)
    if await work.session.fetchrow(_comments.get, query.comment_id) is None:
        raise not_found("comment")
    return await _list(work, _sql.list_of_comment, query.comment_id, query)


@serves(AddIssueReaction)
async def add_issue_reaction(work: Work, command: AddIssueReaction) -> AddedReactionView:
    """React to an issue as the caller; `created` is false where the reaction stood.

    Locks the issue KEY SHARE. Raises 403, 404, and 400 for the emoji.
    """
    chosen = emoji("emoji", command.emoji)
    workspace_id = await _hold_issue(work, command.issue_id)
    return await _add(work, _sql.add_to_issue, command.issue_id, workspace_id, chosen)


@serves(RemoveIssueReaction)
async def remove_issue_reaction(work: Work, command: RemoveIssueReaction) -> None:
    """Take the caller's reaction to an issue back, if there is one. Locks and raises as above."""
    chosen = emoji("emoji", command.emoji)
    await _hold_issue(work, command.issue_id)
    await _remove(work, _sql.remove_from_issue, command.issue_id, chosen)


@serves(AddCommentReaction)
async def add_comment_reaction(work: Work, command: AddCommentReaction) -> AddedReactionView:
    """React to a comment as the caller; `created` is false where the reaction stood.

    Locks the issue KEY SHARE, then the comment SHARE. Raises 403, 404 for a deleted comment, too,
    and 400 for the emoji.
    """
    chosen = emoji("emoji", command.emoji)
    workspace_id = await _hold_comment(work, command.comment_id)
    return await _add(work, _sql.add_to_comment, command.comment_id, workspace_id, chosen)


@serves(RemoveCommentReaction)
async def remove_comment_reaction(work: Work, command: RemoveCommentReaction) -> None:
    """Take the caller's reaction to a comment back, if there is one. Locks and raises as above."""
    chosen = emoji("emoji", command.emoji)
    await _hold_comment(work, command.comment_id)
    await _remove(work, _sql.remove_from_comment, command.comment_id, chosen)


async def _hold_issue(work: Work, issue_id: UUID) -> UUID:
    place = await standing.stand_at(work, issue_id)
    if not await work.session.fetchval(_issues.hold, issue_id):
        raise not_found("issue")
    return place.workspace_id


async def _hold_comment(work: Work, comment_id: UUID) -> UUID:
    found = await comments.find_comment(work, comment_id)
    place = await standing.stand_in(work, found["workspace_id"])
    await comments.hold_comment(work, found["issue_id"], comment_id)
    return place.workspace_id


async def _add(
    work: Work, add: Query, target_id: UUID, workspace_id: UUID, chosen: str
) -> AddedReactionView:
    caller = work.caller
    row = await work.session.fetchrow(
        add, target_id, workspace_id, caller.actor_type, caller.actor_id, chosen
    )
    assert row is not None, "an insert returns its row, or the one that stands"
    return _view(AddedReactionView, row)


async def _remove(work: Work, remove: Query, target_id: UUID, chosen: str) -> None:
    caller = work.caller
    await work.session.execute(remove, target_id, caller.actor_type, caller.actor_id, chosen)


async def _list(
    work: Work, query: Query, target_id: UUID, part: ListIssueReactions | ListCommentReactions
) -> Page[ReactionView]:
    rows, total = await fetch_page(
        work.session, query, target_id, limit=part.limit, offset=part.offset
    )
    return Page(items=tuple(_view(ReactionView, row) for row in rows), total=total)


def _view(kind: type[V], row: Record) -> V:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(kind)}
    return kind(**values)
