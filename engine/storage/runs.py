"""Rows of `agent_task_queue` to what the wire shows of a run."""

from __future__ import annotations

from typing import Any, Final

from engine.domain.records import RunStatus
from engine.domain.views.runs import RunView
from engine.storage import queries
from engine.storage.database import Record

sql: Final = queries.load("runs")


def run_fields(row: Record) -> dict[str, Any]:
    """Return the fields of a `RunView` from a row that has the columns of the table."""
    return {
        "id": row["id"],
        "issue_id": row["issue_id"],
        "agent_id": row["agent_id"],
        "runtime_id": row["runtime_id"],
        "status": RunStatus(row["status"]),
        "priority": row["priority"],
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"],
        "context": row["context"],
        "handoff_note": row["handoff_note"],
        "trigger_summary": row["trigger_summary"],
        "trigger_comment_id": row["trigger_comment_id"],
        "originator_user_id": row["originator_user_id"],
        "retry_of_task_id": row["retry_of_task_id"],
        "rerun_of_task_id": row["rerun_of_task_id"],
        "wakeup_id": row["wakeup_id"],
        "created_at": row["created_at"],
        "dispatched_at": row["dispatched_at"],
        "started_at": row["started_at"],
        "completed_at": row["completed_at"],
        "fire_at": row["fire_at"],
        "result": row["result"],
        "error": row["error"],
        "failure_reason": row["failure_reason"],
        "wait_reason": row["wait_reason"],
    }


def run_view(row: Record) -> RunView:
    """Return the run of a row that has the columns of the table."""
    return RunView(**run_fields(row))
