"""One rule's life: what `decide` says, applied to rows, and the books that must balance.

Facts arrive, people edit, daemons claim and lose claims, time passes, all in any order; a small
model of the tables does what each decision says and is examined after every step.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.domain import receipts
from engine.domain.decision import Decision, decide
from engine.domain.records import Kind, Mode, OwnRun, Receipt, RunStatus
from engine.limits import EVIDENCE_BYTES_MAX, NOTE_BYTES_MAX, RECEIPTS_PER_DISPATCH_MAX
from tests.model.occurrences import CRONS, MINUTE, occurrences
from tests.unit.samples import (
    AGENT,
    MEMBER,
    NOW,
    RUN,
    a_cron,
    a_payload,
    a_receipt,
    a_rule,
    a_run,
    a_snapshot,
    an_alarm,
    an_id,
    an_interval,
)

OPEN_TYPES = ("comment.created", "issue.updated", "task.completed")
START = NOW.replace(second=0, microsecond=0)


@attrs.define(kw_only=True)
class Run:
    """A row of the queue, as far as the model needs it."""

    status: RunStatus
    revision: int
    note: str
    context: dict[str, Any]
    dispatched_at: datetime | None = None
    note_at_claim: str | None = None
    carried: int = 0


class Life(RuleBasedStateMachine):
    """One rule, its receipts and its runs, changed as the requirements say and by `decide`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.rule = a_rule()
        self.may_invoke = True
        self.free: dict[int, Receipt] = {}
        self.runs: list[Run] = []
        self.books: Counter[str] = Counter()
        self.planned: list[datetime] = []
        self.fired = 0
        self.seq = 0

    @initialize(
        kind=st.sampled_from(["event", "once", "at", "every", "cron"]),
        seconds=st.sampled_from([60, 90, 3_600]),
        expression=st.sampled_from(sorted(CRONS)),
    )
    def registered(self, kind: str, seconds: int, expression: str) -> None:
        """W-015: one rule of any kind, a timer due in the future."""
        later = START + timedelta(seconds=seconds)
        self.rule = {
            "event": a_rule(event_types=OPEN_TYPES),
            "once": a_rule(event_types=OPEN_TYPES, mode=Mode.ONCE),
            "at": an_alarm(later),
            "every": an_interval(later, seconds),
            "cron": a_cron(occurrences(a_cron(START, expression), START)[-1], expression),
        }[kind]

    # -- what happens to it --

    @rule(kind=st.sampled_from(OPEN_TYPES), own=st.booleans())
    def a_fact_is_captured(self, kind: str, own: bool) -> None:
        """W-062: at most one free receipt a type, for enabled event rules only."""
        if self.rule.kind is Kind.EVENT and self.rule.enabled:
            self.seq += 1
            actor = ("agent", AGENT) if own else ("member", MEMBER)
            self._capture(kind, a_payload(kind, self.seq, actor=actor))

    @precondition(lambda self: self.rule.disabled_at is None)
    @rule()
    def somebody_wakes_it(self) -> None:
        """W-030: one `wakeup.manual` receipt, also of a consumed one-shot (W-031)."""
        self.seq += 1
        self._capture("wakeup.manual", a_payload("wakeup.manual", self.seq))

    def _capture(self, kind: str, payload: dict[str, Any]) -> None:
        self.books["captured"] += 1
        for seq, receipt in self.free.items():
            if receipt.event_type == kind and receipt.revision == self.rule.revision:
                pending = receipts.coalesce(
                    receipts.Pending(event_key=receipt.event_key, payload=receipt.payload),
                    f"key-{self.seq}",
                    payload,
                )
                rotated = an_id(1_000_000 + self.seq)
                self.free[seq] = attrs.evolve(receipt, id=rotated, payload=pending.payload)
                return
        self.free[self.seq] = a_receipt(
            self.seq, kind, revision=self.rule.revision, payload=payload
        )

    @rule(seconds=st.integers(1, 40_000))
    def time_passes(self, seconds: int) -> None:
        """W-084: the one clock goes on, a second or a night."""
        self.now += timedelta(seconds=seconds)

    @rule()
    def the_text_is_edited(self) -> None:
        """W-029: an edit keeps everything but the text."""
        self.rule = attrs.evolve(self.rule, instruction=f"Text of {self.now}")

    @rule()
    def it_is_saved_again(self) -> None:
        """W-020, W-021: a new revision; old receipts discarded, unstarted runs cancelled."""
        self._discard(list(self.free))
        self._cancel_unstarted()
        next_fire_at = self.rule.next_fire_at
        if self.rule.kind is Kind.AT and next_fire_at is not None:
            next_fire_at = self.now + MINUTE
        self.rule = attrs.evolve(
            self.rule,
            revision=self.rule.revision + 1,
            enabled=True,
            disabled_at=None,
            last_task_id=None,
            next_fire_at=next_fire_at,
        )
        self.fired = 0

    @rule()
    def it_is_switched_off(self) -> None:
        """W-027: off; inputs discarded, unstarted runs cancelled, started ones go on."""
        self._discard(list(self.free))
        self._cancel_unstarted()
        self.rule = attrs.evolve(self.rule, enabled=False, disabled_at=self.now)

    @rule()
    def its_creator_loses_or_regains_the_right(self) -> None:
        """W-196: authority is looked at when the rule is dispatched."""
        self.may_invoke = not self.may_invoke

    # -- what daemons do --

    @precondition(lambda self: self._pending(RunStatus.QUEUED))
    @rule()
    def a_daemon_claims(self) -> None:
        """W-106: a run of another revision or of a rule that is off fails at the claim gate."""
        run = self._pending(RunStatus.QUEUED)[0]
        if run.revision != self.rule.revision or self.rule.disabled_at is not None:
            run.status = RunStatus.FAILED
            return
        run.status, run.dispatched_at = RunStatus.DISPATCHED, self.now
        run.note_at_claim = run.note

    @precondition(lambda self: self._pending(RunStatus.DISPATCHED))
    @rule(starts=st.booleans())
    def a_claim_ends(self, starts: bool) -> None:
        """W-104: a claim starts its run or gives exactly this run back."""
        run = self._pending(RunStatus.DISPATCHED)[0]
        assert run.note == run.note_at_claim, "W-100: a claimed prompt is immutable"
        run.status = RunStatus.RUNNING if starts else RunStatus.QUEUED
        run.dispatched_at = None

    @precondition(lambda self: any(run.status is RunStatus.RUNNING for run in self.runs))
    @rule(retries=st.booleans())
    def a_run_ends(self, retries: bool) -> None:
        """W-110: a retry copies note and context; with a successor pending there is none."""
        run = next(run for run in self.runs if run.status is RunStatus.RUNNING)
        run.status = RunStatus.FAILED if retries else RunStatus.COMPLETED
        if retries and not self._pending(RunStatus.QUEUED, RunStatus.DISPATCHED):
            self.runs.append(attrs.evolve(run, status=RunStatus.QUEUED))

    # -- dispatch --

    @rule()
    def it_is_dispatched(self) -> None:
        """W-079: what `decide` says is applied as a whole."""
        waiting = list(self.free.values())[:RECEIPTS_PER_DISPATCH_MAX]
        own = self._own()
        seen = a_snapshot(self.rule, receipts=waiting, own_run=own, may_invoke=self.may_invoke)
        decision = decide(seen, self.now)
        self._apply(decision)
        assert not (
            self.rule.kind is not Kind.EVENT
            and self.rule.enabled
            and self.rule.next_fire_at is not None
            and self.rule.next_fire_at <= self.now
        ), "W-115: a dispatched timer lies in the future"
        if own is None and self.rule.disabled_at is None:
            assert not self.free, "W-016: without a run of its own every input is dealt with"

    def _own(self) -> OwnRun | None:
        for run in self._pending(RunStatus.QUEUED, RunStatus.DISPATCHED):
            return a_run(
                run.note,
                json.loads(json.dumps(run.context)),
                status=run.status,
                dispatched_at=run.dispatched_at,
            )
        return None

    def _apply(self, decision: Decision) -> None:
        """Do to the rows what the decision says, in the order of its contract."""
        assert decision.revision == self.rule.revision
        self._discard([ref.seq for ref in decision.discard])
        if decision.cancel_unstarted is not None:
            self._cancel_unstarted()
        consumed = 0
        for ref in decision.consume:
            receipt = self.free.pop(ref.seq)
            assert receipt.id == ref.id
            consumed += receipts.facts_count(receipt.payload)
        if decision.due is not None:
            consumed += self._write_due(decision)
        self.books["consumed"] += consumed
        if decision.start is not None:
            self._start(decision, consumed)
        if decision.refresh is not None:
            [run] = self._pending(RunStatus.QUEUED)
            assert run.revision == self.rule.revision, "W-021: the claim gate would refuse it"
            run.note, run.context = decision.refresh.handoff_note, dict(decision.refresh.context)
            run.carried += consumed
        disabled_at = self.now if decision.disable else None
        self.rule = attrs.evolve(
            self.rule,
            enabled=decision.enabled,
            next_fire_at=decision.next_fire_at,
            last_error=decision.last_error,
            disabled_at=self.rule.disabled_at or disabled_at,
        )

    def _start(self, decision: Decision, consumed: int) -> None:
        assert decision.start is not None
        assert not self._pending(RunStatus.QUEUED, RunStatus.DISPATCHED), "W-098"
        self.runs.append(
            Run(
                status=RunStatus.QUEUED,
                revision=self.rule.revision,
                note=decision.start.handoff_note,
                context=dict(decision.start.context),
                carried=consumed,
            )
        )
        self.fired += 0 if "wakeup.manual {" in decision.start.handoff_note else 1
        self.rule = attrs.evolve(self.rule, last_task_id=RUN)

    def _write_due(self, decision: Decision) -> int:
        """Write the due fact, return how many facts of it are consumed at once."""
        assert decision.due is not None
        at = datetime.fromisoformat(decision.due.event_key.removesuffix("000Z")).replace(tzinfo=UTC)
        assert at <= self.now, "W-119: never early"
        self.planned.append(at)
        self.seq += 1
        self.books["captured"] += 1
        if decision.due_consumed:
            return 1
        self.free[self.seq] = a_receipt(
            self.seq,
            "time.due",
            revision=self.rule.revision,
            event_key=decision.due.event_key,
            payload=decision.due.payload,
        )
        return 0

    def _discard(self, seqs: list[int]) -> None:
        for seq in seqs:
            self.books["discarded"] += receipts.facts_count(self.free.pop(seq).payload)

    def _cancel_unstarted(self) -> None:
        for run in self._pending(RunStatus.QUEUED):
            run.status = RunStatus.CANCELLED

    def _pending(self, *statuses: RunStatus) -> list[Run]:
        return [run for run in self.runs if run.status in statuses]

    # -- what must always hold --

    @invariant()
    def no_fact_is_lost_or_doubled(self) -> None:
        """W-083: what was captured is free, consumed or discarded, counted once."""
        free = sum(receipts.facts_count(receipt.payload) for receipt in self.free.values())
        booked = self.books["consumed"] + self.books["discarded"]
        assert self.books["captured"] == free + booked

    @invariant()
    def one_free_receipt_a_type(self) -> None:
        """W-062, W-117: at most one free receipt of the revision and type."""
        keys = Counter((receipt.revision, receipt.event_type) for receipt in self.free.values())
        assert not keys or max(keys.values()) == 1

    @invariant()
    def one_pending_run(self) -> None:
        """W-098: one pending run of a rule."""
        assert len(self._pending(RunStatus.QUEUED, RunStatus.DISPATCHED)) <= 1

    @invariant()
    def planned_times_only_grow(self) -> None:
        """W-119: nothing fires twice for one period; intervals keep their grid (W-115)."""
        assert all(one < other for one, other in zip(self.planned, self.planned[1:], strict=False))
        if self.rule.kind is Kind.EVERY and self.planned:
            step = timedelta(seconds=self.rule.interval_seconds or 0)
            assert all((at - self.planned[0]) % step == timedelta(0) for at in self.planned)
        if self.rule.kind is Kind.CRON:
            assert all(CRONS[self.rule.cron_expression or ""](at) for at in self.planned)

    @invariant()
    def a_one_shot_fires_once(self) -> None:
        """W-001: a one-shot fires once a save, but for wake-ups by hand."""
        if self.rule.mode is Mode.ONCE:
            assert self.fired <= 1

    @invariant()
    def evidence_tells_all(self) -> None:
        """W-085: bounded, one fact a type, and the counts add up to what it was given."""
        for run in self._pending(RunStatus.QUEUED, RunStatus.DISPATCHED):
            evidence = run.context["wakeup_evidence"]
            assert len(run.note.encode()) <= NOTE_BYTES_MAX
            assert len(json.dumps(evidence, ensure_ascii=False).encode()) <= EVIDENCE_BYTES_MAX
            types = [fact["event_type"] for fact in evidence["facts"]]
            assert len(types) == len(set(types))
            told = sum(receipts.facts_count(fact["payload"]) for fact in evidence["facts"])
            if self.rule.kind is Kind.EVENT:
                assert told == run.carried
            else:
                assert len(types) == 1


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
