"""When a stored rule is due, and the fact that it is: schedules applied to rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from engine.domain import schedule
from engine.domain.records import Rule
from engine.domain.texts import instant_text

TIME_DUE: Final = "time.due"

_MINUTE: Final = timedelta(minutes=1)


def due_step(rule: Rule, now: datetime) -> tuple[datetime, datetime | None] | None:
    """Return the planned instant that is due and what `next_fire_at` becomes; None before time.

    Missed periods collapse into the newest planned instant, and a repeating timer goes on with
    one strictly later than now (W-115, W-116); None if its schedule has ended. The time of an
    `at` rule stays readable (W-114). Raises `invalid_schedule` if a stored cron rule cannot be
    read any more.
    """
    due_at = rule.next_fire_at
    if not rule.enabled or due_at is None or due_at > now:
        return None
    match schedule.schedule_of(rule):
        case schedule.At():
            return due_at, due_at
        case schedule.Every(interval_seconds=interval_seconds):
            return schedule.elapsed_step(due_at, interval_seconds, now)
        case schedule.Cron() as cron:
            return _last_occurrence(cron, due_at, now), schedule.next_after(cron, now)
        case _:  # an event rule, or a row without its schedule's fields
            return None


def due_payload(rule: Rule, planned: datetime) -> dict[str, Any]:
    """Return the `time.due` fact of one planned instant, equal for every engine that sees it.

    `event_id`, the receipt's key, and `planned_at` are the instant in RFC 3339 with nanoseconds
    (W-117).
    """
    occurred_at = instant_text(planned)
    key = occurred_at.replace("Z", "000Z")
    return {
        "event_id": key,
        "event_type": TIME_DUE,
        "version": 1,
        "occurred_at": occurred_at,
        "workspace_id": str(rule.workspace_id),
        "issue_id": str(rule.issue_id),
        "source_task_id": None,
        "agent_id": None,
        "actor_type": "system",
        "actor_id": None,
        "planned_at": key,
        "kind": rule.kind.value,
        "coalesced_count": 1,
        "first_occurred_at": occurred_at,
        "actors": [{"type": "system", "id": None}],
        "source_task_ids": [],
    }


def _last_occurrence(cron: schedule.Cron, due_at: datetime, now: datetime) -> datetime:
    """Return the last occurrence from `due_at` to `now`, by bisection.

    Occurrences are at least a minute apart, so years of outage cost two dozen steps.
    """
    last, low, high = due_at, due_at, now
    while high - low >= _MINUTE:
        middle = low + (high - low) / 2
        found = schedule.next_after(cron, middle)
        if found is None or found > now:
            high = middle
        else:
            last = low = found
    return last
