"""The rules of a whole workspace: the inventory, and what boards and lists show of them.

Whoever may read the workspace sees all of its issues, and thereby all of their rules (W-210).
Reading one grants no right to manage it or to invoke its agent (W-195).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final
from uuid import UUID

from engine import limits
from engine.domain import fields
from engine.domain.access import may_manage, visible_agents
from engine.domain.commands.inventory import ListInventory, ListPaused, ListSummaries
from engine.domain.inventory import InventoryKind, InventoryScope, RuleSource
from engine.domain.views.inventory import InventoryView, IssueSummaryView, PausedRuleView
from engine.service.registry import Work, serves
from engine.service.standing import read_workspace
from engine.storage import inventory as storage
from engine.storage import wakeups
from engine.storage.database import Record
from engine.storage.inventory import sql

_ANY_SOURCE: Final = "all"


@serves(ListInventory)
async def list_inventory(work: Work, query: ListInventory) -> InventoryView:
    """Return a page of the workspace's rules, with counts, of one snapshot (W-206).

    Active rules come first, the soonest before those without a time; then the newest. Raises 403,
    404, and 400 for a filter or bound that W-207 does not allow.
    """
    workspace_id = read_workspace(work, query.workspace_id)
    scope = InventoryScope(fields.choice("scope", query.scope, tuple(InventoryScope)))
    kind = fields.choice("kind", query.kind, tuple(InventoryKind))
    source = fields.choice("source", query.source, ("", *RuleSource)) or _ANY_SOURCE
    pattern = _pattern(query.search or "")
    page = fields.page(query.limit, query.offset)
    rows = await work.session.fetch(
        sql.list, workspace_id, scope, kind, source, query.agent_id, pattern, *page
    )
    counts = storage.counts(rows[0])
    found = [row for row in rows if row["id"] is not None]
    visible = await _visible(work, found)
    manages = partial(may_manage, work.caller, workspace_id)
    return InventoryView(
        items=tuple(
            storage.item_view(row, visible, can_manage=manages(row["created_by"])) for row in found
        ),
        total=getattr(counts, scope),
        counts=counts,
        agents=storage.choices(rows[0]),
    )


@serves(ListSummaries)
async def list_summaries(work: Work, query: ListSummaries) -> tuple[IssueSummaryView, ...]:
    """Return, for each open issue with enabled rules, how many and the first (W-211).

    Raises 403, 404.
    """
    workspace_id = read_workspace(work, query.workspace_id)
    rows = await work.session.fetch(sql.summaries, workspace_id, limits.SUMMARY_PREVIEWS_MAX)
    visible = await _visible(work, rows)
    return tuple(
        _summary(issue_id, list(of_issue), visible)
        for issue_id, of_issue in groupby(rows, key=itemgetter("issue_id"))
    )


@serves(ListPaused)
async def list_paused(work: Work, query: ListPaused) -> tuple[PausedRuleView, ...]:
    """Return the first paused rules of the workspace's open issues, by issue and id (W-150).

    Raises 403, 404.
    """
    workspace_id = read_workspace(work, query.workspace_id)
    rows = await work.session.fetch(sql.paused, workspace_id, limits.PAUSED_LISTED_MAX)
    return tuple(storage.paused_view(row) for row in rows)


def _summary(issue_id: UUID, rows: Sequence[Record], visible: frozenset[UUID]) -> IssueSummaryView:
    return IssueSummaryView(
        issue_id=issue_id,
        active_count=rows[0]["active_count"],
        event_count=rows[0]["event_count"],
        previews=tuple(storage.listed_view(row, visible) for row in rows),
    )


def _pattern(search: str) -> str | None:
    text = fields.text("search", search, bytes_max=limits.INVENTORY_SEARCH_BYTES_MAX).strip()
    return fields.literal_pattern(text) if text else None


async def _visible(work: Work, rows: Sequence[Record]) -> frozenset[UUID]:
    """Return which of the agents that these rules name as filters or sources the caller may see."""
    named = wakeups.agents_named(rows)
    found = await work.session.fetch(wakeups.sql.agents, list(named)) if named else []
    return visible_agents(work.caller, map(wakeups.agent_access, found))
