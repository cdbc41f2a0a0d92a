"""What a dispatch decides about timers."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from engine.domain.decision import Outcome, decide
from engine.domain.records import Kind, Rule
from engine.errors import WakefulError
from tests.unit.samples import (
    ISSUE,
    NOW,
    WORKSPACE,
    a_cron,
    a_receipt,
    a_rule,
    a_snapshot,
    an_alarm,
    an_interval,
    due_at,
    refs,
    stored_run,
)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@pytest.mark.parametrize(
    "rule",
    [an_alarm(NOW), an_interval(NOW), a_cron(NOW, "* * * * *")],
)
def test_a_timer_fires_at_its_instant_not_before(rule: Rule) -> None:
    """W-114, W-115, W-116: never early; at the planned instant a run starts."""
    assert decide(a_snapshot(rule), NOW - timedelta(microseconds=1)).outcome is Outcome.IDLE
    decision = decide(a_snapshot(rule), NOW)
    assert decision.outcome is Outcome.STARTED
    assert due_at(decision) == NOW
    assert decision.due_consumed is True


def test_a_disabled_timer_does_not_fire() -> None:
    """W-027: a timer that is not enabled does not come due."""
    assert decide(a_snapshot(an_interval(NOW, enabled=False)), NOW).outcome is Outcome.IDLE


def test_an_alarm_keeps_its_time() -> None:
    """W-114: after firing `enabled` is false and `next_fire_at` still tells the planned time."""
    decision = decide(a_snapshot(an_alarm(NOW - HOUR)), NOW)
    assert decision.enabled is False
    assert decision.disable is False
    assert decision.next_fire_at == NOW - HOUR
    assert due_at(decision) == NOW - HOUR


@pytest.mark.parametrize(
    ("late", "missed"), [(timedelta(0), 0), (20 * SECOND, 0), (MINUTE, 1), (6 * HOUR + SECOND, 360)]
)
def test_an_interval_keeps_its_grid(late: timedelta, missed: int) -> None:
    """W-115: planned is the last elapsed step, next is one step on, the second never drifts."""
    first = NOW.replace(microsecond=0)
    decision = decide(a_snapshot(an_interval(first)), first + late)
    assert due_at(decision) == first + missed * MINUTE
    assert decision.next_fire_at == first + (missed + 1) * MINUTE


@pytest.mark.parametrize(
    ("expression", "first", "now", "planned", "following"),
    [
        ("0 9 * * *", (11, 30, 9, 0), (11, 30, 9, 0), (11, 30, 9, 0), (12, 1, 9, 0)),
        ("0 9 * * *", (11, 1, 9, 0), (11, 3, 8, 59), (11, 2, 9, 0), (11, 3, 9, 0)),
        ("*/5 * * * *", (11, 1, 0, 0), (11, 30, 12, 4), (11, 30, 12, 0), (11, 30, 12, 5)),
        ("* * * * *", (1, 1, 0, 0), (11, 30, 12, 4), (11, 30, 12, 4), (11, 30, 12, 5)),
        ("30 2 1 * *", (2, 1, 2, 30), (11, 30, 12, 0), (11, 1, 2, 30), (12, 1, 2, 30)),
    ],
)
def test_missed_times_of_a_cron_rule_collapse(
    expression: str,
    first: tuple[int, ...],
    now: tuple[int, ...],
    planned: tuple[int, ...],
    following: tuple[int, ...],
) -> None:
    """W-116: late by any number of periods: one run, the last planned time, next in the future."""

    def at(parts: tuple[int, ...]) -> datetime:
        month, day, hour, minute = parts
        return datetime(2026, month, day, hour, minute, tzinfo=UTC)

    decision = decide(a_snapshot(a_cron(at(first), expression)), at(now) + 59 * SECOND)
    assert due_at(decision) == at(planned)
    assert decision.next_fire_at == at(following)


@pytest.mark.parametrize("late", range(8))
def test_the_last_missed_minute_counts(late: int) -> None:
    """W-116: of a rule for every minute, the very last elapsed minute is the planned one."""
    first = NOW.replace(microsecond=0)
    for seconds in (0, 59):
        now = first + late * MINUTE + seconds * SECOND
        decision = decide(a_snapshot(a_cron(first, "* * * * *")), now)
        assert due_at(decision) == first + late * MINUTE
        assert decision.next_fire_at == first + (late + 1) * MINUTE


def test_a_cron_rule_uses_its_zone() -> None:
    """W-116: planned and next times are occurrences of the stored zone."""
    first = datetime(2026, 7, 1, 7, 0, tzinfo=UTC)  # 09:00 in Berlin, summer
    rule = a_cron(first, "0 9 * * *", timezone="Europe/Berlin")
    decision = decide(a_snapshot(rule), datetime(2026, 12, 1, 7, 30, tzinfo=UTC))
    assert due_at(decision) == datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
    assert decision.next_fire_at == datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def test_a_schedule_that_ends_says_so() -> None:
    """W-253: a cron rule without a further time fires its last and tells why no more follow."""
    last = datetime(2096, 2, 29, tzinfo=UTC)
    never = a_cron(last, "0 0 31 2 *")
    decision = decide(a_snapshot(never), last + HOUR)
    assert decision.outcome is Outcome.STARTED
    assert decision.next_fire_at is None
    assert decision.last_error == "The schedule has no further time."


def test_an_unreadable_schedule_is_an_error() -> None:
    """W-076: a cron expression that no longer parses stops its rule with a typed error."""
    with pytest.raises(WakefulError) as caught:
        decide(a_snapshot(a_cron(NOW, "soon")), NOW)
    assert caught.value.code == "invalid_schedule"


@pytest.mark.parametrize(
    "rule", [a_rule(next_fire_at=NOW), a_rule(kind=Kind.EVERY, next_fire_at=NOW)]
)
def test_a_time_without_schedule_is_no_timer(rule: Rule) -> None:
    """W-115: `next_fire_at` of a row that has no schedule fires nothing."""
    assert decide(a_snapshot(rule), NOW).outcome is Outcome.IDLE


def test_the_due_fact() -> None:
    """W-117: `time.due` with kind; its key is the planned instant in nanoseconds, as planned_at."""
    decision = decide(a_snapshot(an_interval(NOW)), NOW + 30 * SECOND)
    due = decision.due
    assert due is not None
    assert due.event_key == "2026-11-30T12:00:00.250000000Z"
    assert due.payload == {
        "event_id": due.event_key,
        "event_type": "time.due",
        "version": 1,
        "occurred_at": "2026-11-30T12:00:00.250000Z",
        "workspace_id": str(WORKSPACE),
        "issue_id": str(ISSUE),
        "source_task_id": None,
        "agent_id": None,
        "actor_type": "system",
        "actor_id": None,
        "planned_at": due.event_key,
        "kind": "every",
        "coalesced_count": 1,
        "first_occurred_at": "2026-11-30T12:00:00.250000Z",
        "actors": [{"type": "system", "id": None}],
        "source_task_ids": [],
    }
    assert decision.start is not None
    assert "time.due {" in decision.start.handoff_note


def test_a_newer_time_replaces_a_pending_one() -> None:
    """W-117: a pending `time.due` makes room for the newer one; other facts stay inputs."""
    older, manual = a_receipt(1, "time.due"), a_receipt(2, "wakeup.manual")
    decision = decide(a_snapshot(an_interval(NOW), receipts=[older, manual]), NOW)
    assert decision.discard == refs(older)
    assert decision.consume == refs(manual)
    assert decision.due_consumed


def test_the_same_time_is_written_once() -> None:
    """W-117: if the very fact is pending already it is used, and only the timer moves."""
    key = "2026-11-30T12:00:00.250000000Z"
    pending = a_receipt(1, "time.due", event_key=key)
    decision = decide(a_snapshot(an_interval(NOW), receipts=[pending]), NOW)
    assert decision.outcome is Outcome.STARTED
    assert decision.due is None
    assert decision.due_consumed is False
    assert decision.consume == refs(pending)
    assert decision.next_fire_at == NOW + MINUTE


def test_a_timer_refreshes_its_queued_run() -> None:
    """W-118: five periods while the run is queued: one run, one fact, the fifth time."""
    rule = an_interval(NOW)
    decision = decide(a_snapshot(rule), NOW)
    run = stored_run(decision.start)
    for period in range(1, 5):
        rule = attrs.evolve(rule, next_fire_at=decision.next_fire_at)
        decision = decide(a_snapshot(rule, own_run=run), NOW + period * MINUTE)
        assert decision.outcome is Outcome.ADDED
        run = stored_run(decision.refresh)
    assert run.handoff_note.count("time.due {") == 1
    [fact] = run.context["wakeup_evidence"]["facts"]
    assert fact["payload"]["planned_at"] == "2026-11-30T12:04:00.250000000Z"
