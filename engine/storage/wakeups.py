"""Rows of rules, with the names beside them, to what the wire shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from engine.domain.access import (
    AgentAccess,
    SourceReferences,
    Visibility,
    redact,
    references_of,
)
from engine.domain.filters import FilterActor
from engine.domain.records import PauseReason, RunStatus
from engine.domain.views.wakeups import RuleRunView, RuleView
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.dispatch import rule_of

sql: Final = queries.load("wakeups")


def agents_named(rows: Iterable[Record]) -> frozenset[UUID]:
    """Return the agents that rows of `wakeups.show` name as filters or sources (W-194)."""
    named = set()
    for row in rows:
        named |= {row["filter_agent_id"], row["filter_task_agent_id"], row["source_agent_id"]}
        if row["filter_actor_type"] == FilterActor.AGENT:
            named.add(row["filter_actor_id"])
    return frozenset(named - {None})


def agent_access(row: Record) -> AgentAccess:
    """Return what a row of `wakeups.agents` says about one agent."""
    return AgentAccess(
        id=row["id"],
        workspace_id=row["workspace_id"],
        visibility=Visibility(row["visibility"]),
        owner_id=row["owner_id"],
        invokers=frozenset(row["invokers"]),
    )


def rule_view(row: Record, visible: frozenset[UUID]) -> RuleView:
    """Return the rule of a row of `wakeups.show`, without agents outside `visible` (W-194)."""
    rule = rule_of(row)
    shown = redact(_references(row), visible)
    return RuleView(
        id=rule.id,
        workspace_id=rule.workspace_id,
        issue_id=rule.issue_id,
        agent_id=rule.agent_id,
        agent_name=row["agent_name"],
        created_by=rule.created_by,
        created_by_name=row["created_by_name"],
        created_by_agent=rule.source_task_id is not None,
        source_task_id=shown.source_task_id,
        source_agent_id=shown.source_agent_id,
        source_agent_name=shown.source_agent_name,
        parent_comment_id=rule.parent_comment_id,
        instruction=rule.instruction,
        kind=rule.kind,
        mode=rule.mode,
        event_types=rule.event_types,
        filter_actor_type=shown.filter_actor_type,
        filter_actor_id=shown.filter_actor_id,
        filter_actor_name=shown.filter_actor_name,
        filter_agent_id=shown.filter_agent_id,
        filter_agent_name=shown.filter_agent_name,
        filter_task_id=shown.filter_task_id,
        interval_seconds=rule.interval_seconds,
        cron_expression=rule.cron_expression,
        timezone=rule.timezone,
        next_fire_at=rule.next_fire_at,
        enabled=rule.enabled,
        disabled_at=rule.disabled_at,
        paused_reason=pause_of(row),
        revision=rule.revision,
        last_task_id=rule.last_task_id,
        last_task_status=_status(row["last_task_status"]),
        last_error=rule.last_error,
        created_at=rule.created_at,
        updated_at=rule.updated_at,
    )


def pause_of(row: Record) -> PauseReason | None:
    """Return why the rule of a row with that column is paused."""
    reason = row["paused_reason"]
    return None if reason is None else PauseReason(reason)


def rule_run_view(row: Record) -> RuleRunView:
    """Return the run of a row of `wakeups.runs`."""
    return RuleRunView(
        id=row["id"],
        status=RunStatus(row["status"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        checkin_note=row["checkin_note"],
        triggers=tuple(dict.fromkeys(row["triggers"])),
        commented=row["commented"],
    )


def _references(row: Record) -> SourceReferences:
    return references_of(
        rule_of(row),
        filter_agent_name=row["filter_agent_name"],
        filter_task_agent_id=row["filter_task_agent_id"],
        filter_actor_name=row["filter_actor_name"],
        source_agent_id=row["source_agent_id"],
        source_agent_name=row["source_agent_name"],
    )


def _status(text: str | None) -> RunStatus | None:
    return None if text is None else RunStatus(text)
