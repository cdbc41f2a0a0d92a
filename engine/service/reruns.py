"""A run once more, because somebody asks for it (W-111).

What waits in the same scope is cancelled in its favour, and nothing that it was to tell the agent
is lost: the facts, comments and notes of the cancelled runs go along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from engine import limits
from engine.domain import evidence
from engine.domain.claim_gate import GateRule, GateRun, Refusal, describe, refusal
from engine.domain.commands.runs import RerunIssue
from engine.domain.principal import PrincipalKind
from engine.domain.records import Json, OwnRun, RunStatus
from engine.domain.views.runs import RunView
from engine.errors import WakefulError, agent_unavailable, invalid, not_found
from engine.service import standing
from engine.service.registry import Work, serves
from engine.service.runs import freed, tell
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.dispatch import rule_of
from engine.storage.runs import run_view
from engine.storage.runs import sql as runs_sql

_sql: Final = queries.load("reruns")
_wakeups: Final = queries.load("wakeups")
_REPLACED: Final = "Cancelled before it started: a run of the same scope was asked for once more."
_AT_WORK: Final = (RunStatus.WAITING, RunStatus.RUNNING)
_NOT_YOURS: Final = (Refusal.CREATOR_CHANGED, Refusal.PERMISSION_LOST)
_CHANGED: Final = (Refusal.TARGET_CHANGED, Refusal.REVISION_CHANGED)


@serves(RerunIssue)
async def rerun_issue(work: Work, command: RerunIssue) -> RunView:
    """Queue a run of the issue once more with the caller's authority: the named one or the latest.

    Cancels what waits in its scope. Locks workspace, member, agent and issue (KEY SHARE), the rule
    of a wakeup run, and the waiting runs. Raises 404 for the issue, 400 for a run that is not the
    issue's or at work and for an agent that cannot run, 403 when the person behind the call may not
    invoke the agent, or did not leave the wakeup; 400 and 409 for a wakeup that is off or changed.
    """
    await standing.stand_at(work, command.issue_id)
    person = work.caller.person_id
    if person is None:
        raise WakefulError("no_human_principal", "no person stands behind this run")
    original = await _original(work, command)
    owners = await work.session.fetchrow(runs_sql.owners, command.issue_id, original["agent_id"])
    if owners is None:
        raise not_found("agent")
    if not await work.session.fetchval(
        runs_sql.may_invoke, command.issue_id, original["agent_id"], person
    ):
        raise WakefulError("cannot_invoke_agent", "you may not invoke this agent")
    if owners["archived"] or owners["runtime_id"] is None:
        raise agent_unavailable()
    rule = await _standing_rule(work, original, person)
    made = await _replace_pending(work, original, rule, person)
    await tell(
        work,
        made["id"],
        "run_rerun",
        work.caller.actor_type,
        work.caller.actor_id,
        rerun_of_task_id=str(original["id"]),
    )
    work.queued(made["runtime_id"])
    return run_view(made)


async def _original(work: Work, command: RerunIssue) -> Record:
    row = await work.session.fetchrow(_sql.original, command.issue_id, command.task_id)
    if row is None and command.task_id is None:
        raise WakefulError("invalid_transition", "no run of this issue has ended yet")
    if row is None:
        raise invalid("task_id", "the issue has no such run")
    return _not_at_work(row)


async def _as_it_stands(work: Work, original: Record) -> Record:
    """Return the run once nobody can change it: until then it may have taken facts, or started."""
    row = await work.session.fetchrow(runs_sql.run, original["id"])
    assert row is not None, "runs go with their workspace alone, which is held"
    return _not_at_work(row)


def _not_at_work(row: Record) -> Record:
    if row["status"] in _AT_WORK:
        raise WakefulError("invalid_transition", f"the run is {row['status']}")
    return row


async def _standing_rule(work: Work, original: Record, person: UUID) -> Record | None:
    """Return the locked rule behind a wakeup run, None for another run.

    Asks now what the claim would ask (W-106), so that nothing is queued only to be refused.
    """
    if original["wakeup_id"] is None:
        return None
    row = await work.session.fetchrow(_sql.lock_rule, original["wakeup_id"])
    check = refusal(
        GateRun(
            issue_id=original["issue_id"],
            agent_id=original["agent_id"],
            originator_user_id=person,
            has_issue=True,
            may_invoke=True,
            has_runtime=True,
            is_wakeup=True,
            is_system=isinstance(original["context"].get("wakeup_system"), str),
            revision=original["context"].get("wakeup_revision"),
            rule=None if row is None else _gate_rule(row),
        )
    )
    if check in _NOT_YOURS:
        raise WakefulError("cannot_invoke_agent", "only who left the wakeup may run it once more")
    if check in _CHANGED:
        raise WakefulError("stale_revision", describe(check))
    if check is not None:
        raise WakefulError("wakeup_disabled", describe(check))
    return row


def _gate_rule(row: Record) -> GateRule:
    return GateRule(
        issue_id=row["issue_id"],
        agent_id=row["agent_id"],
        created_by=row["created_by"],
        revision=row["revision"],
        is_enabled=row["enabled"],
        is_off=row["disabled_at"] is not None,
    )


async def _replace_pending(
    work: Work, original: Record, rule: Record | None, person: UUID
) -> Record:
    """Cancel what waits in the scope of the run, and queue it once more with what they carried.

    The run itself is read again under the locks: who waits for them may see it change.
    """
    caller = work.caller
    is_delegated = caller.kind is PrincipalKind.RUN
    waiting: list[Record] = []
    for _ in range(limits.CLAIM_ROUNDS_MAX):
        found = await work.session.fetch(_sql.lock_pending, original["id"])
        original = await _as_it_stands(work, original)
        await _cancel(work, found)
        waiting += found
        note, context = _carried(original, waiting, rule)
        made = await work.session.fetchrow(
            _sql.insert,
            original["id"],
            note,
            context,
            person,
            "delegation" if is_delegated else "direct_human",
            caller.run_id,
        )
        if made is not None:
            return made
    raise WakefulError("contention", "other requests kept taking the place of this run")


async def _cancel(work: Work, waiting: Sequence[Record]) -> None:
    if not waiting:
        return
    ids = [row["id"] for row in waiting]
    await work.session.execute(_wakeups.cancel_runs, ids, _REPLACED)
    await work.session.execute(runs_sql.end_claims, ids)
    caller = work.caller
    for row in waiting:
        await tell(work, row["id"], "run_cancelled", caller.actor_type, caller.actor_id)
        freed(work, row)


# --- What goes along ----------------------------------------------------------------------------


def _carried(original: Record, waiting: Sequence[Record], rule: Record | None) -> tuple[str, Json]:
    """Return note and context of the new run; a check-in was about the old one."""
    others = [row for row in waiting if row["id"] != original["id"]]
    context = {k: v for k, v in original["context"].items() if k != "wakeup_checkin"}
    if rule is None:
        return _notes([original, *others]), context | _comments(original, others)
    facts = [
        fact
        for row in others
        if (told := evidence.parse(row["context"].get(evidence.CONTEXT_KEY))) is not None
        for fact in told.facts
    ]
    if not facts:
        return original["handoff_note"], context
    old = OwnRun(
        id=original["id"],
        status=RunStatus.QUEUED,
        handoff_note=original["handoff_note"],
        context=original["context"],
        dispatched_at=None,
        lease_expires_at=None,
    )
    note = evidence.write_note(rule_of(rule), facts, old)
    return note.text, context | {evidence.CONTEXT_KEY: note.evidence.to_json()}


def _notes(rows: Sequence[Record]) -> str:
    """Return the notes of ordinary runs, each once, as far as they fit."""
    text = ""
    for note in dict.fromkeys(row["handoff_note"] for row in rows if row["handoff_note"]):
        longer = f"{text}\n\n{note}" if text else note
        if len(longer.encode()) <= limits.NOTE_BYTES_MAX:
            text = longer
    return text


def _comments(original: Record, others: Sequence[Record]) -> dict[str, list[str]]:
    """Return the comments that the cancelled runs were about, beside the run's own."""
    ids: dict[str, None] = {}
    for row in (original, *others):
        if row["trigger_comment_id"] not in (None, original["trigger_comment_id"]):
            ids[str(row["trigger_comment_id"])] = None
        ids.update(dict.fromkeys(row["context"].get("coalesced_comment_ids", ())))
    kept = list(ids)[: limits.COALESCED_COMMENTS_MAX]
    return {"coalesced_comment_ids": kept} if kept else {}
