"""What a daemon reports on the runs that it claimed: lease, start, progress, end.

A report is accepted from the token that registered the run's daemon. Reports that move a run check
its state under the run's lock (W-097) and, where they name it, the claim's generation (W-104); the
report of an end that has already happened changes nothing (W-113).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from engine import limits
from engine.domain import fields
from engine.domain.commands.runs import (
    AppendMessages,
    CompleteRun,
    FailRun,
    GetRunStatus,
    RenewLease,
    ReportProgress,
    StartRun,
    WaitLocalDirectory,
)
from engine.domain.records import RunStatus
from engine.domain.texts import storable_text, trimmed_text
from engine.domain.views.runs import RunStatusView, RunView
from engine.errors import WakefulError, invalid, not_found
from engine.service.daemons import daemon_mismatch, require_daemon
from engine.service.registry import Work, serves
from engine.service.runs import freed, tell
from engine.storage.database import Lane, Query, Record
from engine.storage.runs import run_view, sql

_PREPARING = (RunStatus.DISPATCHED, RunStatus.WAITING)
_CLAIMED = (*_PREPARING, RunStatus.RUNNING)
_ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


@serves(RenewLease, lane=Lane.CLAIM)
async def renew_lease(work: Work, command: RenewLease) -> RunView:
    """Begin the prepare lease anew (W-105). Raises 404, and 400 for a run not being prepared."""
    row = await _claimed(work, sql.claimed, command.run_id)
    _require(row, _PREPARING)
    await work.session.execute(sql.renew_lease, command.run_id, limits.PREPARE_LEASE_SECONDS)
    return run_view(row)


@serves(StartRun, lane=Lane.CLAIM)
async def start_run(work: Work, command: StartRun) -> RunView:
    """Start the claim of this generation; starting it again changes nothing.

    Ends the lease. Raises 404, 409 `stale_claim` for another generation, 400 for a run that is not
    claimed or has ended.
    """
    row = await _claimed(work, sql.lock_claimed, command.run_id)
    if row["status"] in _ENDED:
        raise _invalid_transition(row)
    _fence(row, command.dispatched_at)
    if row["status"] == RunStatus.RUNNING:  # the answer to the first report was lost
        return run_view(row)
    _require(row, _PREPARING)
    started = await _moved(work, sql.start, command.run_id)
    await tell(work, started["id"], "run_started", "agent", started["agent_id"])
    if started["wakeup_id"] is not None:
        work.look_at(started["issue_id"])  # facts that waited for the start (W-100)
    return run_view(started)


@serves(WaitLocalDirectory, lane=Lane.CLAIM)
async def wait_local_directory(work: Work, command: WaitLocalDirectory) -> RunView:
    """Say that the claim waits for its directory; begins its lease anew.

    Raises 404, 409 for another generation, 400 for the reason and for a run not being prepared.
    """
    reason = trimmed_text("reason", command.reason, bytes_max=limits.PROGRESS_BYTES_MAX)
    row = await _claimed(work, sql.lock_claimed, command.run_id)
    _fence(row, command.dispatched_at)
    _require(row, _PREPARING)
    waiting = await _moved(
        work, sql.wait_for_directory, command.run_id, reason, limits.PREPARE_LEASE_SECONDS
    )
    return run_view(waiting)


@serves(ReportProgress, lane=Lane.CLAIM)
async def report_progress(work: Work, command: ReportProgress) -> None:
    """Replace the run's progress. Raises 404, and 400 for a field or a run not claimed."""
    summary = trimmed_text("summary", command.summary, bytes_max=limits.PROGRESS_BYTES_MAX)
    _require(await _claimed(work, sql.claimed, command.run_id), _CLAIMED)
    await work.session.execute(
        sql.progress,
        command.run_id,
        summary,
        _count("step", command.step),
        _count("total", command.total),
    )


@serves(AppendMessages, lane=Lane.CLAIM)
async def append_messages(work: Work, command: AppendMessages) -> None:
    """Add lines to the run's transcript. Raises 404, 400 for a line or a run never claimed.

    The last lines may come after the end of the run.
    """
    if len(command.lines) > limits.MESSAGE_LINES_MAX:
        raise invalid("lines", f"at most {limits.MESSAGE_LINES_MAX} lines in one call")
    lines = [
        fields.json_object("lines", line, bytes_max=limits.BODY_BYTES_MAX) for line in command.lines
    ]
    _require(await _claimed(work, sql.claimed, command.run_id), (*_CLAIMED, *_ENDED))
    await work.session.execute(sql.append_messages, command.run_id, lines)


@serves(CompleteRun, lane=Lane.CLAIM)
async def complete_run(work: Work, command: CompleteRun) -> RunView:
    """End a running run with its output; a repeated report changes nothing (W-113).

    Posts the output as the agent's comment unless it wrote one since the start (W-112) or the run
    has checked in (W-155); ends the run's credential. Raises 404, 409 for another generation, 400
    for a field or a run not running.
    """
    output = storable_text("output", command.output)
    result: dict[str, Any] = {"output": output}
    if command.pr_url is not None:
        result["pr_url"] = trimmed_text("pr_url", command.pr_url, bytes_max=limits.URL_BYTES_MAX)
    row = await _claimed(work, sql.lock_claimed, command.run_id)
    _fence(row, command.dispatched_at)
    if row["status"] == RunStatus.COMPLETED:
        return run_view(row)
    _require(row, (RunStatus.RUNNING,))
    ended = await _moved(work, sql.complete, command.run_id, result)
    await work.session.execute(sql.end_claim, command.run_id)
    if comment := _cut(output.strip(), limits.COMMENT_BYTES_MAX):
        await work.session.execute(sql.fallback_comment, command.run_id, comment)
    await tell(work, ended["id"], "run_completed", "agent", ended["agent_id"])
    freed(work, ended)
    return run_view(ended)


@serves(FailRun, lane=Lane.CLAIM)
async def fail_run(work: Work, command: FailRun) -> RunView:
    """End a claimed run with an error; a repeated report changes nothing (W-113).

    Without a reason it is `agent_error`. Raises 404, 409 for another generation, 400 for a field or
    a run that is not claimed.
    """
    error = storable_text("error", command.error)[: limits.RUN_ERROR_CHARS_MAX]
    reason = fields.line(
        "failure_reason",
        command.failure_reason or "agent_error",
        chars_max=limits.FAILURE_REASON_CHARS_MAX,
    )
    row = await _claimed(work, sql.lock_claimed, command.run_id)
    _fence(row, command.dispatched_at)
    if row["status"] == RunStatus.FAILED:
        return run_view(row)
    _require(row, _CLAIMED)
    ended = await _moved(work, sql.fail, command.run_id, error, reason)
    await work.session.execute(sql.end_claim, command.run_id)
    await tell(work, ended["id"], "run_failed", "agent", ended["agent_id"], failure_reason=reason)
    freed(work, ended)
    return run_view(ended)


@serves(GetRunStatus, lane=Lane.CLAIM)
async def get_run_status(work: Work, query: GetRunStatus) -> RunStatusView:
    """Return the status of a run, so that a running daemon learns of a cancel. Raises 404."""
    row = await _claimed(work, sql.claimed, query.run_id)
    return RunStatusView(status=RunStatus(row["status"]))


async def _claimed(work: Work, query: Query, run_id: UUID) -> Record:
    """Return the row of a run of the calling daemon. Raises 403 for others' runs, 404."""
    workspace_id, token_id = require_daemon(work)
    row = await work.session.fetchrow(query, run_id, workspace_id, token_id)
    if row is None:
        raise not_found("run")
    if not row["owned"]:
        raise daemon_mismatch()
    return row


async def _moved(work: Work, query: Query, *args: object) -> Record:
    row = await work.session.fetchrow(query, *args)
    assert row is not None, "its row is locked"
    return row


def _fence(row: Record, dispatched_at: datetime | None) -> None:
    if dispatched_at is not None and row["dispatched_at"] != dispatched_at:
        raise WakefulError("stale_claim", "this claim was taken over or given back")


def _require(row: Record, allowed: tuple[RunStatus, ...]) -> None:
    if row["status"] not in allowed:
        raise _invalid_transition(row)


def _invalid_transition(row: Record) -> WakefulError:
    return WakefulError("invalid_transition", f"the run is {row['status']}")


def _count(field: str, value: int | None) -> int | None:
    if value is not None and not 0 <= value <= limits.OFFSET_MAX:
        raise invalid(field, f"{field} must be between 0 and {limits.OFFSET_MAX}")
    return value


def _cut(text: str, bytes_max: int) -> str:
    """Return the beginning of `text` that fits, never half a character."""
    return text.encode()[:bytes_max].decode(errors="ignore")
