"""Rows of a dispatch to snapshots, decisions to what `dispatch.apply` takes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from engine.domain.decision import Activity, Decision, ReceiptRef, RunDraft, RunRefresh
from engine.domain.records import Kind, Mode, OwnRun, Receipt, Rule, RunStatus, Snapshot
from engine.storage import queries
from engine.storage.database import Record

sql: Final = queries.load("dispatch")


def rule_of(row: Record) -> Rule:
    """Return the rule of a row that has the columns of `issue_wakeup`."""
    return Rule(
        id=row["id"],
        workspace_id=row["workspace_id"],
        issue_id=row["issue_id"],
        agent_id=row["agent_id"],
        created_by=row["created_by"],
        source_task_id=row["source_task_id"],
        parent_comment_id=row["parent_comment_id"],
        instruction=row["instruction"],
        kind=Kind(row["kind"]),
        mode=Mode(row["mode"]),
        event_types=tuple(row["event_types"]),
        filter_agent_id=row["filter_agent_id"],
        filter_task_id=row["filter_task_id"],
        filter_actor_type=row["filter_actor_type"],
        filter_actor_id=row["filter_actor_id"],
        interval_seconds=row["interval_seconds"],
        cron_expression=row["cron_expression"],
        timezone=row["timezone"],
        next_fire_at=row["next_fire_at"],
        enabled=row["enabled"],
        disabled_at=row["disabled_at"],
        revision=row["revision"],
        last_task_id=row["last_task_id"],
        last_error=row["last_error"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def snapshot_of(row: Record) -> Snapshot:
    """Return what `decide` may know of the rule in this row of a load."""
    return Snapshot(
        rule=rule_of(row),
        issue_exists=row["issue_exists"],
        issue_closed=row["issue_closed"],
        issue_priority=row["issue_priority"] or "none",
        agent_archived=row["agent_archived"],
        runtime_id=row["runtime_id"],
        may_invoke=row["may_invoke"],
        own_run=None if row["own_run"] is None else _own_run(row["own_run"]),
        receipts=tuple(_receipt(each) for each in row["receipts"]),
    )


def effects_of(snapshot: Snapshot, decision: Decision) -> dict[str, Any]:
    """Return one element of the JSON array that `dispatch.apply` takes."""
    rule = snapshot.rule
    return {
        "rule_id": str(rule.id),
        "revision": decision.revision,
        "workspace_id": str(rule.workspace_id),
        "issue_id": str(rule.issue_id),
        "enabled": decision.enabled,
        "disable": decision.disable,
        "next_fire_at": _text(decision.next_fire_at),
        "last_error": decision.last_error,
        "cancel_unstarted": decision.cancel_unstarted,
        "delete_rule": decision.delete_rule,
        "consume": [ref.seq for ref in decision.consume],
        "consume_ids": _ids(decision.consume),
        "discard": [ref.seq for ref in decision.discard],
        "discard_ids": _ids(decision.discard),
        "due_key": None if decision.due is None else decision.due.event_key,
        "due": None if decision.due is None else decision.due.payload,
        "due_consumed": decision.due_consumed,
        "start": None if decision.start is None else _start(decision.start),
        "refresh_run_id": None if decision.refresh is None else str(decision.refresh.run_id),
        "refresh": None if decision.refresh is None else _refresh(decision.refresh),
        "activities": [_activity(each) for each in decision.activities],
    }


def _own_run(run: dict[str, Any]) -> OwnRun:
    return OwnRun(
        id=UUID(run["id"]),
        status=RunStatus(run["status"]),
        handoff_note=run["handoff_note"],
        context=run["context"],
        dispatched_at=_instant(run["dispatched_at"]),
        lease_expires_at=_instant(run["lease_expires_at"]),
    )


def _receipt(row: dict[str, Any]) -> Receipt:
    return Receipt(
        seq=row["seq"],
        id=UUID(row["id"]),
        revision=row["revision"],
        event_key=row["event_key"],
        event_type=row["event_type"],
        payload=row["payload"],
        created_at=datetime.fromisoformat(row["created_at"]),
    )


def _start(draft: RunDraft) -> dict[str, Any]:
    return {
        "agent_id": str(draft.agent_id),
        "runtime_id": str(draft.runtime_id),
        "priority": draft.priority,
        "trigger_comment_id": _text(draft.trigger_comment_id),
        "trigger_summary": draft.trigger_summary,
        "handoff_note": draft.handoff_note,
        "context": draft.context,
        "originator_user_id": str(draft.originator_user_id),
        "delegated_from_task_id": _text(draft.delegated_from_task_id),
    }


def _refresh(refresh: RunRefresh) -> dict[str, Any]:
    return {
        "handoff_note": refresh.handoff_note,
        "context": refresh.context,
    }


def _activity(activity: Activity) -> dict[str, Any]:
    return {
        "action": activity.action,
        "actor_type": activity.actor_type,
        "actor_id": _text(activity.actor_id),
        "details": activity.details,
    }


def _ids(refs: tuple[ReceiptRef, ...]) -> list[str]:
    return [str(ref.id) for ref in refs]


def _text(value: datetime | UUID | None) -> str | None:
    if isinstance(value, datetime):
        return value.isoformat()
    return None if value is None else str(value)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
