"""Files: uploaded or linked, bound to issues and comments, downloaded."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import conversation as ask
from engine.domain.views import Page
from engine.domain.views.conversation import AttachmentView, FileContent
from web.routing import Call, Download, Routes
from web.schemas.conversation import Binding, NewLink, Upload
from web.schemas.inputs import Nothing, Paging

routes: Final = Routes("Attachments")
_ONE: Final = "/attachments/{id}"


@routes(
    "POST",
    "/attachments",
    takes=NewLink,
    uploads=Upload,
    answers=AttachmentView,
    statuses=(HTTPStatus.CREATED,),
)
async def create_attachment(call: Call[Any]) -> Any:
    """Upload a file, as the part `file` of a form, or name one that lies elsewhere.

    It hangs on nothing until it is bound, and is seen by its uploader, owners and admins alone. A
    file that hangs on nothing for a day is deleted.
    """
    command = ask.CreateAttachment(workspace_id=call.workspace_id, **call.input.sent())
    return await call.submit(command)


@routes("GET", "/issues/{issue}/attachments", takes=Paging, answers=Page[AttachmentView])
async def list_attachments(call: Call[Paging]) -> Any:
    """List the files of an issue and of its comments, oldest first."""
    query = ask.ListAttachments(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)


@routes("GET", _ONE, answers=AttachmentView)
async def get_attachment(call: Call[Nothing]) -> Any:
    """Return what is known of a file."""
    return await call.read(ask.GetAttachment(workspace_id=call.workspace_id, attachment_id=call.id))


@routes("GET", f"{_ONE}/content", answers=Download)
async def read_attachment(call: Call[Nothing]) -> Download:
    """Download an uploaded file; one that lies elsewhere has no content here."""
    query = ask.ReadAttachment(workspace_id=call.workspace_id, attachment_id=call.id)
    file: FileContent = await call.read(query)
    return Download(filename=file.filename, content=file.content)


@routes("PUT", f"{_ONE}/binding", takes=Binding, answers=AttachmentView)
async def bind_attachment(call: Call[Binding]) -> Any:
    """Hang a file on an issue or on a comment, or with neither take it off."""
    command = ask.BindAttachment(
        workspace_id=call.workspace_id, attachment_id=call.id, **call.input.sent()
    )
    return await call.submit(command)


@routes("DELETE", _ONE)
async def delete_attachment(call: Call[Nothing]) -> None:
    """Remove a file with its content, as its uploader, an owner or an admin."""
    await call.submit(ask.DeleteAttachment(workspace_id=call.workspace_id, attachment_id=call.id))
