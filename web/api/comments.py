"""Comments on issues."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import conversation as ask
from engine.domain.commands.tracker import CreateComment, ListComments
from engine.domain.views import Page
from engine.domain.views.conversation import CommentView
from web.routing import Call, Routes
from web.schemas.conversation import CommentChange, NewComment
from web.schemas.inputs import Nothing, Paging

routes: Final = Routes("Comments")
_ALL: Final = "/issues/{issue}/comments"
_ONE: Final = "/comments/{id}"


@routes("GET", _ALL, takes=Paging, answers=Page[CommentView])
async def list_comments(call: Call[Paging]) -> Any:
    """List the comments of an issue, oldest first.

    A deleted one keeps its place, with an empty body.
    """
    query = ListComments(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)


@routes("POST", _ALL, takes=NewComment, answers=CommentView, statuses=(HTTPStatus.CREATED,))
async def create_comment(call: Call[NewComment]) -> Any:
    """Say something on an issue; agents that are addressed get a run."""
    command = CreateComment(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.submit(command)


@routes("GET", _ONE, answers=CommentView)
async def get_comment(call: Call[Nothing]) -> Any:
    """Return a comment that was not deleted."""
    return await call.read(ask.GetComment(workspace_id=call.workspace_id, comment_id=call.id))


@routes("PATCH", _ONE, takes=CommentChange, answers=CommentView)
async def update_comment(call: Call[CommentChange]) -> Any:
    """Change what a comment says, as its author, an owner or an admin.

    Agents that only the new text mentions get a run.
    """
    command = ask.UpdateComment(
        workspace_id=call.workspace_id, comment_id=call.id, **call.input.sent()
    )
    return await call.submit(command)


@routes("DELETE", _ONE)
async def delete_comment(call: Call[Nothing]) -> None:
    """Take a comment back for good, as its author, an owner or an admin; its replies stay."""
    await call.submit(ask.DeleteComment(workspace_id=call.workspace_id, comment_id=call.id))


@routes("POST", f"{_ONE}/resolve", answers=CommentView)
async def resolve_comment(call: Call[Nothing]) -> Any:
    """Mark a comment as dealt with; a second time changes nothing."""
    return await call.submit(ask.ResolveComment(workspace_id=call.workspace_id, comment_id=call.id))


@routes("POST", f"{_ONE}/unresolve", answers=CommentView)
async def unresolve_comment(call: Call[Nothing]) -> Any:
    """Take the mark of a resolved comment away; a second time changes nothing."""
    command = ask.UnresolveComment(workspace_id=call.workspace_id, comment_id=call.id)
    return await call.submit(command)
