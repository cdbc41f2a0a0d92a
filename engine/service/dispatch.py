"""Dispatch: load under locks in one statement, decide in Python, apply in one statement (W-079).

Consumption, run, rule and timeline commit together. A group takes what is free and waits for
nothing; an issue that was left out is worked alone, waiting in lock order for a short time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain.decision import Decision, Outcome, decide
from engine.domain.records import Snapshot
from engine.errors import WakefulError
from engine.storage import dispatch as storage
from engine.storage import queries
from engine.storage.database import Record, Session

CONTENTION: Final = "contention: others held the issue for too long; the next sweep tries again"

_gateway: Final = queries.load("gateway")
_QUIET: Final = (Outcome.IDLE, Outcome.HELD)
UNREADABLE: Final = (  # what a rule that makes no sense raises in `decide`
    WakefulError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


@attrs.frozen(kw_only=True)
class Settled:
    """What became of one rule, for counters and logs; the ids of what it was about.

    `input_at` is when the oldest input came that was consumed, `due_at` when the timer was due,
    `now` the database's time of the dispatch.
    """

    workspace_id: UUID
    issue_id: UUID
    rule_id: UUID
    revision: int
    run_id: UUID | None
    outcome: Outcome
    reason: str | None
    input_at: datetime | None
    due_at: datetime | None
    now: datetime


@attrs.define(kw_only=True)
class Dispatched:
    """What one transaction of dispatch did, valid once it is committed.

    `missed` are issues whose rules somebody else held, `again` issues to look at once more, `due`
    the timers that now stand, `runtimes` those with newly queued runs; `failures` are rules that
    could not be decided, with the text for their `last_error`. `rules` are all that were loaded,
    each with its issue; `settled` those that were decided and carried out.
    """

    rules: dict[UUID, UUID] = attrs.field(factory=dict)
    started: int = 0
    missed: set[UUID] = attrs.field(factory=set)
    again: set[UUID] = attrs.field(factory=set)
    due: list[datetime] = attrs.field(factory=list)
    runtimes: set[UUID] = attrs.field(factory=set)
    failures: dict[UUID, str] = attrs.field(factory=dict)
    settled: list[Settled] = attrs.field(factory=list)


async def dispatch_group(
    session: Session, done: Dispatched, issue_ids: Sequence[UUID], barred: Sequence[UUID]
) -> None:
    """Dispatch the free rules of these issues, `GROUP_RULES_MAX` or one each, into `done`."""
    most = max(limits.GROUP_RULES_MAX, len(issue_ids) + 1)
    rows = await session.fetch(storage.sql.load_group, list(issue_ids), list(barred), most)
    if len(rows) >= most and len(issue_ids) > 1:
        # Not all fitted, in the order of the issues: whoever has no row is to come again, and so
        # is the last one, whose rules may have been cut in two.
        seen = {row["issue_id"] or row["missed_issue_id"] for row in rows}
        last = max(seen, key=issue_ids.index)
        done.again.update(each for each in issue_ids if each not in seen or each == last)
    await _dispatch(session, done, rows)


async def dispatch_alone(
    session: Session, done: Dispatched, issue_id: UUID, barred: Sequence[UUID]
) -> None:
    """Dispatch the rules of one issue, waiting for its locks."""
    rows = await session.fetch(
        storage.sql.load_alone, issue_id, list(barred), limits.GROUP_RULES_MAX
    )
    await _dispatch(session, done, rows)


async def plan(session: Session) -> None:
    """Have this connection plan what a dispatch asks it, which takes it 30 ms; changes nothing."""
    await session.fetch(storage.sql.load_group, [], [], 1)
    await session.fetch(storage.sql.apply, [])


async def record_error(session: Session, rule_id: UUID, text: str) -> None:
    """Store why a rule could not be dispatched (W-076); a locked rule keeps its old text.

    It has 100 ms (W-077).
    """
    await session.fetchval(_gateway.statement_timeout, str(limits.ERROR_TEXT_MS_MAX))
    await session.execute(storage.sql.record_error, rule_id, text[: limits.LAST_ERROR_CHARS_MAX])


async def record_contention(session: Session, issue_id: UUID) -> None:
    """Store that the inputs of an issue wait because others held it (W-071), as `record_error`."""
    await session.fetchval(_gateway.statement_timeout, str(limits.ERROR_TEXT_MS_MAX))
    await session.execute(storage.sql.record_contention, issue_id, CONTENTION)


@attrs.frozen
class _Decided:
    """One rule with what was decided of it, at the database's time `now`."""

    snapshot: Snapshot
    decision: Decision
    now: datetime


async def _dispatch(session: Session, done: Dispatched, rows: Sequence[Record]) -> None:
    decided: list[_Decided] = []
    effects: list[dict[str, Any]] = []
    for row in rows:
        if row["missed_issue_id"] is not None:
            done.missed.add(row["missed_issue_id"])
        else:
            effects.extend(_decide(done, decided, row))
    applied = await session.fetch(storage.sql.apply, effects) if effects else []
    carried_out = {row["rule_id"]: row for row in applied}
    for row in applied:
        if row["run_id"] is not None:
            done.started += 1
            done.runtimes.add(row["runtime_id"])
        if row["enabled"] and row["next_fire_at"] is not None:
            done.due.append(row["next_fire_at"])
    # Another pending run stood in the way of the new one: nothing was consumed (W-081).
    in_the_way = {UUID(each["rule_id"]) for each in effects} - carried_out.keys()
    done.missed.update(done.rules[rule_id] for rule_id in in_the_way)
    done.settled = [
        _settled(each, carried_out.get(each.decision.rule_id))
        for each in decided
        if each.decision.rule_id not in in_the_way
    ]


def _decide(done: Dispatched, decided: list[_Decided], row: Record) -> list[dict[str, Any]]:
    """Return the effects on the rule of this row: none, or one element."""
    done.rules[row["id"]] = row["issue_id"]
    try:
        snapshot = storage.snapshot_of(row)
        decision = decide(_without_contention(snapshot), row["now"])
        effects = storage.effects_of(snapshot, decision)
    except UNREADABLE as error:
        # Its stored configuration or inputs make no sense; the others of the group go on.
        done.failures[row["id"]] = str(error) or type(error).__name__
        return []
    decided.append(_Decided(snapshot, decision, row["now"]))
    if decision.outcome in _QUIET and not _changes(snapshot, decision):
        return []
    is_full = len(snapshot.receipts) >= limits.RECEIPTS_PER_DISPATCH_MAX
    if is_full and (decision.consume or decision.discard):
        done.again.add(snapshot.rule.issue_id)  # there may be more than one takes (W-066)
    return [effects]


def _settled(decided: _Decided, row: Record | None) -> Settled:
    """Return what became of a rule, with the run and the time of what was written, if anything."""
    snapshot, decision = decided.snapshot, decided.decision
    rule = snapshot.rule
    consumed = {ref.seq for ref in decision.consume}
    came = (each.created_at for each in snapshot.receipts if each.seq in consumed)
    return Settled(
        workspace_id=rule.workspace_id,
        issue_id=rule.issue_id,
        rule_id=rule.id,
        revision=decision.revision,
        run_id=None if row is None else row["run_id"],
        outcome=decision.outcome,
        reason=decision.reason,
        input_at=min(came, default=None),
        due_at=None if decision.due is None else rule.next_fire_at,
        now=decided.now if row is None else row["now"],
    )


def _without_contention(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot whose rule does not say any more that others hold its issue: it is held."""
    if snapshot.rule.last_error != CONTENTION:
        return snapshot
    return attrs.evolve(snapshot, rule=attrs.evolve(snapshot.rule, last_error=None))


def _changes(snapshot: Snapshot, decision: Decision) -> bool:
    """Tell whether a decision without a run still has something to write."""
    rule = snapshot.rule
    return bool(
        decision.discard
        or decision.due
        or decision.cancel_unstarted
        or decision.last_error != rule.last_error
        or decision.enabled != rule.enabled
        or decision.next_fire_at != rule.next_fire_at
    )
