from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest

from engine.domain.events import EVENTS
from engine.domain.labels import label
from engine.domain.rules import RuleDraft, validate

NOW = datetime(2027, 1, 1, 12, 0, tzinfo=UTC)
AGENT = UUID(int=1)


def text(source_name: str | None = None, **fields: Any) -> str:
    """Return the label of a valid draft."""
    return label(validate(RuleDraft(instruction="look", **fields), NOW), source_name=source_name)


def event(*names: str, source_name: str | None = None, **filters: Any) -> str:
    return text(source_name, kind="event", event_types=names, **filters)


def test_events_read_as_conditions() -> None:
    """W-222: a trigger text says what must happen, and to whose run."""
    assert event("comment.created") == "when someone comments"
    assert event("task.completed") == "when a run succeeds"
    assert (
        event("task.completed", filter_agent_id=AGENT, source_name="B") == "when B's run succeeds"
    )
    assert event("task.failed", filter_task_id=AGENT) == "when the selected run fails"


def test_filtered_actors_are_named_or_generic() -> None:
    """W-060: the actor appears by name, or generically if the reader may not know it."""
    member: dict[str, Any] = {"filter_actor_type": "member", "filter_actor_id": AGENT}
    assert event("comment.created", **member, source_name="Mia") == "when Mia comments"
    assert event("comment.created", **member) == "when the selected member comments"
    assert event("comment.created", filter_agent_id=AGENT) == "when the selected agent comments"


def test_several_types_read_as_any_of() -> None:
    """W-222: several types read as "any of"."""
    assert event("task.completed", "comment.created", filter_agent_id=AGENT, source_name="B") == (
        "on any of: B's run succeeds, B comments"
    )


def test_every_event_has_words() -> None:
    """W-222: each of the 25 types completes a subject, and no two read alike."""
    words = [event.words for event in EVENTS.values()]
    assert all(words)
    assert len({(e.family, e.words) for e in EVENTS.values()}) == 25


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (60, "every minute"),
        (600, "every 10 minutes"),
        (90, "every 90 seconds"),
        (3_600, "every hour"),
        (7_200, "every 2 hours"),
        (5_400, "every 90 minutes"),
        (86_400, "every day"),
        (31_536_000, "every 365 days"),
    ],
)
def test_intervals(seconds: int, expected: str) -> None:
    """W-222: an interval is put in its largest whole unit."""
    assert text(kind="every", interval_seconds=seconds) == expected


def test_times_are_local() -> None:
    """W-008: the zone of a rule is the one its time is shown in."""
    at = NOW + timedelta(days=1)
    assert text(kind="at", at=at) == "at 2027-01-02 12:00:00 (UTC)"
    berlin = text(kind="at", at=at, timezone="Europe/Berlin")
    assert berlin == "at 2027-01-02 13:00:00 (Europe/Berlin)"
    last = datetime(9999, 12, 31, 23, 0, tzinfo=UTC)
    assert text(kind="at", at=last, timezone="Asia/Tokyo").startswith("at 9999-12-31 23:00:00")
    rule = validate(RuleDraft(instruction="look", kind="at", at=at), NOW)
    assert label(attrs.evolve(rule, next_fire_at=None)) == "at a time that was not kept"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("7 * * * *", "every hour at minute 7"),
        ("0 9 * * *", "every day at 09:00"),
        ("5 17 * * 1-5", "on weekdays at 17:05"),
        ("0 9 * * sat,sun", "on weekends at 09:00"),
        ("0 9 * * 1,3", "on Mondays, Wednesdays at 09:00"),
        ("*/7 * * * *", "on the schedule */7 * * * *"),
        ("5,10 * * * *", "on the schedule 5,10 * * * *"),
        ("0 9,17 * * *", "on the schedule 0 9,17 * * *"),
        ("0 9 1 * *", "on the schedule 0 9 1 * *"),
        ("0 9 * 6 *", "on the schedule 0 9 * 6 *"),
    ],
)
def test_familiar_cron_schedules_are_put_in_words(expression: str, expected: str) -> None:
    """W-222: familiar schedules are put in words, others show their expression."""
    shown = text(kind="cron", cron_expression=expression, timezone="Europe/Berlin")
    assert shown == f"{expected} (Europe/Berlin)"
