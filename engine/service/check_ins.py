"""Check-ins: the run of a scheduled check says that it looked and has nothing to report."""

from __future__ import annotations

from engine import limits
from engine.domain.commands.wakeups import CheckIn
from engine.domain.decision import describe_rule
from engine.domain.records import Kind, RunStatus
from engine.domain.texts import storable_text
from engine.errors import WakefulError, invalid
from engine.service import timeline
from engine.service.registry import Work, serves
from engine.service.rule_locks import hold_issue
from engine.service.wakeups import no_rule
from engine.storage.dispatch import rule_of
from engine.storage.wakeups import sql


@serves(CheckIn, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def check_in(work: Work, command: CheckIn) -> None:
    """Keep a note in the run that calls, in place of a comment (W-154, W-155).

    Writes `context.wakeup_checkin` of the run and `wakeup_checkin`. Locks workspace, member, issue
    and the run, which so cannot end meanwhile; the rule is only read, for nothing of it changes.
    Raises 404; 400 for the note, and for a rule that is no schedule; 403 unless the caller is a
    run of this rule; 409 unless that run is running.
    """
    note = _note(command.note)
    held = await hold_issue(work, command.issue_id)
    row = await work.session.fetchrow(sql.get, held.issue_id, command.rule_id)
    if row is None:
        raise no_rule()
    rule = rule_of(row)
    caller = work.caller
    status = await work.session.fetchval(
        sql.lock_own_run, caller.run_id, rule.id, held.issue_id, caller.agent_id
    )
    if status is None:
        raise WakefulError("not_allowed", "only a run of this wakeup may check in")
    if status != RunStatus.RUNNING:
        raise WakefulError("conflict", f"the run is {status}; only a running one checks in")
    if rule.kind not in {Kind.EVERY, Kind.CRON}:
        raise WakefulError("invalid_input", "only wakeups of kind every or cron are checked in to")
    await work.session.execute(sql.check_in, caller.run_id, note)
    await timeline.record(
        work,
        held.workspace_id,
        held.issue_id,
        "wakeup_checkin",
        note=note,
        task_id=str(caller.run_id),
        wakeup=describe_rule(rule),
    )


def _note(value: str) -> str:
    """Return a note without surrounding blanks: 1 to 500 characters, lines included."""
    note = storable_text("note", value).strip()
    if not 0 < len(note) <= limits.CHECK_IN_CHARS_MAX:
        raise invalid("note", f"note must have 1 to {limits.CHECK_IN_CHARS_MAX} characters")
    return note
