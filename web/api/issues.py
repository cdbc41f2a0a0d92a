"""Issues and their timeline."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import tracker as ask
from engine.domain.views import Page
from engine.domain.views.tracker import ActivityView, IssueView
from web.routing import Call, Routes
from web.schemas.inputs import Nothing, Paging
from web.schemas.issues import IssueChange, IssueFilter, NewIssue

routes: Final = Routes("Issues")


@routes("GET", "/issues", takes=IssueFilter, answers=Page[IssueView])
async def list_issues(call: Call[IssueFilter]) -> Any:
    """List the issues of the workspace, newest first."""
    return await call.read(ask.ListIssues(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/issues", takes=NewIssue, answers=IssueView, statuses=(HTTPStatus.CREATED,))
async def create_issue(call: Call[NewIssue]) -> Any:
    """Make an issue; assigned to an agent it queues a run of that agent."""
    return await call.submit(ask.CreateIssue(workspace_id=call.workspace_id, **call.input.sent()))


@routes("GET", "/issues/{issue}", answers=IssueView)
async def get_issue(call: Call[Nothing]) -> Any:
    """Return an issue."""
    return await call.read(ask.GetIssue(workspace_id=call.workspace_id, issue_id=call.issue_id))


@routes("PATCH", "/issues/{issue}", takes=IssueChange, answers=IssueView)
async def update_issue(call: Call[IssueChange]) -> Any:
    """Change an issue; what is not sent stays as it is."""
    command = ask.UpdateIssue(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.submit(command)


@routes("DELETE", "/issues/{issue}")
async def delete_issue(call: Call[Nothing]) -> None:
    """Remove an issue with its comments and rules."""
    await call.submit(ask.DeleteIssue(workspace_id=call.workspace_id, issue_id=call.issue_id))


@routes("GET", "/issues/{issue}/timeline", takes=Paging, answers=Page[ActivityView])
async def list_timeline(call: Call[Paging]) -> Any:
    """List what happened on an issue, newest first."""
    query = ask.ListTimeline(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)
