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
from engine.domain.decision import RECOVERY_WAIT
from engine.domain.records import RunStatus
from engine.domain.texts import storable_text, trimmed_text
from engine.domain.views.runs import RunStatusView, RunView
from engine.errors import WakefulError, invalid, not_found
from engine.service.daemons import daemon_mismatch, require_daemon
from engine.service.failing import is_retried, retry
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
    row = await _claimed(work, command.run_id)
    _require(row, _PREPARING)
    await work.session.execute(sql.renew_lease, command.run_id, limits.PREPARE_LEASE_SECONDS)
    return run_view(row)


@serves(StartRun, lane=Lane.CLAIM)
async def start_run(work: Work, command: StartRun) -> RunView:
    """Start the claim of this generation; starting it again changes nothing.

    Ends the lease. Raises 404, 409 `stale_claim` for another generation, 400 for a run that is not
    claimed or has ended.
    """
    row = await _held(work, command.run_id)
    if not start_is_due(row, command):
        return run_view(row)
    started = await _moved(work, sql.start, command.run_id)
    await _unmark(work, row)
    await tell(work, started["id"], "run_started", "agent", started["agent_id"])
    return run_view(started)


@serves(WaitLocalDirectory, lane=Lane.CLAIM)
async def wait_local_directory(work: Work, command: WaitLocalDirectory) -> RunView:
    """Say that the claim waits for its directory; begins its lease anew.

    Raises 404, 409 for another generation, 400 for the reason and for a run not being prepared.
    """
    reason = trimmed_text("reason", command.reason, bytes_max=limits.PROGRESS_BYTES_MAX)
    row = await _held(work, command.run_id)
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
    _require(await _claimed(work, command.run_id), _CLAIMED)
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
    _require(await _claimed(work, command.run_id), (*_CLAIMED, *_ENDED))
    await work.session.execute(sql.append_messages, command.run_id, lines)


@serves(CompleteRun, lane=Lane.CLAIM)
async def complete_run(work: Work, command: CompleteRun) -> RunView:
    """End a running run with its output; a repeated report changes nothing (W-113).

    Posts the output as the agent's comment unless it wrote one since the start (W-112) or the run
    has checked in (W-155); ends the run's credential. Raises 404, 409 for another generation, 400
    for a field or a run not running.
    """
    result = result_of(command)
    row = await _held(work, command.run_id)
    if not end_is_due(row, command):
        return run_view(row)
    ended = await _moved(work, sql.complete, command.run_id, result)
    await work.session.execute(sql.end_claim, command.run_id)
    if comment := comment_of(command):
        await work.session.execute(sql.fallback_comments, [command.run_id], [comment])
    await tell(work, ended["id"], "run_completed", "agent", ended["agent_id"])
    freed(work, ended)
    return run_view(ended)


@serves(FailRun, lane=Lane.CLAIM)
async def fail_run(work: Work, command: FailRun) -> RunView:
    """End a claimed run with an error; a repeated report changes nothing (W-113).

    Without a reason it is `agent_error`; some reasons queue another attempt (W-110). Raises 404,
    409 for another generation, 400 for a field or a run that is not claimed.
    """
    error = storable_text("error", command.error)[: limits.RUN_ERROR_CHARS_MAX]
    reason = fields.line(
        "failure_reason",
        command.failure_reason or "agent_error",
        chars_max=limits.FAILURE_REASON_CHARS_MAX,
    )
    row = await _held(work, command.run_id, with_rule=is_retried(reason))
    _fence(row, command.dispatched_at)
    if row["status"] == RunStatus.FAILED:
        return run_view(row)
    _require(row, _CLAIMED)
    ended = await _moved(work, sql.fail, command.run_id, error, reason)
    await _unmark(work, row)
    await work.session.execute(sql.end_claim, command.run_id)
    await tell(work, ended["id"], "run_failed", "agent", ended["agent_id"], failure_reason=reason)
    for again in await retry(work.session, [ended["id"]], reason):
        work.queued(again.runtime_id)
        work.put_off(again.fire_at)
    freed(work, ended)
    return run_view(ended)


@serves(GetRunStatus, lane=Lane.CLAIM, is_single=True)
async def get_run_status(work: Work, query: GetRunStatus) -> RunStatusView:
    """Return the status of a run, so that a running daemon learns of a cancel. Raises 404."""
    row = await _claimed(work, query.run_id, sql.claimed)
    return RunStatusView(status=RunStatus(row["status"]))


async def _claimed(work: Work, run_id: UUID, query: Query = sql.hold_claimed) -> Record:
    """Return the row of a run of the calling daemon, for a report that is written beside it.

    Holds the workspace, for such a report has no other owner. Raises 403 for others' runs, 404.
    """
    workspace_id, token_id = require_daemon(work)
    return _own(await work.session.fetchrow(query, run_id, workspace_id, token_id))


async def _held(work: Work, run_id: UUID, *, with_rule: bool = False) -> Record:
    """Return the same, locked for a report that moves it, `with_rule` also its rule; raises so."""
    workspace_id, token_id = require_daemon(work)
    asked = (run_id, workspace_id, token_id, RECOVERY_WAIT, with_rule)
    return _own(await work.session.fetchrow(sql.lock_claimed, *asked))


def _own(row: Record | None) -> Record:
    if row is None:
        raise not_found("run")
    if not row["owned"]:
        raise daemon_mismatch()
    return row


# --- What a report may do, also where it is one of many (`engine/service/batches.py`) -------------


def start_is_due(row: Record, command: StartRun) -> bool:
    """Tell whether a start has yet to be made. Raises what `start_run` raises for the state."""
    if row["status"] in _ENDED:
        raise _invalid_transition(row)
    _fence(row, command.dispatched_at)
    if row["status"] == RunStatus.RUNNING:  # the answer to the first report was lost
        return False
    _require(row, _PREPARING)
    return True


def end_is_due(row: Record, command: CompleteRun) -> bool:
    """Tell whether an end has yet to be made. Raises what `complete_run` raises for the state."""
    _fence(row, command.dispatched_at)
    if row["status"] == RunStatus.COMPLETED:
        return False
    _require(row, (RunStatus.RUNNING,))
    return True


def result_of(command: CompleteRun) -> dict[str, Any]:
    """Return what is stored of a report. Raises 400 for a field."""
    result = {"output": storable_text("output", command.output)}
    if command.pr_url is not None:
        result["pr_url"] = trimmed_text("pr_url", command.pr_url, bytes_max=limits.URL_BYTES_MAX)
    return result


def comment_of(command: CompleteRun) -> str:
    """Return the comment that a report may become (W-112), empty where there is no output."""
    return _cut(command.output.strip(), limits.COMMENT_BYTES_MAX)


async def _unmark(work: Work, held: Record) -> None:
    """The claim goes on or has ended: its rule does not wait for its recovery (W-253)."""
    if held["marked_rule_id"] is not None:
        await work.session.execute(sql.unmark, held["marked_rule_id"])


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
