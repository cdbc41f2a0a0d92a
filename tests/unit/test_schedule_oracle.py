"""Compare `next_after` with two slow readings of the requirement text.

`python -m tests.unit.test_schedule_oracle N` compares N samples of each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import attrs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine.domain.schedule import next_after, parse_cron, parse_zone

MINUTE = timedelta(minutes=1)
SEASON = timedelta(hours=3)  # W-124: shifts of three hours or more get no catch-up
WARM_UP = timedelta(hours=4)  # more than any season's shift
BEFORE, BEHIND = timedelta(hours=40), timedelta(hours=72)  # what is walked around a jump

# A zone and a moment close to one of its jumps.
JUMPS = (
    ("UTC", datetime(2027, 3, 28, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2027, 3, 28, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2027, 10, 31, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2027, 3, 14, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2027, 11, 7, 6, tzinfo=UTC)),
    ("America/Santiago", datetime(2027, 9, 5, 4, tzinfo=UTC)),  # midnight is skipped
    ("Australia/Lord_Howe", datetime(2027, 10, 2, 15, 30, tzinfo=UTC)),  # by half an hour
    ("Australia/Lord_Howe", datetime(2027, 4, 3, 15, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2027, 4, 29, 22, tzinfo=UTC)),  # midnight is skipped
    ("Africa/Cairo", datetime(2027, 10, 28, 21, tzinfo=UTC)),  # midnight comes twice
    ("Antarctica/Troll", datetime(2027, 3, 28, 1, tzinfo=UTC)),  # by two hours
    ("Antarctica/Troll", datetime(2027, 10, 31, 1, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),  # a day is skipped
    ("Antarctica/Casey", datetime(2009, 10, 17, 18, tzinfo=UTC)),  # three hours forward
    ("Antarctica/Casey", datetime(2010, 3, 4, 15, tzinfo=UTC)),  # three hours back
    ("Pacific/Kwajalein", datetime(1969, 9, 30, 13, tzinfo=UTC)),  # a day comes twice
)


@attrs.frozen
class Field:
    """One drawn field: what is written, and which values that means."""

    text: str
    values: frozenset[int]

    @property
    def has_star(self) -> bool:
        """What Vixie cron goes by: whether the text begins with `*`."""
        return self.text.startswith("*")


@attrs.frozen
class Expression:
    """Five drawn fields."""

    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        """The expression as it is sent."""
        return " ".join(f.text for f in attrs.astuple(self, recurse=False))

    @property
    def is_fixed_time(self) -> bool:
        """W-120: neither the minute nor the hour field begins with `*`."""
        return not self.minute.has_star and not self.hour.has_star

    def admits_day(self, wall: datetime) -> bool:
        """W-006: with both day fields restricted, a match of either suffices."""
        by_date = wall.day in self.day.values
        by_weekday = wall.isoweekday() % 7 in self.weekday.values
        if self.day.has_star or self.weekday.has_star:
            is_day = by_date and by_weekday
        else:
            is_day = by_date or by_weekday
        return is_day and wall.month in self.month.values

    def matches(self, wall: datetime) -> bool:
        """Whether this minute of a wall clock matches."""
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and self.admits_day(wall)
        )


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, *, stars: int, near: int | None = None) -> Field:
    """Draw `*` in `stars` of ten cases, else a list of up to three numbers, ranges and steps.

    Numbers lie close to `near` (modulo the field), anywhere unless given.
    """
    if draw(st.integers(0, 9)) < stars:
        return Field("*", frozenset(range(low, high + 1)))
    texts, values = [], set[int]()
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(("a", "a", "a-b", "a-b/n", "a/n", "*/n")))
        first, last = (
            draw(st.integers(low, high))
            if near is None
            else low + (near - low + draw(st.integers(-2, 1))) % (high - low + 1)
            for _ in range(2)
        )
        first, last = sorted((first, last))
        step = draw(st.integers(1, high - low + 1)) if shape.endswith("n") else 1
        match shape:
            case "a":
                last = first
            case "a/n":
                last = high
            case "*/n":
                first, last = low, high
        texts.append(shape.replace("a", str(first)).replace("b", str(last)).replace("n", str(step)))
        values.update(range(first, last + 1, step))
    return Field(",".join(texts), frozenset(values))


@st.composite
def samples_near_a_jump(draw: st.DrawFn) -> tuple[Expression, str, datetime, datetime]:
    """Draw an expression, a zone, the moment of a jump, and an instant to look on from.

    Most hours lie in what the jump skips or repeats, and most instants shortly before it.
    """
    zone, moment = draw(st.sampled_from(JUMPS))
    hour = moment.astimezone(parse_zone(zone)).hour
    expression = Expression(
        minute=draw(fields(0, 59, stars=1)),
        hour=draw(fields(0, 23, stars=1, near=hour)),
        day=draw(fields(1, 31, stars=9)),
        month=draw(fields(1, 12, stars=9)),
        weekday=draw(fields(0, 6, stars=9)),
    )
    seconds = draw(st.integers(-5 * 3600, 2 * 3600) | st.integers(-36 * 3600, 36 * 3600))
    microseconds = draw(st.sampled_from((0, 1, 999_999)))
    after = moment + timedelta(seconds=seconds, microseconds=microseconds)
    return expression, zone, moment, after


@lru_cache
def walls(zone: str, jump: datetime) -> list[tuple[datetime, datetime]]:
    """Return every minute around a jump: the instant and what the wall clock shows then."""
    count = int((BEFORE + BEHIND) / MINUTE)
    instants = (jump - BEFORE + k * MINUTE for k in range(count))
    clock = parse_zone(zone)
    return [(t, t.astimezone(clock).replace(tzinfo=None)) for t in instants]


def walk_minutes(
    expression: Expression, minutes: list[tuple[datetime, datetime]], after: datetime
) -> datetime | None:
    """Return the first firing later than `after`, minute by minute (W-120 to W-124)."""
    begin = int((after - minutes[0][0] - WARM_UP) / MINUTE)
    shown = previous = minutes[begin][1]  # `shown`: the latest wall time that was on the clock
    for instant, wall in minutes[begin + 1 :]:
        shift = wall - previous - MINUTE
        if abs(shift) >= SEASON:
            shown = wall - MINUTE
        is_second_pass = wall <= shown
        fires = expression.matches(wall) and not (is_second_pass and expression.is_fixed_time)
        if expression.is_fixed_time and timedelta(0) < shift < SEASON:  # the gap just ended (W-121)
            lost = (previous + k * MINUTE for k in range(1, int(shift / MINUTE) + 1))
            fires = fires or any(map(expression.matches, lost))
        if fires and instant > after:
            return instant
        previous, shown = wall, max(shown, wall)
    return None


def walk_days(expression: Expression, after: datetime) -> datetime | None:
    """Return the first firing in UTC later than `after` within ten years, day by day."""
    midnight = after.replace(hour=0, minute=0, second=0, microsecond=0)
    for day in (midnight + timedelta(days=k) for k in range(3652)):
        if expression.admits_day(day):
            for hour in sorted(expression.hour.values):
                for minute in sorted(expression.minute.values):
                    fire_at = day.replace(hour=hour, minute=minute)
                    if fire_at > after:
                        return fire_at
    return None


def compare(samples: int, test: Callable[..., None]) -> None:
    """Run a hypothesis test with this many examples."""
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    settings(max_examples=samples, deadline=None, database=None, suppress_health_check=quiet)(
        test
    )()


def compare_minutes(samples: int) -> None:
    """Compare around jumps; an instant without a firing in reach must have none in the engine."""

    @given(samples_near_a_jump())
    def test(sample: tuple[Expression, str, datetime, datetime]) -> None:
        expression, zone, moment, after = sample
        assume(len(expression.text) <= 120)
        minutes = walls(zone, moment)
        expected = walk_minutes(expression, minutes, after)
        found = next_after(parse_cron(expression.text, zone), after)
        if expected is not None:
            assert found == expected, (expression.text, zone, after)
        else:
            assert found is None or found > minutes[-1][0], (expression.text, zone, after)

    compare(samples, test)


def compare_days(samples: int) -> None:
    """Compare over ten years in UTC; days are drawn sparse."""
    sparse = st.builds(
        Expression,
        minute=fields(0, 59, stars=1),
        hour=fields(0, 23, stars=1),
        day=fields(1, 31, stars=3, near=30),
        month=fields(1, 12, stars=3),
        weekday=fields(0, 6, stars=3),
    )

    @given(sparse, st.timedeltas(timedelta(0), timedelta(days=36_500)))
    def test(expression: Expression, age: timedelta) -> None:
        assume(len(expression.text) <= 120)
        after = datetime(1990, 1, 1, tzinfo=UTC) + age
        expected = walk_days(expression, after)
        found = next_after(parse_cron(expression.text, "UTC"), after)
        if expected is not None:
            assert found == expected, (expression.text, after)
        else:
            assert found is None or found > after + timedelta(days=3650), (expression.text, after)

    compare(samples, test)


def test_jumps_are_where_the_samples_think() -> None:
    """W-120: every sampled moment lies at most an hour before or at a change of the offset."""
    for zone, moment in JUMPS[1:]:
        clock = ZoneInfo(zone)
        offsets = {(moment + k * MINUTE).astimezone(clock).utcoffset() for k in (-1, 61)}
        assert len(offsets) == 2, zone


def test_next_after_agrees_with_a_walk_over_minutes() -> None:
    """W-120, W-121, W-122, W-123, W-124: as a minute-by-minute reading of the rule says."""
    compare_minutes(400)


def test_next_after_agrees_with_a_walk_over_days() -> None:
    """W-006: either day field suffices if both are restricted, and ten years are looked at."""
    compare_days(150)


if __name__ == "__main__":
    count = int(sys.argv[1])
    compare_minutes(count)
    compare_days(count)
