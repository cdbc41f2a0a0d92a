"""A daemon reports on many runs in one call: one transaction for all that can be done at once.

Each run has an outcome of its own. One that is refused, or that somebody else holds at this moment,
keeps none of the others back. What a report may do is decided by `engine/service/reports.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from engine import limits
from engine.domain.commands.runs import CompleteRun, CompleteRuns, StartRun, StartRuns
from engine.domain.decision import RECOVERY_WAIT
from engine.domain.records import RunStatus
from engine.domain.views.runs import ReportedRun
from engine.errors import WakefulError, invalid, not_found
from engine.service.daemons import daemon_mismatch, require_daemon
from engine.service.registry import Work, serves
from engine.service.reports import comment_of, end_is_due, result_of, start_is_due
from engine.storage.database import Lane, Record
from engine.storage.runs import sql

R = TypeVar("R", StartRun, CompleteRun)


@serves(StartRuns, lane=Lane.CLAIM)
async def start_runs(work: Work, command: StartRuns) -> tuple[ReportedRun, ...]:
    """Start claims, each as `start_run` does; answers in the order of the reports.

    Locks issues (KEY SHARE), marked rules and runs, without waiting: what others hold is answered
    with `contention`. Raises 400 for too many.
    """
    held = await _held(work, command.reports)
    outcomes, due = _judged(held, command.reports, _start_is_due, RunStatus.RUNNING)
    if due:
        await work.session.execute(sql.start_many, list(due))
        await _unmark(work, [held[run_id] for run_id in due])
    return outcomes


@serves(CompleteRuns, lane=Lane.CLAIM)
async def complete_runs(work: Work, command: CompleteRuns) -> tuple[ReportedRun, ...]:
    """End running runs with their outputs, each as `complete_run` does; locks as `start_runs`."""
    held = await _held(work, command.reports)
    outcomes, due = _judged(held, command.reports, _end_is_due, RunStatus.COMPLETED)
    if due:
        results = [result_of(each) for each in due.values()]
        for row in await work.session.fetch(sql.complete_many, list(due), results):
            work.queued(row["runtime_id"])
    if comments := {run_id: text for run_id, each in due.items() if (text := comment_of(each))}:
        await work.session.execute(sql.fallback_comments, list(comments), list(comments.values()))
    return outcomes


def refused(run_id: UUID, error: WakefulError) -> ReportedRun:
    """Return the outcome of a report that was refused."""
    return ReportedRun(id=run_id, code=error.code, message=error.message)


def _start_is_due(row: Record | None, command: StartRun) -> bool:
    return start_is_due(_own(row), command)


def _end_is_due(row: Record | None, command: CompleteRun) -> bool:
    result_of(command)  # what is wrong with a field is said first
    return end_is_due(_own(row), command)


async def _held(work: Work, reports: Sequence[StartRun | CompleteRun]) -> Mapping[UUID, Record]:
    """Lock what can be locked and return the rows of the runs that are there, held or not."""
    if len(reports) > limits.CLAIM_TASKS_MAX:
        raise invalid("tasks", f"at most {limits.CLAIM_TASKS_MAX} runs in one call")
    workspace_id, token_id = require_daemon(work)
    wanted = list({each.run_id: None for each in reports})
    if not wanted:
        return {}
    rows = await work.session.fetch(
        sql.lock_reported, wanted, workspace_id, token_id, RECOVERY_WAIT
    )
    return {row["id"]: row for row in rows}


def _judged(
    held: Mapping[UUID, Record],
    reports: Sequence[R],
    is_due: Callable[[Record | None, R], bool],
    status: RunStatus,
) -> tuple[tuple[ReportedRun, ...], dict[UUID, R]]:
    """Return the outcome of each report once all that is due is done, and what is due.

    Of two reports on one run the first is due; the second finds it done, as it would alone.
    """
    outcomes: list[ReportedRun] = []
    due: dict[UUID, R] = {}
    for each in reports:
        try:
            if is_due(held.get(each.run_id), each):
                due.setdefault(each.run_id, each)
        except WakefulError as error:
            outcomes.append(refused(each.run_id, error))
        else:
            outcomes.append(ReportedRun(id=each.run_id, status=status))
    return tuple(outcomes), due


def _own(row: Record | None) -> Record:
    if row is None:
        raise not_found("run")
    if not row["owned"]:
        raise daemon_mismatch()
    if row["is_held"]:
        raise WakefulError("contention", "others hold the run or its issue; report it again")
    return row


async def _unmark(work: Work, rows: Sequence[Record]) -> None:
    """Their rules do not wait for the recovery of a claim any more (W-253)."""
    for row in rows:
        if row["marked_rule_id"] is not None:
            await work.session.execute(sql.unmark, row["marked_rule_id"])
