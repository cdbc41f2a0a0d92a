"""When a rule is due: `at`, `every` and `cron`, with daylight saving by the Vixie cron rule.

Three things are told apart. *Which wall clock minutes match* is croniter's business; it is asked
about plain local times without a zone, in a canonical expression of `cron_fields`. *When a wall
clock shows such a minute* is `zoneinfo`'s, read from the `tzdata` package so that every host
agrees. *What happens when the clock jumps* is decided here (W-120 to W-124):

- An expression whose minute or hour begins with `*` is a wildcard: it follows the clock as it
  runs, so skipped minutes are lost and repeated minutes fire on both passes.
- Any other expression is fixed-time: what falls into a gap fires once, at the first instant after
  it, and what falls into an overlap fires on the first pass only.
- A jump of three hours or more is a correction of the clock, not a season: every expression then
  follows the clock as it runs.

All instants are aware; results are UTC. A wall time is a `datetime` without a zone.
"""

from __future__ import annotations

import importlib.resources
from copy import copy
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import attrs
from croniter import CroniterBadDateError, croniter

from engine import limits
from engine.domain.cron_fields import CronFields, parse_fields
from engine.domain.records import Kind, Rule
from engine.errors import invalid

_HORIZON: Final = timedelta(days=round(limits.CRON_HORIZON_YEARS * 365.25))
_CORRECTION: Final = timedelta(hours=3)  # W-120: from here on a jump is no daylight saving
_TICK: Final = timedelta(microseconds=1)
_NO_ZONES: Final = frozenset({"Factory"})  # listed by tzdata, but means "not configured yet"


@attrs.frozen
class At:
    """Once, at an instant (W-114)."""

    at: datetime


@attrs.frozen
class Every:
    """Again and again after a number of elapsed seconds, whatever the wall clock does (W-124)."""

    interval_seconds: int


@attrs.frozen(kw_only=True)
class Cron:
    """At the minutes of a wall clock that match an expression (W-006).

    `expression` and `timezone` are exactly what the caller sent (W-116).
    """

    expression: str
    timezone: str
    fields: CronFields
    zone: ZoneInfo


Schedule = At | Every | Cron


def parse_cron(expression: str, timezone: str) -> Cron:
    """Parse an expression of the strict five-field dialect (W-006, W-007) in an IANA zone.

    Raises `invalid_schedule` for the field `cron_expression` or `timezone`. Whether the schedule
    ever fires is not looked at: that depends on the instant, see `next_after`.
    """
    return Cron(
        expression=expression,
        timezone=timezone,
        fields=parse_fields(expression),
        zone=parse_zone(timezone),
    )


def parse_zone(name: str) -> ZoneInfo:
    """Return the IANA zone of this exact name (W-008); else `invalid_schedule` for `timezone`.

    `Local`, bare offsets and names that only the host knows are unknown.
    """
    if name not in _zone_names():
        raise invalid(
            "timezone",
            "timezone must be the name of an IANA time zone, such as Europe/Berlin or UTC",
            code="invalid_schedule",
        )
    return _load_zone(name)


def schedule_of(rule: Rule) -> Schedule | None:
    """Return the schedule of a stored rule; None for an event rule.

    Of an `at` rule it is the planned time, which stays readable after it fired (W-114). Raises
    `invalid_schedule` if the stored zone has left the time zone database.
    """
    match rule.kind:
        case Kind.AT if rule.next_fire_at is not None:
            return At(rule.next_fire_at)
        case Kind.EVERY if rule.interval_seconds is not None:
            return Every(rule.interval_seconds)
        case Kind.CRON if rule.cron_expression is not None:
            return parse_cron(rule.cron_expression, rule.timezone)
        case _:
            return None


def next_after(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first firing strictly later than `after`, in UTC; None if there is none.

    `every` counts from `after` (W-005, W-025); a rule that is due keeps its grid by
    `elapsed_step`. `cron` looks ten years ahead (W-006).
    """
    match schedule:
        case At():
            return schedule.at if schedule.at > after else None
        case Every():
            return after.astimezone(UTC) + timedelta(seconds=schedule.interval_seconds)
        case Cron():
            return _next_of_cron(schedule, after)


def elapsed_step(
    next_fire_at: datetime, interval_seconds: int, now: datetime
) -> tuple[datetime, datetime]:
    """Return the last elapsed step of the grid and the step after it (W-115).

    The rule must be due. Missed steps collapse into the one returned, and the second instant is
    strictly later than `now`, however late the call is.
    """
    assert next_fire_at <= now, "an elapsed step needs a rule that is due"
    interval = timedelta(seconds=interval_seconds)
    planned = next_fire_at + (now - next_fire_at) // interval * interval
    return planned, planned + interval


class Shift(StrEnum):
    """How a change of the clock touches a firing (W-120, W-214)."""

    GAP_SHIFTED = "gap_shifted"  # its time is skipped: it comes at the first instant after the gap
    OVERLAP_FIRST = "overlap_first"  # its time comes twice: this is the first pass
    OVERLAP_SECOND = "overlap_second"  # and this the second, which only wildcards follow


@attrs.frozen(kw_only=True)
class Occurrence:
    """One coming firing; `dst` tells how a change of the clock touches it, None for most."""

    at: datetime
    dst: Shift | None


def upcoming(schedule: Schedule, after: datetime, count: int) -> tuple[Occurrence, ...]:
    """Return the next `count` firings strictly later than `after`, fewer if it ends before (W-034).

    Each is the `next_after` of the one before, so they are what a rule that fires in time does.
    """
    found: list[Occurrence] = []
    while len(found) < count:
        at = next_after(schedule, after)
        if at is None:
            break
        found.append(occurrence(schedule, at))
        after = at
    return tuple(found)


def occurrence(schedule: Schedule, at: datetime) -> Occurrence:
    """Return a firing at this instant with its mark; `at` and `every` follow no wall clock."""
    return Occurrence(at=at, dst=_shift_of(schedule, at) if isinstance(schedule, Cron) else None)


@attrs.frozen(kw_only=True)
class _Jump:
    """One change of a zone's offset from UTC.

    `at` is the first instant with the new offset. Wall times from `start` up to but without `end`
    are shown twice if the clock went back, and never if it went forward.
    """

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def start(self) -> datetime:
        return _wall(self.at, min(self.before, self.after))

    @property
    def end(self) -> datetime:
        return _wall(self.at, max(self.before, self.after))


def _next_of_cron(cron: Cron, after: datetime) -> datetime | None:
    """Walk over matching wall times, never backwards but once: into the pass that repeats."""
    if not limits.CALENDAR_YEAR_MIN <= after.year <= limits.CALENDAR_YEAR_MAX:
        return None
    local = after.astimezone(cron.zone)
    wall = local.replace(tzinfo=None, fold=0)
    until = wall + _HORIZON
    found = _next_wall(cron, wall, until)

    here = _jump_at(cron.zone, wall)
    repeating = here.at if here is not None and local.fold == 1 else None
    if (
        here is not None and repeating is None and (found is None or found >= here.end)
    ):  # the first pass is over: the same wall times are about to come again
        repeating = here.at
        found = _next_wall(cron, here.start - _TICK, until)

    while found is not None:  # each turn crosses one jump, at most up to `until`
        jump = _jump_at(cron.zone, found)
        if jump is None:
            return found.replace(tzinfo=cron.zone).astimezone(UTC)
        if jump.is_gap:
            if _is_smoothed(cron, jump):
                return jump.at
        elif jump.at != repeating:
            return _instant(found, jump.before)
        elif not _is_smoothed(cron, jump):
            return _instant(found, jump.after)
        found = _next_wall(cron, jump.end - _TICK, until)
    return None


def _is_smoothed(cron: Cron, jump: _Jump) -> bool:
    """Whether the schedule hides this jump: fixed times, and a shift below three hours (W-120)."""
    return cron.fields.is_fixed_time and abs(jump.after - jump.before) < _CORRECTION


def _shift_of(cron: Cron, at: datetime) -> Shift | None:
    """Return how the clock's changes touch a firing: it ends a gap, or its time comes twice."""
    wall = at.astimezone(cron.zone).replace(tzinfo=None, fold=0)
    gap = _jump_at(cron.zone, wall - _TICK)
    if gap is not None and gap.is_gap and gap.at == at:
        is_shifted = _next_wall(cron, wall - _TICK, wall) is None
        return Shift.GAP_SHIFTED if is_shifted else None
    overlap = _jump_at(cron.zone, wall)
    if overlap is None or overlap.is_gap:
        return None
    return Shift.OVERLAP_FIRST if at < overlap.at else Shift.OVERLAP_SECOND


def _next_wall(cron: Cron, wall: datetime, until: datetime) -> datetime | None:
    """Return the first matching wall time strictly later than `wall`, at most `until`."""
    search = copy(_search(cron.fields.canonical, day_or=cron.fields.either_day_suffices))
    try:
        found: datetime = search.get_next(datetime, start_time=wall)
    except CroniterBadDateError:
        return None
    assert found > wall, "croniter moved backwards"
    return found if found <= until else None


@lru_cache(maxsize=1024)
def _search(canonical: str, *, day_or: bool) -> croniter:
    """Parse an expression for croniter, once: parsing costs more than looking. Copy before use."""
    return croniter(
        canonical,
        0.0,  # the search gets its start at each call
        day_or=day_or,
        max_years_between_matches=limits.CRON_HORIZON_YEARS + 1,
    )


def _jump_at(zone: ZoneInfo, wall: datetime) -> _Jump | None:
    """Return the jump that makes this wall time ambiguous or absent; None for a plain one.

    PEP 495: `fold=0` reads the offset before the jump, `fold=1` the one after it.
    """
    wall = wall.replace(microsecond=0)  # offsets change on whole seconds
    before = wall.replace(tzinfo=zone, fold=0).utcoffset()
    after = wall.replace(tzinfo=zone, fold=1).utcoffset()
    assert before is not None
    assert after is not None
    if before == after:
        return None
    early = _instant(wall, max(before, after))
    late = _instant(wall, min(before, after))
    while late - early > timedelta(seconds=1):  # halves at most a day: 17 turns
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return _Jump(at=late, before=before, after=after)


def _wall(instant: datetime, offset: timedelta) -> datetime:
    """Return what a clock with this offset shows at an instant."""
    return instant.replace(tzinfo=None) + offset


def _instant(wall: datetime, offset: timedelta) -> datetime:
    """Return when a clock with this offset shows a wall time, in UTC."""
    return (wall - offset).replace(tzinfo=UTC)


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    """Read the names of the IANA zones from the `tzdata` package, once."""
    listing = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return frozenset(listing.split()) - _NO_ZONES


@lru_cache(maxsize=1024)
def _load_zone(name: str) -> ZoneInfo:
    """Read one zone from the `tzdata` package, not from the host; `name` is a listed one."""
    source = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with source.open("rb") as data:
        return ZoneInfo.from_file(data, key=name)
