"""The inbox of the calling person."""

from __future__ import annotations

from typing import Any, Final

from engine.domain.commands import conversation as ask
from engine.domain.views import Page
from engine.domain.views.conversation import InboxItemView
from web.routing import MEMBERS, Call, Routes
from web.schemas.conversation import InboxFilter
from web.schemas.inputs import Nothing

routes: Final = Routes("Inbox", kinds=MEMBERS)


@routes("GET", "/inbox", takes=InboxFilter, answers=Page[InboxItemView])
async def list_inbox(call: Call[InboxFilter]) -> Any:
    """List what asks for the caller's attention in the workspace, newest first."""
    return await call.read(ask.ListInbox(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/inbox/{id}/read", answers=InboxItemView)
async def read_inbox_item(call: Call[Nothing]) -> Any:
    """Mark an item as read; a second time changes nothing."""
    return await call.submit(ask.ReadInboxItem(workspace_id=call.workspace_id, item_id=call.id))
