"""Rows of rules across a workspace, with the names beside them, to what the wire shows."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain.access import SourceReferences, redact
from engine.domain.inventory import RuleSource
from engine.domain.records import Kind, Mode, PauseReason, RunStatus
from engine.domain.views.inventory import (
    AgentChoiceView,
    InventoryCounts,
    InventoryItemView,
    InventoryRunView,
    ListedRuleView,
    PausedRuleView,
)
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.wakeups import pause_of

sql: Final = queries.load("inventory")
_REFERENCES: Final = frozenset(field.name for field in attrs.fields(SourceReferences))
_SHARED: Final = tuple(field.name for field in attrs.fields(ListedRuleView))
_OF_RUN: Final = tuple(field.name for field in attrs.fields(InventoryRunView))


def item_view(row: Record, visible: frozenset[UUID], *, can_manage: bool) -> InventoryItemView:
    """Return the rule of a row of `inventory.list`, without agents outside `visible` (W-194)."""
    return InventoryItemView(
        **_waits_for(row, visible),
        workspace_id=row["workspace_id"],
        issue_title=row["issue_title"],
        issue_identifier=row["issue_identifier"],
        issue_closed=row["issue_closed"],
        source=RuleSource(row["source"]),
        rule=None,
        system_stage=None,
        system_remaining=None,
        target_type="agent",
        created_by=row["created_by"],
        created_by_name=row["created_by_name"],
        created_by_agent=row["created_by_agent"],
        can_manage=can_manage,
        parent_comment_id=row["parent_comment_id"],
        disabled_at=row["disabled_at"],
        last_task_id=row["last_task_id"],
        last_task_status=_status(row["last_task_status"]),
        last_error=row["last_error"],
        updated_at=row["updated_at"],
        active_runs=row["active_runs"],
        runs_7d=row["runs_7d"],
        task=_run(row),
    )


def listed_view(row: Record, visible: frozenset[UUID]) -> ListedRuleView:
    """Return the rule of a row of `inventory.summaries`, without agents outside `visible`."""
    return ListedRuleView(**_waits_for(row, visible))


def paused_view(row: Record) -> PausedRuleView:
    """Return the rule of a row of `inventory.paused`."""
    reason = PauseReason(row["paused_reason"])
    return PausedRuleView(**{**dict(row.items()), "paused_reason": reason})


def counts(row: Record) -> InventoryCounts:
    """Return the counts that every row of `inventory.list` has."""
    return InventoryCounts(
        all=row["count_all"],
        active=row["count_active"],
        paused=row["count_paused"],
        disabled=row["count_disabled"],
        ended=row["count_ended"],
    )


def choices(row: Record) -> tuple[AgentChoiceView, ...]:
    """Return the agents that every row of `inventory.list` has, by name."""
    return tuple(AgentChoiceView(id=UUID(each["id"]), name=each["name"]) for each in row["agents"])


def _waits_for(row: Record, visible: frozenset[UUID]) -> dict[str, Any]:
    """Return the fields of a `ListedRuleView`: what the rule waits for and whom it wakes."""
    shown = redact(SourceReferences(**{name: row[name] for name in _REFERENCES}), visible)
    values: dict[str, Any] = {
        name: getattr(shown, name) if name in _REFERENCES else row[name] for name in _SHARED
    }
    kind, mode, events = Kind(row["kind"]), Mode(row["mode"]), tuple(row["event_types"])
    return {
        **values,
        "kind": kind,
        "mode": mode,
        "event_types": events,
        "paused_reason": pause_of(row),
    }


def _run(row: Record) -> InventoryRunView | None:
    if row["task_id"] is None:
        return None
    values: dict[str, Any] = {name: row[f"task_{name}"] for name in _OF_RUN}
    return InventoryRunView(**{**values, "status": RunStatus(row["task_status"])})


def _status(text: str | None) -> RunStatus | None:
    return None if text is None else RunStatus(text)
