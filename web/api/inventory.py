"""The wakeup rules of a whole workspace (api.md, Wakeups)."""

from __future__ import annotations

from typing import Any, Final

from engine.domain.commands import inventory as ask
from engine.domain.views.inventory import InventoryView, IssueSummaryView, PausedRuleView
from web.routing import Call, Routes
from web.schemas.inputs import Nothing
from web.schemas.inventory import InventoryFilter

routes: Final = Routes("Wakeups")


@routes("GET", "/issue-wakeups", takes=InventoryFilter, answers=InventoryView)
async def list_inventory(call: Call[InventoryFilter]) -> Any:
    """List the rules of the workspace, active ones first, with counts and agents to filter by."""
    return await call.read(ask.ListInventory(workspace_id=call.workspace_id, **call.input.sent()))


@routes("GET", "/issue-wakeup-summaries", answers=tuple[IssueSummaryView, ...])
async def list_summaries(call: Call[Nothing]) -> Any:
    """List, for each open issue with enabled rules, their number and the first, as an array."""
    return await call.read(ask.ListSummaries(workspace_id=call.workspace_id))


@routes("GET", "/issue-wakeup-paused", answers=tuple[PausedRuleView, ...])
async def list_paused_wakeups(call: Call[Nothing]) -> Any:
    """List the paused rules of open issues, at most 200, as a plain array."""
    return await call.read(ask.ListPaused(workspace_id=call.workspace_id))
