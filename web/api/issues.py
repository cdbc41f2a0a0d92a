"""Issues and their timeline."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import tracker as ask
from engine.domain.views import Page
from engine.domain.views.tracker import ActivityView, IssueView
from web.routing import Call, Routes
from web.schemas.catalogue import MergePatch, PropertyValue
from web.schemas.inputs import Nothing, Paging
from web.schemas.issues import IssueChange, IssueFilter, NewIssue

routes: Final = Routes("Issues")


@routes("GET", "/issues", takes=IssueFilter, answers=Page[IssueView])
async def list_issues(call: Call[IssueFilter]) -> Any:
    """List the issues of the workspace, newest first."""
    return await call.read(ask.ListIssues(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/issues", takes=NewIssue, answers=IssueView, statuses=(HTTPStatus.CREATED,))
async def create_issue(call: Call[NewIssue]) -> Any:
    """Make an issue; assigned to an agent, or to a squad that it leads, it queues a run of it."""
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


@routes("PUT", "/issues/{issue}/labels/{label_id}")
async def attach_label(call: Call[Nothing]) -> None:
    """Give an issue a label; one that it has already changes nothing."""
    await call.submit(
        ask.AttachLabel(workspace_id=call.workspace_id, issue_id=call.issue_id, label_id=call.id)
    )


@routes("DELETE", "/issues/{issue}/labels/{label_id}")
async def detach_label(call: Call[Nothing]) -> None:
    """Take a label from an issue; one that it does not have changes nothing."""
    await call.submit(
        ask.DetachLabel(workspace_id=call.workspace_id, issue_id=call.issue_id, label_id=call.id)
    )


@routes("PUT", "/issues/{issue}/properties/{property_id}", takes=PropertyValue)
async def set_property(call: Call[PropertyValue]) -> None:
    """Give an issue a value of a property, judged by the property's type."""
    await call.submit(
        ask.SetProperty(
            workspace_id=call.workspace_id,
            issue_id=call.issue_id,
            property_id=call.id,
            **call.input.sent(),
        )
    )


@routes("DELETE", "/issues/{issue}/properties/{property_id}")
async def clear_property(call: Call[Nothing]) -> None:
    """Take the value of a property from an issue; none changes nothing."""
    await call.submit(
        ask.ClearProperty(
            workspace_id=call.workspace_id, issue_id=call.issue_id, property_id=call.id
        )
    )


@routes("PATCH", "/issues/{issue}/metadata", takes=MergePatch, answers=Mapping[str, Any])
async def patch_metadata(call: Call[MergePatch]) -> Any:
    """Merge a patch into the metadata of an issue (RFC 7396), and return what it is then."""
    command = ask.PatchMetadata(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.submit(command)


@routes("GET", "/issues/{issue}/timeline", takes=Paging, answers=Page[ActivityView])
async def list_timeline(call: Call[Paging]) -> Any:
    """List what happened on an issue, newest first."""
    query = ask.ListTimeline(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)
