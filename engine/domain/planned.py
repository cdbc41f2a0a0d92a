"""The coming times of a schedule, as a person reads them: in UTC and on the wall (W-214)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from engine import limits
from engine.domain import timers
from engine.domain.records import Rule
from engine.domain.schedule import (
    Occurrence,
    Schedule,
    Shift,
    occurrence,
    parse_zone,
    schedule_of,
    upcoming,
)

_HOUR: Final = timedelta(hours=1)


@attrs.frozen(kw_only=True)
class PlannedTime:
    """One planned instant; `dst` marks what a change of the clock does to it.

    `local` is what a clock in the rule's zone shows, `utc_offset` how far it is from UTC then.
    """

    at: datetime
    local: str
    utc_offset: str
    dst: Shift | None


def planned_times(schedule: Schedule, timezone: str, after: datetime) -> tuple[PlannedTime, ...]:
    """Return the next firings of a schedule after an instant, `NEXT_TIMES_MAX` at most."""
    return _shown(upcoming(schedule, after, limits.NEXT_TIMES_MAX), timezone)


def times_of(rule: Rule, now: datetime) -> tuple[PlannedTime, ...]:
    """Return the next firings of a stored rule after `now`; none of a rule that is not enabled.

    A time that has come is not among them: the next dispatch fires it. Raises `invalid_schedule`
    if a stored cron rule cannot be read any more.
    """
    schedule = schedule_of(rule)
    if schedule is None or not rule.enabled:
        return ()
    step = timers.due_step(rule, now)
    first = rule.next_fire_at if step is None else step[1]
    if first is None or first <= now:
        return ()
    later = upcoming(schedule, first, limits.NEXT_TIMES_MAX - 1)
    return _shown((occurrence(schedule, first), *later), rule.timezone)


def _shown(found: tuple[Occurrence, ...], timezone: str) -> tuple[PlannedTime, ...]:
    zone = parse_zone(timezone)
    shown = []
    for each in found:
        try:
            local = each.at.astimezone(zone)
        except OverflowError:  # the last hours of the calendar
            local = each.at.astimezone(UTC)
        offset = local.utcoffset()
        assert offset is not None, "a local time has an offset"
        shown.append(
            PlannedTime(
                at=each.at,
                local=local.replace(tzinfo=None).isoformat(timespec="seconds"),
                utc_offset=_offset(offset),
                dst=each.dst,
            )
        )
    return tuple(shown)


def _offset(offset: timedelta) -> str:
    """Return an offset as RFC 3339 writes it; the seconds of long ago are left out."""
    sign = "-" if offset < timedelta() else "+"
    hours, rest = divmod(abs(offset), _HOUR)
    return f"{sign}{hours:02}:{rest // timedelta(minutes=1):02}"
