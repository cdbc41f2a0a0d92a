"""What follows from the pending inputs of one rule: the only place that decides it.

Whether a fact reaches a rule was decided when it was captured; from there on dispatch, explain
and the tests all ask `decide`. It is pure: the snapshot was read under the rule's locks, the
instant comes from the caller (W-084), and the decision lists every effect, to be committed as a
whole or not at all (W-079).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain import evidence, receipts, timers
from engine.domain.evidence import Fact
from engine.domain.records import Json, Kind, Mode, OwnRun, Receipt, Rule, RunStatus, Snapshot
from engine.domain.texts import instant_text
from engine.limits import CLAIM_RECOVERY_SECONDS, SUMMARY_CHARS_MAX

MANUAL: Final = "wakeup.manual"
SUMMARY_PREFIX: Final = "Wakeup: "
CLOSED: Final = "Switched off: the issue is closed."
RECOVERY_WAIT: Final = (
    "The run was claimed but has not started; further inputs wait for the recovery of the claim."
)
REPLACED: Final = "Cancelled before it started: the wakeup was changed meanwhile."

_RECOVERY: Final = timedelta(seconds=CLAIM_RECOVERY_SECONDS)
_NO_MORE_TIMES: Final = "The schedule has no further time."
REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "disabled": "The wakeup is switched off.",
        "issue_closed": CLOSED,
        "agent_unavailable": "Switched off: the agent is archived or has no runtime.",
        "permission_lost": "Switched off: its creator may no longer invoke the agent.",
    }
)


class Outcome(StrEnum):
    """What became of the inputs, in one word."""

    STARTED = "started"  # a new run carries them
    ADDED = "added"  # the rule's queued run carries them, too (W-099)
    HELD = "held"  # the rule's run is claimed or outdated: they wait (W-100)
    DISCARDED = "discarded"  # of another revision, or too late for a one-shot (W-067, W-080)
    SWITCHED_OFF = "switched_off"  # the rule may not go on (W-080)
    DELETED = "deleted"  # its issue is gone
    ADVANCED = "advanced"  # a spent one-shot was put to rest, there were no inputs
    IDLE = "idle"  # nothing to do


@attrs.frozen(kw_only=True)
class ReceiptRef:
    """One version of a receipt: a merge rotates `id`, so a newer one stays pending (W-063)."""

    seq: int
    id: UUID


@attrs.frozen(kw_only=True)
class DueFact:
    """The `time.due` receipt to write; `event_key` is the planned instant (W-117)."""

    event_key: str
    payload: Json


@attrs.frozen(kw_only=True)
class RunDraft:
    """A run to queue (W-095). The originator is accountable, too; its scope is the rule."""

    agent_id: UUID
    issue_id: UUID
    runtime_id: UUID
    priority: str
    trigger_comment_id: UUID | None
    trigger_summary: str
    handoff_note: str
    context: Json
    originator_user_id: UUID
    delegated_from_task_id: UUID | None


@attrs.frozen(kw_only=True)
class RunRefresh:
    """The new note and context of the rule's queued run; nothing else of it changes (W-099)."""

    run_id: UUID
    handoff_note: str
    context: Json


@attrs.frozen(kw_only=True)
class Activity:
    """One timeline entry; whoever writes it adds the `task_id` of the run that was started."""

    action: str
    actor_type: str
    actor_id: UUID | None
    details: Json


@attrs.frozen(kw_only=True)
class Decision:
    """Every effect of one dispatch of one rule; `enabled` to `last_error` are the row's new values.

    `reason` is an explain code (W-255) or None where the outcome says all. `consume` and `discard`
    name free receipts exactly as read. `due` is written, free or, with `due_consumed`, consumed
    by the same run; receipts in `discard` make room for it. `disable` sets `disabled_at` if it is
    null and discards whatever else is pending. `cancel_unstarted` is the error text for the
    rule's unstarted runs.
    """

    rule_id: UUID
    revision: int
    outcome: Outcome
    reason: str | None
    enabled: bool
    next_fire_at: datetime | None
    last_error: str | None
    consume: tuple[ReceiptRef, ...] = ()
    discard: tuple[ReceiptRef, ...] = ()
    due: DueFact | None = None
    due_consumed: bool = False
    start: RunDraft | None = None
    refresh: RunRefresh | None = None
    disable: bool = False
    cancel_unstarted: str | None = None
    delete_rule: bool = False
    activities: tuple[Activity, ...] = ()


@attrs.frozen(kw_only=True)
class _Inputs:
    """What waits for the rule: receipts that count, receipts that do not, and where its timer is.

    `due` is the timer's new fact, `exhausted` says that its schedule has ended.
    """

    receipts: Sequence[Receipt]
    discard: Sequence[Receipt]
    enabled: bool
    next_fire_at: datetime | None
    due: DueFact | None = None
    exhausted: bool = False


def decide(snapshot: Snapshot, now: datetime) -> Decision:
    """Decide one dispatch of one rule at the instant `now`.

    Raises `invalid_schedule` if a stored cron rule cannot be read any more; nothing else.
    """
    rule = snapshot.rule
    if not snapshot.issue_exists:
        return _unchanged(rule, Outcome.DELETED, delete_rule=True)
    refusal = _refusal(snapshot)
    if refusal is not None:
        return _refused(snapshot, refusal)
    inputs = _inputs(snapshot, now)
    run = snapshot.own_run
    if run is not None and run.status is RunStatus.DISPATCHED:
        return _held_by_claim(rule, inputs, run, now)
    if run is not None and run.context.get("wakeup_revision") != rule.revision:
        return _held_by_outdated(rule, inputs)
    if inputs.receipts or inputs.due is not None:
        return _fired(snapshot, inputs)
    return _rested(rule, inputs)


def describe_rule(rule: Rule) -> dict[str, Any]:
    """Return the copy of a rule for `details.wakeup`: readable after edit or deletion (W-233)."""
    return {
        "id": str(rule.id),
        "kind": rule.kind.value,
        "mode": rule.mode.value,
        "event_types": list(rule.event_types),
        "agent_id": str(rule.agent_id),
        "created_by": str(rule.created_by),
        "source_task_id": _text(rule.source_task_id),
        "filter_agent_id": _text(rule.filter_agent_id),
        "filter_task_id": _text(rule.filter_task_id),
        "filter_actor_type": rule.filter_actor_type,
        "filter_actor_id": _text(rule.filter_actor_id),
        "interval_seconds": rule.interval_seconds,
        "cron_expression": rule.cron_expression,
        "timezone": rule.timezone,
        "next_fire_at": None if rule.next_fire_at is None else instant_text(rule.next_fire_at),
    }


# --- May the rule go on? ------------------------------------------------------------------------


def _refusal(snapshot: Snapshot) -> str | None:
    """Return why the rule may not go on (W-080), as an explain code."""
    if snapshot.rule.disabled_at is not None:
        return "disabled"
    if snapshot.issue_closed:
        return "issue_closed"
    if snapshot.agent_archived or snapshot.runtime_id is None:
        return "agent_unavailable"
    if not snapshot.may_invoke:
        return "permission_lost"
    return None


def _refused(snapshot: Snapshot, reason: str) -> Decision:
    """Switch the rule off for good, unless it rests anyway: a spent one-shot stays spent."""
    rule = snapshot.rule
    run = snapshot.own_run
    is_queued = run is not None and run.status is RunStatus.QUEUED
    if not rule.enabled and not snapshot.receipts and not is_queued:
        return _unchanged(rule, Outcome.IDLE, reason)
    text = REFUSALS[reason]
    return Decision(
        rule_id=rule.id,
        revision=rule.revision,
        outcome=Outcome.SWITCHED_OFF,
        reason=reason,
        enabled=False,
        disable=True,
        next_fire_at=rule.next_fire_at,
        # Of a rule that is off already, the text that says why it went off is the better one.
        last_error=(rule.last_error or text) if reason == "disabled" else text,
        discard=_refs(snapshot.receipts),
        cancel_unstarted=text,
    )


# --- What are the inputs? -----------------------------------------------------------------------


def _inputs(snapshot: Snapshot, now: datetime) -> _Inputs:
    """Sort the receipts and move the timer.

    A fact of another revision does not count (W-067), nor does one that comes after a one-shot
    has fired; a wake-up by hand still does (W-031). The timer of a spent one-shot rests.
    """
    rule = snapshot.rule
    if rule.mode is Mode.ONCE and rule.last_task_id is not None:
        fresh, stale = _split(
            snapshot.receipts, lambda r: r.revision == rule.revision and r.event_type == MANUAL
        )
        return _Inputs(receipts=fresh, discard=stale, enabled=False, next_fire_at=rule.next_fire_at)
    fresh, stale = _split(snapshot.receipts, lambda r: r.revision == rule.revision)
    inputs = _Inputs(
        receipts=fresh, discard=stale, enabled=rule.enabled, next_fire_at=rule.next_fire_at
    )
    step = timers.due_step(rule, now)
    return inputs if step is None else _advanced(rule, inputs, *step)


def _advanced(
    rule: Rule, inputs: _Inputs, planned: datetime, following: datetime | None
) -> _Inputs:
    """Return the inputs with the fact that the timer is due, and the timer set anew.

    The new fact replaces an older pending one, except when that is the very same (W-117). An `at`
    rule is spent, its planned time stays readable (W-114).
    """
    payload = timers.due_payload(rule, planned)
    due = DueFact(event_key=payload["event_id"], payload=payload)
    fresh, replaced = _split(
        inputs.receipts, lambda r: r.event_type != timers.TIME_DUE or r.event_key == due.event_key
    )
    is_known = any(r.event_key == due.event_key for r in fresh)
    return _Inputs(
        receipts=fresh,
        discard=(*inputs.discard, *replaced),
        enabled=rule.kind is not Kind.AT,
        next_fire_at=following,
        due=None if is_known else due,
        exhausted=following is None,
    )


# --- What follows? ------------------------------------------------------------------------------


def _held_by_claim(rule: Rule, inputs: _Inputs, run: OwnRun, now: datetime) -> Decision:
    """Keep the inputs free: a claimed prompt is immutable (W-100); timers go on (W-118)."""
    if _waits_for_recovery(run, now):
        return _kept(rule, inputs, "claim_recovery_wait", last_error=RECOVERY_WAIT)
    return _kept(rule, inputs, "own_run_claimed", last_error=rule.last_error)


def _held_by_outdated(rule: Rule, inputs: _Inputs) -> Decision:
    """Keep the inputs free and withdraw the queued run: the claim gate would refuse it (W-106).

    Such a run is the retry of one that was running when the rule was saved (W-021). Facts added
    to it would be lost with it; when it has left the queue, the rule is dispatched again (W-071).
    """
    return _kept(rule, inputs, None, last_error=rule.last_error, cancel_unstarted=REPLACED)


def _kept(
    rule: Rule,
    inputs: _Inputs,
    reason: str | None,
    *,
    last_error: str | None,
    cancel_unstarted: str | None = None,
) -> Decision:
    return Decision(
        rule_id=rule.id,
        revision=rule.revision,
        outcome=Outcome.HELD,
        reason=reason,
        enabled=inputs.enabled,
        next_fire_at=inputs.next_fire_at,
        last_error=last_error,
        discard=_refs(inputs.discard),
        due=inputs.due,
        cancel_unstarted=cancel_unstarted,
    )


def _waits_for_recovery(run: OwnRun, now: datetime) -> bool:
    """Tell whether a claim is 90 s old without start and without a live prepare lease (W-100)."""
    assert run.dispatched_at is not None, "a dispatched run has a claim generation"
    is_leased = run.lease_expires_at is not None and run.lease_expires_at > now
    return now - run.dispatched_at >= _RECOVERY and not is_leased


def _rested(rule: Rule, inputs: _Inputs) -> Decision:
    """Nothing to run for: discard what does not count, put a spent timer to rest."""
    if inputs.discard:
        outcome = Outcome.DISCARDED
    elif inputs.enabled != rule.enabled:
        outcome = Outcome.ADVANCED
    else:
        outcome = Outcome.IDLE
    return Decision(
        rule_id=rule.id,
        revision=rule.revision,
        outcome=outcome,
        reason=_resting_reason(rule, inputs),
        enabled=inputs.enabled,
        next_fire_at=inputs.next_fire_at,
        last_error=rule.last_error,
        discard=_refs(inputs.discard),
    )


def _resting_reason(rule: Rule, inputs: _Inputs) -> str | None:
    if rule.mode is Mode.ONCE and rule.last_task_id is not None:
        return "consumed"
    if not inputs.enabled:
        return None
    return "waiting_event" if rule.kind is Kind.EVENT else "waiting_time"


def _fired(snapshot: Snapshot, inputs: _Inputs) -> Decision:
    """Put the inputs into the queued run, else into a new one, and spend a one-shot."""
    rule = snapshot.rule
    run = snapshot.own_run
    facts = _facts(inputs)
    note = evidence.write_note(rule, facts, run)
    context = {evidence.CONTEXT_KEY: note.evidence.to_json()}
    start, refresh = None, None
    if run is None:
        start = _draft(snapshot, note.text, context)
    else:
        refresh = RunRefresh(
            run_id=run.id, handoff_note=note.text, context={**run.context, **context}
        )
    return Decision(
        rule_id=rule.id,
        revision=rule.revision,
        outcome=Outcome.STARTED if run is None else Outcome.ADDED,
        reason=None,
        enabled=inputs.enabled and rule.mode is Mode.CONTINUOUS,
        next_fire_at=inputs.next_fire_at,
        last_error=_NO_MORE_TIMES if inputs.exhausted else None,
        consume=_refs(inputs.receipts),
        discard=_refs(inputs.discard),
        due=inputs.due,
        due_consumed=inputs.due is not None,
        start=start,
        refresh=refresh,
        activities=() if run is not None else _triggered(rule, facts),
    )


def _facts(inputs: _Inputs) -> list[Fact]:
    """Return the inputs as facts for the agent, the newest last."""
    facts = [
        Fact(event_type=r.event_type, payload=r.payload, receipt_id=r.id) for r in inputs.receipts
    ]
    if inputs.due is not None:
        facts.append(Fact(event_type=timers.TIME_DUE, payload=inputs.due.payload))
    return facts


def _draft(snapshot: Snapshot, note: str, context: Json) -> RunDraft:
    """Return the run of a firing (W-095, W-096)."""
    rule = snapshot.rule
    assert snapshot.runtime_id is not None, "an agent without a runtime is refused"
    return RunDraft(
        agent_id=rule.agent_id,
        issue_id=rule.issue_id,
        runtime_id=snapshot.runtime_id,
        priority=snapshot.issue_priority,
        trigger_comment_id=rule.parent_comment_id,
        trigger_summary=SUMMARY_PREFIX + rule.instruction[:SUMMARY_CHARS_MAX],
        handoff_note=note,
        context={"wakeup_id": str(rule.id), "wakeup_revision": rule.revision, **context},
        originator_user_id=rule.created_by,
        delegated_from_task_id=rule.source_task_id,
    )


def _triggered(rule: Rule, facts: Sequence[Fact]) -> tuple[Activity, ...]:
    """Return the timeline entry of one new run; a repeating timer shows as its runs (W-234).

    Facts that join a queued run write none: its entry stands, and a busy day is one line.
    """
    if rule.kind is Kind.EVERY or rule.kind is Kind.CRON:
        return ()
    actor_type, actor_id = _last_actor(facts)
    details = {
        "wakeup": describe_rule(rule),
        "events": list(dict.fromkeys(fact.event_type for fact in facts)),
        "count": sum(receipts.facts_count(fact.payload) for fact in facts),
        "actor_type": actor_type,
        "actor_id": _text(actor_id),
    }
    return (
        Activity(
            action="wakeup_triggered", actor_type=actor_type, actor_id=actor_id, details=details
        ),
    )


def _last_actor(facts: Sequence[Fact]) -> tuple[str, UUID | None]:
    """Return the last member or agent behind the facts, else the system (W-234)."""
    for fact in reversed(facts):
        actor_type = fact.payload.get("actor_type")
        actor_id = fact.payload.get("actor_id")
        if actor_type in ("member", "agent") and isinstance(actor_id, str):
            try:
                return actor_type, UUID(actor_id)
            except ValueError:  # an older or foreign writer's payload must not stop its rule
                continue
    return "system", None


def _unchanged(
    rule: Rule, outcome: Outcome, reason: str | None = None, *, delete_rule: bool = False
) -> Decision:
    return Decision(
        rule_id=rule.id,
        revision=rule.revision,
        outcome=outcome,
        reason=reason,
        enabled=rule.enabled,
        next_fire_at=rule.next_fire_at,
        last_error=rule.last_error,
        delete_rule=delete_rule,
    )


def _split(
    receipts_: Sequence[Receipt], counts: Callable[[Receipt], bool]
) -> tuple[list[Receipt], list[Receipt]]:
    """Return the receipts that count and those that do not, each in order."""
    fresh: list[Receipt] = []
    stale: list[Receipt] = []
    for receipt in receipts_:
        (fresh if counts(receipt) else stale).append(receipt)
    return fresh, stale


def _refs(receipts_: Sequence[Receipt]) -> tuple[ReceiptRef, ...]:
    return tuple(ReceiptRef(seq=r.seq, id=r.id) for r in receipts_)


def _text(identifier: UUID | None) -> str | None:
    return None if identifier is None else str(identifier)
