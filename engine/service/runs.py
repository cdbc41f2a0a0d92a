"""Runs as people and agents use them: list, read, queue by hand, stop (W-094).

Runs of wakeups and ordinary runs are listed and stopped alike. Who may read an issue may read its
runs; queueing and stopping take the right to invoke the agent, read in the same transaction.
"""

from __future__ import annotations

from uuid import UUID

from engine import limits
from engine.domain import fields
from engine.domain.access import may_read
from engine.domain.commands.runs import CancelRun, CreateRun, GetRun, ListRunMessages, ListRuns
from engine.domain.lifecycle import may_move
from engine.domain.principal import PrincipalKind
from engine.domain.records import RunStatus
from engine.domain.views import Page
from engine.domain.views.runs import CreatedRunView, RunMessageView, RunView
from engine.errors import WakefulError, not_found
from engine.service import standing
from engine.service.enqueue import OrdinaryRun, RunReason, enqueue_run
from engine.service.registry import Work, serves
from engine.storage.database import Record
from engine.storage.paging import fetch_page
from engine.storage.runs import run_fields, run_view, sql


@serves(ListRuns)
async def list_runs(work: Work, query: ListRuns) -> Page[RunView]:
    """Return the runs of an issue, newest first. Raises 404, and 400 for status and bounds."""
    await standing.read_issue(work, query.issue_id)
    if query.status is not None:
        fields.choice("status", query.status, tuple(RunStatus))
    rows, total = await fetch_page(
        work.session, sql.list, query.issue_id, query.status, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(run_view(row) for row in rows), total=total)


@serves(GetRun, is_single=True)
async def get_run(work: Work, query: GetRun) -> RunView:
    """Return one run. Raises 404 when it is not there for the caller."""
    return run_view(await _readable(work, query.run_id))


@serves(ListRunMessages)
async def list_run_messages(work: Work, query: ListRunMessages) -> Page[RunMessageView]:
    """Return a part of a run's transcript. Raises as `get_run`, and 400 for the bounds."""
    await _readable(work, query.run_id)
    rows, total = await fetch_page(
        work.session, sql.messages, query.run_id, limit=query.limit, offset=query.offset
    )
    items = tuple(
        RunMessageView(seq=row["seq"], line=row["line"], created_at=row["created_at"])
        for row in rows
    )
    return Page(items=items, total=total)


@serves(CreateRun)
async def create_run(work: Work, command: CreateRun) -> CreatedRunView:
    """Queue a run by hand, or join the pending one of the same issue and agent (W-098).

    Locks workspace, member, agent and issue (KEY SHARE), and a pending run in the way. Raises 404
    for issue or agent, 403 when the person behind the call may not invoke the agent, 400 for the
    note and for an agent that is archived or has no runtime.
    """
    await standing.stand_at(work, command.issue_id)
    note = fields.text("note", command.note, bytes_max=limits.NOTE_BYTES_MAX).strip()
    person = work.caller.person_id
    if person is None:
        raise WakefulError("no_human_principal", "no person stands behind this run")
    may_invoke = await work.session.fetchval(
        sql.may_invoke, command.issue_id, command.agent_id, person
    )
    if may_invoke is None:
        raise not_found("agent")
    if not may_invoke:
        raise WakefulError("cannot_invoke_agent", "you may not invoke this agent")
    is_delegated = work.caller.kind is PrincipalKind.RUN
    queued = await enqueue_run(
        work,
        OrdinaryRun(
            agent_id=command.agent_id,
            issue_id=command.issue_id,
            reason=RunReason.BY_HAND,
            note=note,
            originator_user_id=person,
            originator_source="delegation" if is_delegated else "direct_human",
            delegated_from_task_id=work.caller.run_id,
            fire_at=command.fire_at,
        ),
    )
    row = await work.session.fetchrow(sql.run, queued.id)
    assert row is not None, "it was written a moment ago"
    return CreatedRunView(**run_fields(row), created=queued.created)


@serves(CancelRun)
async def cancel_run(work: Work, command: CancelRun) -> RunView:
    """Stop a run that has not ended; stopping it again changes nothing.

    Ends its credential and lease. Locks workspace and member (KEY SHARE) and the run. Raises 404,
    403 when the person behind the call may not invoke the run's agent, 400 when it ended otherwise.
    """
    found = await _readable(work, command.run_id)
    await standing.stand_in(work, found["workspace_id"])
    row = await work.session.fetchrow(sql.lock, command.run_id, work.caller.person_id)
    if row is None:
        raise not_found("run")
    if not row["may_invoke"]:
        raise WakefulError("cannot_invoke_agent", "you may not stop runs of this agent")
    if row["status"] == RunStatus.CANCELLED:
        return run_view(row)
    if not may_move(RunStatus(row["status"]), RunStatus.CANCELLED):
        raise WakefulError("invalid_transition", f"the run is {row['status']}")
    ended = await work.session.fetchrow(sql.cancel, command.run_id)
    assert ended is not None, "its row is locked"
    await work.session.execute(sql.end_claim, command.run_id)
    caller = work.caller
    await tell(work, ended["id"], "run_cancelled", caller.actor_type, caller.actor_id)
    freed(work, ended)
    return run_view(ended)


def freed(work: Work, row: Record) -> None:
    """Say what follows from a run that no longer is what it was.

    What it kept from running can be claimed now. Facts that waited for it are told of by the
    change of the row itself, and only if there are any (W-071, `wake_waiting_inputs`).
    """
    work.queued(row["runtime_id"])


async def tell(
    work: Work,
    run_id: UUID,
    action: str,
    actor_type: str,
    actor_id: UUID | None,
    **details: str,
) -> None:
    """Write an entry about a run into its issue's timeline."""
    await work.session.execute(sql.tell, run_id, actor_type, actor_id, action, details)


async def _readable(work: Work, run_id: UUID) -> Record:
    """Return the row of a run that the caller may read; else 403 for a daemon, 404 (W-191)."""
    standing.refuse_daemon(work)
    row = await work.session.fetchrow(sql.run, run_id)
    if row is None or not may_read(work.caller, row["workspace_id"]):
        raise not_found("run")
    return row
