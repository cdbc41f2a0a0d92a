"""Single decisions against a model written from the requirements."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.domain.decision import Decision, Outcome, decide
from engine.domain.records import Kind, Mode, Receipt, Rule, RunStatus, Snapshot
from tests.model.occurrences import CRONS, MINUTE, occurrences
from tests.unit.samples import (
    NOW,
    RUN,
    RUNTIME,
    a_cron,
    a_receipt,
    a_rule,
    a_run,
    a_snapshot,
    an_alarm,
    an_interval,
)

START = NOW.replace(second=0, microsecond=0)

OPEN_TYPES = ("comment.created", "issue.updated", "task.completed")


def is_refused(snapshot: Snapshot) -> bool:
    """W-080: off, closed, without right, without agent."""
    return (
        snapshot.rule.disabled_at is not None
        or snapshot.issue_closed
        or not snapshot.may_invoke
        or snapshot.agent_archived
        or snapshot.runtime_id is None
    )


def inputs(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Sort the receipts (W-067, W-080, W-031) and move the timer (W-114 to W-117)."""
    own = snapshot.rule
    is_spent = own.mode is Mode.ONCE and own.last_task_id is not None
    counting: list[Receipt] = []
    others: list[Receipt] = []
    for receipt in snapshot.receipts:
        is_late = is_spent and receipt.event_type != "wakeup.manual"
        fits = receipt.revision == own.revision and not is_late
        (counting if fits else others).append(receipt)
    moved: dict[str, Any] = {"planned": None}
    if is_spent:
        moved["enabled"] = False
    elif (
        own.kind is not Kind.EVENT and own.enabled and own.next_fire_at and own.next_fire_at <= now
    ):
        if own.kind is Kind.AT:
            moved = {"planned": own.next_fire_at, "enabled": False}
        else:
            times = occurrences(own, now)
            moved = {"planned": times[-2], "next_fire_at": times[-1]}
        others += [r for r in counting if r.event_type == "time.due"]
        counting = [r for r in counting if r.event_type != "time.due"]
    return {
        "enabled": own.enabled,
        "next_fire_at": own.next_fire_at,
        "consume": [r.seq for r in counting],
        "discard": [r.seq for r in others],
        **moved,
    }


def expected(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Return what the requirements say about one dispatch."""
    own, mine = snapshot.rule, snapshot.own_run
    if not snapshot.issue_exists or is_refused(snapshot):
        return expected_end(snapshot)
    said = inputs(snapshot, now) | {"effects": set()}
    if mine is not None and mine.status is RunStatus.DISPATCHED:  # W-100
        return said | {"outcome": "held", "consume": []}
    if mine is not None and mine.context["wakeup_revision"] != own.revision:  # W-021
        return said | {"outcome": "held", "consume": [], "effects": {"cancel"}}
    if not said["consume"] and said["planned"] is None:
        rests = "advanced" if said["enabled"] != own.enabled else "idle"
        return said | {"outcome": "discarded" if said["discard"] else rests}
    said["enabled"] = said["enabled"] and own.mode is Mode.CONTINUOUS
    if mine is not None:  # W-099
        return said | {"outcome": "added", "effects": {"refresh"}}
    return said | {"outcome": "started", "effects": {"start"}}


def expected_end(snapshot: Snapshot) -> dict[str, Any]:
    """W-080: without its issue a rule goes; without its right it is off, unless it rests."""
    own, mine = snapshot.rule, snapshot.own_run
    said: dict[str, Any] = {
        "outcome": "idle",
        "enabled": own.enabled,
        "next_fire_at": own.next_fire_at,
        "planned": None,
        "consume": [],
        "discard": [],
        "effects": set(),
    }
    if not snapshot.issue_exists:
        return said | {"outcome": "deleted", "effects": {"delete"}}
    is_queued = mine is not None and mine.status is RunStatus.QUEUED
    if not (own.enabled or snapshot.receipts or is_queued):
        return said
    return said | {
        "outcome": "switched_off",
        "enabled": False,
        "discard": [r.seq for r in snapshot.receipts],
        "effects": {"disable", "cancel"},
    }


def observed(decision: Decision) -> dict[str, Any]:
    """Return a decision in the model's words."""
    effects = {
        "delete": decision.delete_rule,
        "disable": decision.disable,
        "cancel": decision.cancel_unstarted is not None,
        "start": decision.start is not None,
        "refresh": decision.refresh is not None,
    }
    planned = None
    if decision.due is not None:
        text = decision.due.event_key.removesuffix("000Z")
        planned = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return {
        "outcome": decision.outcome.value,
        "enabled": decision.enabled,
        "next_fire_at": decision.next_fire_at,
        "planned": planned,
        "consume": [ref.seq for ref in decision.consume],
        "discard": [ref.seq for ref in decision.discard],
        "effects": {name for name, happens in effects.items() if happens},
    }


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 8 + list(others))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    due = START - timedelta(seconds=draw(st.just(0) | st.integers(-7_200, 200_000)))
    kind = draw(st.sampled_from(Kind))
    match kind:
        case Kind.EVENT:
            made = a_rule(mode=draw(st.sampled_from(Mode)))
        case Kind.AT:
            made = an_alarm(due)
        case Kind.EVERY:
            made = an_interval(due, draw(st.sampled_from([60, 61, 3_600, 86_400])))
        case Kind.CRON:
            expression = draw(st.sampled_from(sorted(CRONS)))
            due = due.replace(second=0)
            while not CRONS[expression](due):
                due += MINUTE
            made = a_cron(due, expression)
    return attrs.evolve(
        made,
        enabled=draw(mostly(True, False)),
        disabled_at=draw(mostly(None, NOW)),
        last_task_id=draw(st.sampled_from([None, RUN])),
        last_error=draw(st.sampled_from([None, "before"])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    types = (*OPEN_TYPES, "time.due", "wakeup.manual")
    waiting = [
        a_receipt(seq, draw(st.sampled_from(types)), revision=draw(mostly(3, 2)))
        for seq in range(1, draw(st.integers(0, 5)) + 1)
    ]
    run = draw(
        st.sampled_from(
            [
                None,
                None,
                a_run("old note"),
                a_run(context={"wakeup_revision": 2}),
                a_run(status=RunStatus.DISPATCHED, dispatched_at=NOW - MINUTE),
                a_run(status=RunStatus.DISPATCHED, dispatched_at=NOW - 3 * MINUTE),
            ]
        )
    )
    return a_snapshot(
        draw(rules()),
        receipts=waiting,
        own_run=run,
        issue_exists=draw(mostly(True, False)),
        issue_closed=draw(mostly(False, True)),
        agent_archived=draw(mostly(False, True)),
        runtime_id=draw(mostly(RUNTIME, None)),
        may_invoke=draw(mostly(True, False)),
    )


@given(snapshots())
@settings(max_examples=500, deadline=None)
def test_single_decisions(snapshot: Snapshot) -> None:
    """W-080: every decision is the one that the requirements name for its snapshot."""
    assert observed(decide(snapshot, START)) == expected(snapshot, START)


@given(snapshots())
@settings(max_examples=300, deadline=None)
def test_decisions_are_sound(snapshot: Snapshot) -> None:
    """W-079: a decision is pure, names each receipt once and leaves no timer overdue."""
    decision = decide(snapshot, START)
    assert decision == decide(snapshot, START)
    named = [ref.seq for ref in (*decision.consume, *decision.discard)]
    assert len(named) == len(set(named))
    by_seq = {receipt.seq: receipt.id for receipt in snapshot.receipts}
    assert all(by_seq[ref.seq] == ref.id for ref in (*decision.consume, *decision.discard))
    carries = decision.start is not None or decision.refresh is not None
    assert carries == (decision.outcome in (Outcome.STARTED, Outcome.ADDED))
    assert carries or not decision.consume
    assert decision.due_consumed == (carries and decision.due is not None)
    if decision.outcome is not Outcome.DELETED and snapshot.rule.kind is not Kind.EVENT:
        assert not (decision.enabled and decision.next_fire_at and decision.next_fire_at <= START)
