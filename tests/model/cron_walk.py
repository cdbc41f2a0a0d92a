"""Cron by walking over a wall clock minute by minute: the oracle of `engine.domain.schedule`.

Written from W-006 and W-120 to W-124 and from what Vixie cron does, with nothing of the engine's:
its own reading of an expression, its own way to find when a zone's clock changes. Every minute
that a wall clock shows is a bit, and so is every minute that it skips; an expression is a few ANDs
and ORs over them, which makes a walk over years cheap.
"""

from __future__ import annotations

import importlib.resources
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

import attrs

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
SEASON: Final = 3 * HOUR  # W-120: shifts from here on are corrections, to which fixed times yield
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
FORTNIGHT: Final = 14 * DAY

NAMES: Final = {
    3: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    4: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@attrs.frozen
class Expression:
    """The values that each of the five fields admits, and which of them begin with `*`."""

    values: tuple[frozenset[int], ...]
    stars: tuple[bool, ...]

    @property
    def is_fixed_time(self) -> bool:
        """W-120: neither the minute nor the hour field begins with `*`."""
        return not self.stars[0] and not self.stars[1]

    @property
    def either_day_suffices(self) -> bool:
        """W-006: both day fields are restricted."""
        return not self.stars[2] and not self.stars[4]


def read_expression(text: str) -> Expression:
    """Read a valid expression."""
    fields = text.split()
    assert len(fields) == len(BOUNDS)
    return Expression(
        tuple(frozenset(_values(place, field.lower())) for place, field in enumerate(fields)),
        tuple(field.startswith("*") for field in fields),
    )


def _values(place: int, text: str) -> Iterator[int]:
    low, high = BOUNDS[place]
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        begin = low if first == "*" else _number(place, first)
        if first == "*":
            end = high
        elif last:
            end = _number(place, last)
        else:
            end = high if step else begin
        if place == 4 and last and end < begin:  # Sunday: 7 at the end of a range, 0 at its start
            begin, end = (begin, 7) if end == 0 else (0, end)
        yield from (
            value % 7 if place == 4 else value for value in range(begin, end + 1, int(step or 1))
        )


def _number(place: int, text: str) -> int:
    if text.isdigit():
        return int(text)
    return BOUNDS[place][0] + NAMES[place].index(text)


@attrs.frozen
class _Span:
    """A time without a change: from `start` to `end` (Unix seconds), so far ahead of UTC."""

    start: int
    end: int
    offset: int


class Walk:
    """Every minute that the wall clock of a zone shows or skips from one instant to another."""

    def __init__(self, zone: str, start: datetime, end: datetime) -> None:
        """Begin a day or more before the first instant of interest: fixed times look back."""
        self._instants: list[int] = []  # when each minute begins; a skipped one, when the gap ends
        stretches: list[tuple[int, range]] = []  # the place of each first minute, and all of them
        lost, repeated = [], []  # stretches of places
        closed: int | None = None  # where the clock stood, in its own seconds, at the last change
        shown = 0  # the end of what the clock has shown since its last correction
        for span in _spans(zone, int(start.timestamp()), int(end.timestamp())):
            opens, closes = span.start + span.offset, span.end + span.offset
            place = len(self._instants)
            if closed is None or abs(opens - closed) >= SEASON:
                shown = opens
            elif closed < opens:
                skipped = _minutes(closed, opens)
                stretches.append((place, skipped))
                self._instants.extend(span.start for _ in skipped)
                lost.append((place, len(self._instants)))
                place = len(self._instants)
            walls = _minutes(opens, closes)
            stretches.append((place, walls))
            repeated.append((place, place + len(_minutes(opens, min(shown, closes)))))
            self._instants.extend(wall * MINUTE - span.offset for wall in walls)
            closed, shown = closes, max(shown, closes)
        size = len(self._instants)
        self._lost = _bits(lost, size)
        self._repeated = _bits(repeated, size)
        self._masks = _masks(stretches, size)
        self.end = self._instants[-1]

    def next_after(self, expression: Expression, after: datetime) -> datetime | None:
        """Return the first firing later than `after`, None if the walk ends before."""
        first = bisect_right(self._instants, int(after.timestamp() // 1))
        ahead = self._firings(expression) >> first
        if not ahead:
            return None
        return _instant(self._instants[first + (ahead & -ahead).bit_length() - 1])

    def firings(self, expression: Expression, after: datetime, until: datetime) -> list[datetime]:
        """Return every firing later than `after` and not later than `until`."""
        begin, end = after.timestamp(), until.timestamp()
        packed = self._firings(expression).to_bytes(len(self._instants) // 8 + 1, "little")
        found = dict.fromkeys(
            self._instants[8 * place + bit]
            for place, byte in enumerate(packed)
            if byte
            for bit in range(8)
            if byte >> bit & 1
        )
        return [_instant(at) for at in found if begin < at <= end]

    def _firings(self, expression: Expression) -> int:
        minute, hour, day, month, weekday = (
            self._any(place, values) for place, values in enumerate(expression.values)
        )
        days = day | weekday if expression.either_day_suffices else day & weekday
        matching = minute & hour & days & month
        return matching & ~(self._repeated if expression.is_fixed_time else self._lost)

    def _any(self, place: int, values: frozenset[int]) -> int:
        found = 0
        for value in values:
            found |= self._masks[place].get(value, 0)
        return found


def _minutes(start: int, end: int) -> range:
    """Return the whole minutes from `start` up to but without `end`, both in seconds."""
    return range(-(-start // MINUTE), -(-end // MINUTE))


def _masks(stretches: list[tuple[int, range]], size: int) -> list[dict[int, int]]:
    """Return for each field and value the minutes that have it, a bit a minute.

    A stretch is the place of its first minute and its minutes, counted since 1970 on the clock.
    """
    found: list[dict[int, list[tuple[int, int]]]] = [{} for _ in BOUNDS[1:]]
    minutes = {minute: bytearray(b"0" * size) for minute in range(60)}
    for place, walls in stretches:
        shift, end = place - walls.start, place + len(walls)
        for minute, row in minutes.items():
            places = range(place + (minute - walls.start) % 60, end, 60)
            row[places.start : end : 60] = b"1" * len(places)
        for hour in range(walls.start // 60, -(-walls.stop // 60)):
            day = date.fromordinal(EPOCH_DAY + hour // 24)
            values = (hour % 24, day.day, day.month, day.isoweekday() % 7)
            begins = max(hour * 60, walls.start) + shift
            ends = min(hour * 60 + 60, walls.stop) + shift
            for field, value in zip(found, values, strict=True):
                field.setdefault(value, []).append((begins, ends))
    return [
        {minute: int(row[::-1] or b"0", 2) for minute, row in minutes.items()},
        *({value: _bits(spans, size) for value, spans in field.items()} for field in found),
    ]


def _bits(spans: list[tuple[int, int]], size: int) -> int:
    """Return a number whose bits are set in these spans of places, and in no other."""
    row = bytearray(b"0" * size)
    for begins, ends in spans:
        row[begins:ends] = b"1" * (ends - begins)
    return int(row[::-1] or b"0", 2)


def _spans(zone: str, start: int, end: int) -> Iterator[_Span]:
    """Yield the times without a change from `start` to `end`; changes last longer than an hour."""
    begin = at = start
    while at < end:
        following = min(at + HOUR, end)
        if offset_at(zone, following) != offset_at(zone, at):
            change = _bisect(zone, at, following)
            yield _Span(begin, change, offset_at(zone, at))
            begin = change
        at = following
    yield _Span(begin, end, offset_at(zone, begin))


def _bisect(zone: str, early: int, late: int) -> int:
    """Return the first second with the offset of `late`, between two seconds that differ."""
    old = offset_at(zone, early)
    while late - early > 1:
        middle = (early + late) // 2
        if offset_at(zone, middle) == old:
            early = middle
        else:
            late = middle
    return late


def _instant(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


# --- Zones --------------------------------------------------------------------------------------


@lru_cache
def load_zone(name: str) -> ZoneInfo:
    """Read a zone from the package `tzdata`, whatever the host has."""
    path = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with path.open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def offset_at(zone: str, seconds: int) -> int:
    """Return how many seconds a zone's clock is ahead of UTC at an instant."""
    return round(_offset_at(load_zone(zone), seconds).total_seconds())


def _offset_at(zone: ZoneInfo, seconds: int) -> timedelta:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    assert offset is not None
    return offset


def fortnights_with_a_change(zone: str, first_year: int, last_year: int) -> list[int]:
    """Return the starts of the fortnights in which the offset of a zone changes."""
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year, 1, 1, tzinfo=UTC).timestamp())
    loaded, found = load_zone(zone), []
    before = _offset_at(loaded, start)
    for at in range(start, end, FORTNIGHT):
        after = _offset_at(loaded, at + FORTNIGHT)
        if after != before:
            found.append(at)
        before = after
    return found


def change_within(zone: str, fortnight: int) -> int:
    """Return the second at which the offset changes in one of those fortnights."""
    return _bisect(zone, fortnight, fortnight + FORTNIGHT)


def zone_names() -> list[str]:
    """Return every zone that Python knows and the package has; `Factory` means "not set"."""
    known = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="ascii")
    return sorted(available_timezones() & set(known.split()) - {"Factory"})
