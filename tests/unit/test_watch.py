"""What an engine counts of dispatches, and what it remembers of hints; in memory and bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest
from trio.testing import MockClock

from engine import limits
from engine.actors.watch import Watch
from engine.clock import DatabaseClock
from engine.domain.decision import Outcome
from engine.metrics import Metrics
from engine.service.dispatch import Dispatched, Settled
from tests.engine.scraping import samples

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
ISSUE, OTHER = UUID(int=1), UUID(int=2)
STARTED = Settled(
    workspace_id=UUID(int=3),
    issue_id=ISSUE,
    rule_id=UUID(int=4),
    revision=1,
    run_id=UUID(int=5),
    outcome=Outcome.STARTED,
    reason=None,
    input_at=NOON - timedelta(seconds=10),
    due_at=None,
    now=NOON,
)


class Seen:
    """A watch whose dispatches are counted from outside."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.watch = Watch(DatabaseClock(), self.metrics)

    def found(self, *settled: Settled) -> float:
        """Let a sweep find the issue and a dispatch follow; return what only sweeps have found."""
        self.watch.swept([ISSUE])
        self.watch.committed(Dispatched(settled=list(settled)))
        return self.sample("wakeful_facts_found_by_sweep_total")

    def sample(self, name: str) -> float:
        """Return one sample of the exposition."""
        return samples(self.metrics.text({}).decode())[name]


@pytest.fixture
async def seen(mock_clock: MockClock) -> Seen:
    """A watch that has heard everything for a minute."""
    seen = Seen()
    seen.watch.listens()
    mock_clock.jump(60)
    return seen


async def test_an_input_that_nobody_told_of_is_the_sweeps(
    seen: Seen, mock_clock: MockClock
) -> None:
    """W-257: an input of 10 s ago that a sweep found, and that no hint has told of, is counted."""
    assert seen.found(STARTED) == 1


@pytest.mark.parametrize(
    ("excuse", "why"),
    [
        ({"input_at": NOON - timedelta(seconds=1)}, "its hint may be under way"),
        ({"input_at": NOON - timedelta(seconds=61)}, "the engine did not listen yet"),
        ({"input_at": None}, "nothing was consumed"),
        ({"issue_id": OTHER}, "the sweep did not find it"),
    ],
)
async def test_what_is_no_lost_hint(
    seen: Seen, mock_clock: MockClock, excuse: dict[str, Any], why: str
) -> None:
    """W-257: nothing is said of an input that may have been told of."""
    assert seen.found(attrs.evolve(STARTED, **excuse)) == 0, why


async def test_an_issue_that_was_hinted_since_is_excused(seen: Seen, mock_clock: MockClock) -> None:
    """W-257: a hint as old as the input, within the clocks' difference, is its hint."""
    seen.watch.hinted(ISSUE)
    assert seen.found(attrs.evolve(STARTED, input_at=NOON - timedelta(seconds=2))) == 0
    mock_clock.jump(30)
    assert seen.found(STARTED) == 1


async def test_a_listener_that_was_away_excuses(seen: Seen, mock_clock: MockClock) -> None:
    """W-257: after a reconnection nothing is said of inputs of the time before."""
    seen.watch.listens()
    assert seen.found(STARTED) == 0


async def test_forgotten_hints_are_not_held_against_anybody(
    seen: Seen, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-257: with more hints than are remembered, inputs from before those are let be."""
    monkeypatch.setattr(limits, "HINTS_REMEMBERED_MAX", 3)
    for number in range(10, 20):
        seen.watch.hinted(UUID(int=number))
    assert len(seen.watch._hinted) == 3
    assert seen.found(STARTED) == 0
    mock_clock.jump(30)
    assert seen.found(STARTED) == 1


async def test_held_rules_are_remembered_within_bounds(
    seen: Seen, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-256: a rule that was held says nothing of latency when it starts, the one after it does."""
    monkeypatch.setattr(limits, "HINTS_REMEMBERED_MAX", 3)
    held = [
        attrs.evolve(STARTED, outcome=Outcome.HELD, rule_id=UUID(int=number), input_at=None)
        for number in range(10)
    ]
    seen.watch.committed(Dispatched(settled=held))
    assert len(seen.watch._held) == 3
    last = attrs.evolve(STARTED, rule_id=UUID(int=9))
    seen.watch.committed(Dispatched(settled=[last]))
    assert seen.sample("wakeful_commit_to_run_seconds_count") == 0
    seen.watch.committed(Dispatched(settled=[last]))
    assert seen.sample("wakeful_commit_to_run_seconds_count") == 1
    assert seen.sample("wakeful_commit_to_run_seconds_sum") == 10
