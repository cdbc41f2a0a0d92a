"""Labels of rules: one short phrase that says what a rule waits for, never what became of it.

Read it after "Wakes ...": "when someone comments", "every 10 minutes", "on weekdays at 09:00
(Europe/Berlin)". Familiar schedules are put in words, any other shows its expression (W-222). The
watched agent is named apart from the agent to wake, and only if the caller passes its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from engine.domain.events import EVENTS, Family
from engine.domain.filters import Filters, actor_words, run_words
from engine.domain.records import Kind, Rule
from engine.domain.rules import ValidRule
from engine.domain.schedule import Cron, parse_cron, parse_zone

_DAYS: Final = (
    "Sundays",
    "Mondays",
    "Tuesdays",
    "Wednesdays",
    "Thursdays",
    "Fridays",
    "Saturdays",
)
_WORKDAYS: Final = (1, 2, 3, 4, 5)
_WEEKEND: Final = (0, 6)
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def label(rule: Rule | ValidRule, *, source_name: str | None = None) -> str:
    """Say what the rule waits for.

    `source_name` is the name of the filtered actor or agent, if the reader may see it (W-060,
    W-194). The stored schedule must be a valid one.
    """
    match rule.kind:
        case Kind.EVENT:
            return _event_label(rule, source_name)
        case Kind.AT:
            return _time_label(rule)
        case Kind.EVERY:
            assert rule.interval_seconds is not None, "every has an interval"
            return _interval_label(rule.interval_seconds)
        case Kind.CRON:
            assert rule.cron_expression is not None, "cron has an expression"
            return _cron_label(parse_cron(rule.cron_expression, rule.timezone))


def _event_label(rule: Rule | ValidRule, source_name: str | None) -> str:
    """Several types read as "any of" (W-222)."""
    filters = Filters(
        agent_id=rule.filter_agent_id,
        task_id=rule.filter_task_id,
        actor_type=rule.filter_actor_type,
        actor_id=rule.filter_actor_id,
    )
    actor, run = actor_words(filters, source_name), run_words(filters, source_name)
    phrases = [
        f"{run if EVENTS[name].family is Family.TASK else actor} {EVENTS[name].words}"
        for name in rule.event_types
    ]
    if len(phrases) == 1:
        return f"when {phrases[0]}"
    return f"on any of: {', '.join(phrases)}"


def _time_label(rule: Rule | ValidRule) -> str:
    if rule.next_fire_at is None:
        return "at a time that was not kept"
    zone = parse_zone(rule.timezone)
    return f"at {_local(rule.next_fire_at, zone):%Y-%m-%d %H:%M:%S} ({rule.timezone})"


def _local(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall time of an instant; the last hours of the calendar stay as they are."""
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return instant


def _interval_label(seconds: int) -> str:
    """Return "every 10 minutes", in the largest unit that leaves no rest."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    count = seconds // size
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _cron_label(cron: Cron) -> str:
    """Put what can be said in a few words in words, else show the expression."""
    fields = cron.fields
    _, hours, days, months, weekdays = fields.canonical.split()
    words = None
    if (hours, days, months, weekdays) == ("*", "*", "*", "*"):
        words = _minutes_words(fields.minutes)
    elif days == months == "*" and len(fields.hours) == len(fields.minutes) == 1:
        clock = f"{fields.hours[0]:02}:{fields.minutes[0]:02}"
        words = f"{_days_words(weekdays, fields.weekdays)} at {clock}"
    if words is None:
        words = f"on the schedule {cron.expression}"
    return f"{words} ({cron.timezone})"


def _minutes_words(minutes: Sequence[int]) -> str | None:
    """Say minutes of every hour: all, one, or evenly spread from the full hour."""
    if len(minutes) == 1:
        return f"every hour at minute {minutes[0]}"
    step = minutes[1]
    if tuple(minutes) == tuple(range(0, 60, step)) and 60 % step == 0:
        return "every minute" if step == 1 else f"every {step} minutes"
    return None


def _days_words(canonical: str, weekdays: tuple[int, ...]) -> str:
    if canonical == "*":
        return "every day"
    match weekdays:
        case tuple() if weekdays == _WORKDAYS:
            return "on weekdays"
        case tuple() if weekdays == _WEEKEND:
            return "on weekends"
        case _:
            return f"on {', '.join(_DAYS[day] for day in weekdays)}"
