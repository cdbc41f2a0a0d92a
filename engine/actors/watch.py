"""Counts what dispatches did, and notices inputs that only a sweep found (W-256, W-257).

A hint may be lost, but while the listener is healthy none should be: an input that a sweep found,
of an issue that nobody has hinted since it came, is a defect somewhere, and is logged. Who waits
for a lock, a claimed run or a barred rule has been hinted, and is none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

import structlog

from engine import limits
from engine.clock import DatabaseClock
from engine.domain.decision import Outcome
from engine.metrics import Metrics
from engine.service.dispatch import Dispatched, Settled

_log = structlog.get_logger(__name__)


class Watch:
    """What one engine sees of hints, sweeps and dispatches; in memory, and bounded."""

    def __init__(self, clock: DatabaseClock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._heard_since = math.inf  # as all times here by `clock.current_time()`
        self._hinted: dict[UUID, float] = {}  # when last, the longest ago first
        self._forgotten_until = clock.current_time()  # nothing is known of hints before
        self._swept: dict[UUID, float] = {}
        self._held: dict[UUID, None] = {}

    def listens(self) -> None:
        """From now on all notifications are heard; of the time before some may be missing."""
        self._heard_since = self._clock.current_time()

    def hinted(self, issue_id: UUID) -> None:
        """Something other than a sweep has told of this issue."""
        self._hinted.pop(issue_id, None)
        self._hinted[issue_id] = self._clock.current_time()
        self._swept.pop(issue_id, None)
        if len(self._hinted) > limits.HINTS_REMEMBERED_MAX:
            self._forgotten_until = self._hinted.pop(next(iter(self._hinted)))

    def swept(self, issue_ids: Iterable[UUID]) -> None:
        """A sweep has found these issues; whatever the sweeps before found is old news."""
        now = self._clock.current_time()
        self._swept = dict.fromkeys(issue_ids, now)

    def committed(self, done: Dispatched) -> None:
        """Count what a dispatch did, and say which of its inputs no hint has told of."""
        for outcome, count in Counter(each.outcome for each in done.settled).items():
            self._metrics.dispatches.labels(outcome).inc(count)
        for settled in done.settled:
            self._measure(settled)
            if settled.input_at is not None and settled.issue_id in self._swept:
                self._judge(settled, settled.input_at)

    def _measure(self, settled: Settled) -> None:
        """Measure a dispatch that was free to go on as soon as there was an input."""
        if settled.due_at is not None:
            self._metrics.timer_lateness.observe(_seconds(settled.due_at, settled.now))
        was_held = settled.rule_id in self._held
        if settled.outcome is Outcome.HELD:
            self._held[settled.rule_id] = None
            if len(self._held) > limits.HINTS_REMEMBERED_MAX:
                del self._held[next(iter(self._held))]
        elif was_held:
            del self._held[settled.rule_id]
        if settled.outcome is Outcome.STARTED and settled.input_at is not None and not was_held:
            self._metrics.commit_to_run.observe(_seconds(settled.input_at, settled.now))

    def _judge(self, settled: Settled, input_at: datetime) -> None:
        """Say that an input was found by a sweep alone, unless there is an excuse."""
        age = _seconds(input_at, settled.now)
        came = self._clock.current_time() - age - limits.HINT_SLACK_SECONDS
        if (
            age < limits.LOST_HINT_SECONDS
            or came < max(self._heard_since, self._forgotten_until)
            or self._hinted.get(settled.issue_id, -math.inf) > came
        ):
            return
        self._metrics.found_by_sweep.inc()
        _log.warning(
            "fact.found_by_sweep",
            workspace_id=str(settled.workspace_id),
            issue_id=str(settled.issue_id),
            rule_id=str(settled.rule_id),
            revision=settled.revision,
            run_id=None if settled.run_id is None else str(settled.run_id),
            seconds=round(age, 3),
        )


def _seconds(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
