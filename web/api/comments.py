"""Comments on issues."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import tracker as ask
from engine.domain.views import Page
from engine.domain.views.tracker import CommentView
from web.routing import Call, Routes
from web.schemas.inputs import Paging
from web.schemas.issues import NewComment

routes: Final = Routes("Comments")
_PATH: Final = "/issues/{issue}/comments"


@routes("GET", _PATH, takes=Paging, answers=Page[CommentView])
async def list_comments(call: Call[Paging]) -> Any:
    """List the comments of an issue, oldest first."""
    query = ask.ListComments(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)


@routes("POST", _PATH, takes=NewComment, answers=CommentView, statuses=(HTTPStatus.CREATED,))
async def create_comment(call: Call[NewComment]) -> Any:
    """Say something on an issue; agents that are addressed get a run."""
    command = ask.CreateComment(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.submit(command)
