"""Reactions to issues and comments."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import conversation as ask
from engine.domain.views import Page
from engine.domain.views.conversation import AddedReactionView, ReactionView
from web.routing import Answer, Call, Routes
from web.schemas.conversation import NewReaction
from web.schemas.inputs import Nothing, Paging

routes: Final = Routes("Reactions")
_OF_ISSUE: Final = "/issues/{issue}/reactions"
_OF_COMMENT: Final = "/comments/{id}/reactions"
_ADDED: Final = (HTTPStatus.CREATED, HTTPStatus.OK)


@routes("GET", _OF_ISSUE, takes=Paging, answers=Page[ReactionView])
async def list_issue_reactions(call: Call[Paging]) -> Any:
    """List the reactions to an issue and to its comments, oldest first."""
    query = ask.ListIssueReactions(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)


@routes("POST", _OF_ISSUE, takes=NewReaction, answers=AddedReactionView, statuses=_ADDED)
async def add_issue_reaction(call: Call[NewReaction]) -> Any:
    """React to an issue; 200 where the reaction stood already."""
    command = ask.AddIssueReaction(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.submit(command, _added)


@routes("DELETE", f"{_OF_ISSUE}/{{emoji}}")
async def remove_issue_reaction(call: Call[Nothing]) -> None:
    """Take one's own reaction to an issue back, if there is one."""
    command = ask.RemoveIssueReaction(
        workspace_id=call.workspace_id, issue_id=call.issue_id, emoji=call.text
    )
    await call.submit(command)


@routes("GET", _OF_COMMENT, takes=Paging, answers=Page[ReactionView])
async def list_comment_reactions(call: Call[Paging]) -> Any:
    """List the reactions to a comment, oldest first."""
    query = ask.ListCommentReactions(
        workspace_id=call.workspace_id, comment_id=call.id, **call.input.sent()
    )
    return await call.read(query)


@routes("POST", _OF_COMMENT, takes=NewReaction, answers=AddedReactionView, statuses=_ADDED)
async def add_comment_reaction(call: Call[NewReaction]) -> Any:
    """React to a comment; 200 where the reaction stood already."""
    command = ask.AddCommentReaction(
        workspace_id=call.workspace_id, comment_id=call.id, **call.input.sent()
    )
    return await call.submit(command, _added)


@routes("DELETE", f"{_OF_COMMENT}/{{emoji}}")
async def remove_comment_reaction(call: Call[Nothing]) -> None:
    """Take one's own reaction to a comment back, if there is one."""
    command = ask.RemoveCommentReaction(
        workspace_id=call.workspace_id, comment_id=call.id, emoji=call.text
    )
    await call.submit(command)


def _added(reaction: AddedReactionView) -> Answer:
    return Answer(reaction, HTTPStatus.CREATED if reaction.created else HTTPStatus.OK)
