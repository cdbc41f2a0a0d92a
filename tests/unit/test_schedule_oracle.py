"""Compare `next_after` with an independent walk over minutes (`tests.model.cron_walk`).

`python -m tests.unit.test_schedule_oracle N` compares about N samples instead (`make oracle`). A
sample is an expression, a zone and an instant; every zone whose clock ever changes gets its share,
and most instants lie close to a change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

import pytest

from engine.domain.schedule import next_after, parse_cron
from engine.errors import WakefulError
from tests.model import cron_walk
from tests.model.cron_walk import DAY, HOUR, NAMES, Walk, read_expression

SAMPLES: Final = 20_000
SEED: Final = 20_270_328
FIRST_YEAR, LAST_YEAR = 1901, 2101
BEFORE, BEHIND = timedelta(hours=30), timedelta(hours=36)  # what is walked around a change
EXPRESSIONS, INSTANTS = 9, 4  # of one walk, and of one expression
CHARS_MAX: Final = 120


def draw_field(random: Random, place: int, stars: float, near: int | None) -> str:
    """Draw `*` with a likelihood, else a list of numbers, names, ranges and steps.

    Numbers lie close to `near` (modulo the field), anywhere unless given.
    """
    if random.random() < stars:
        return "*"
    return ",".join(draw_item(random, place, near) for _ in range(random.choice((1, 1, 1, 2, 3))))


def draw_item(random: Random, place: int, near: int | None) -> str:
    """Draw one item of a field's list."""
    low, high = cron_walk.BOUNDS[place]
    size = high - low + 1
    first, last = sorted(
        random.randint(low, high)
        if near is None or random.random() < 0.2
        else low + (near - low + random.randint(-2, 2)) % size
        for _ in range(2)
    )
    step = random.choice((1, 2, 3, 5, 10, 15, 30, random.randint(1, size)))
    step = step if step <= size else 1
    match random.choice(("a", "a", "a-b", "a-b/n", "a/n", "*/n")):
        case "*/n":
            return f"*/{step}"
        case "a/n":
            return f"{first}/{step}"
        case "a":
            return draw_value(random, place, first)
        case "a-b":
            return f"{draw_value(random, place, first)}-{draw_value(random, place, last)}"
        case _:
            return f"{first}-{last}/{step}"


def draw_value(random: Random, place: int, value: int) -> str:
    """Write a value as a number or by its name, in any case; Sunday has two numbers."""
    if place in NAMES and random.random() < 0.3:
        name = NAMES[place][value - cron_walk.BOUNDS[place][0]]
        return random.choice((name, name.upper(), name.title()))
    return "7" if place == 4 and value == 0 and random.random() < 0.3 else str(value)


def draw_expression(random: Random, wall: datetime) -> str:
    """Draw five fields that matter on the day of a wall time."""
    while True:
        text = " ".join(
            (
                draw_field(random, 0, 0.1, random.choice((None, wall.minute))),
                draw_field(random, 1, 0.1, wall.hour),
                draw_field(random, 2, 0.75, wall.day),
                draw_field(random, 3, 0.85, wall.month),
                draw_field(random, 4, 0.75, wall.isoweekday() % 7),
            )
        )
        if len(text) <= CHARS_MAX:
            return text


def draw_instant(random: Random, change: int) -> datetime:
    """Draw an instant, mostly within hours of a change, some on a whole minute."""
    near = random.random() < 0.75
    seconds = change + random.randint(*((-5 * HOUR, 3 * HOUR) if near else (-DAY, DAY)))
    if random.random() < 0.5:
        seconds -= seconds % 60
    microseconds = random.choice((0, 0, 1, 999_999))
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)


def draw_changes(random: Random, samples: int) -> Iterator[tuple[str, int]]:
    """Yield zones with one of their changes each, every zone that has any at least once."""
    zones = {
        name: found
        for name in cron_walk.zone_names()
        if (found := cron_walk.fortnights_with_a_change(name, FIRST_YEAR, LAST_YEAR))
    }
    assert len(zones) > 400
    while True:
        for name, fortnights in zones.items():
            yield name, cron_walk.change_within(name, random.choice(fortnights))
            samples -= EXPRESSIONS * INSTANTS
        if samples <= 0:
            return


def compare(samples: int, seed: int = SEED) -> int:
    """Compare at least so many samples around changes; return how many had a firing in the walk."""
    random = Random(seed)
    fired = 0
    for zone, change in draw_changes(random, samples):
        moment = datetime.fromtimestamp(change, UTC)
        walk = Walk(zone, moment - BEFORE, moment + BEHIND)
        wall = moment.astimezone(cron_walk.load_zone(zone))
        for _ in range(EXPRESSIONS):
            text = draw_expression(random, wall)
            expression, cron = read_expression(text), parse_cron(text, zone)
            for _ in range(INSTANTS):
                after = draw_instant(random, change)
                expected, found = walk.next_after(expression, after), next_after(cron, after)
                if expected is not None:
                    fired += 1
                    assert found == expected, (text, zone, after)
                else:
                    beyond = found is None or found.timestamp() > walk.end
                    assert beyond, (text, zone, after, found)
    return fired


def compare_decades(samples: int, seed: int = SEED) -> None:
    """Compare over ten years in UTC, a day at a time: sparse days, and what never comes."""
    random = Random(seed)
    for _ in range(samples):
        text = " ".join(
            (
                draw_field(random, 0, 0.1, None),
                draw_field(random, 1, 0.1, None),
                draw_field(random, 2, 0.3, 30),
                draw_field(random, 3, 0.3, None),
                draw_field(random, 4, 0.3, None),
            )
        )
        if len(text) > CHARS_MAX:
            continue
        after = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(
            seconds=random.randrange(100 * 365 * DAY)
        )
        expected = walk_days(text, after)
        found = next_after(parse_cron(text, "UTC"), after)
        if expected is not None:
            assert found == expected, (text, after)
        else:
            assert found is None or found > after + timedelta(days=3_650), (text, after)


def walk_days(text: str, after: datetime) -> datetime | None:
    """Return the first firing in UTC later than `after` within ten years, day by day."""
    expression = read_expression(text)
    minutes, hours, days, months, weekdays = expression.values
    midnight = after.replace(hour=0, minute=0, second=0, microsecond=0)
    for day in (midnight + timedelta(days=k) for k in range(3_652)):
        by_date, by_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        either = expression.either_day_suffices
        is_day = by_date or by_weekday if either else by_date and by_weekday
        if is_day and day.month in months:
            for hour in sorted(hours):
                for minute in sorted(minutes):
                    if (at := day.replace(hour=hour, minute=minute)) > after:
                        return at
    return None


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", "2027-03-28T01:00Z"),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", "2027-03-29T00:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2027-10-31T00:30Z", "2027-11-01T01:30Z"),
        ("0 * * * *", "Europe/Berlin", "2027-10-31T00:30Z", "2027-10-31T01:00Z"),
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T12:00Z", "2027-10-02T15:30Z"),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00Z", "2011-12-30T22:00Z"),
        ("0 0 13 * fri", "UTC", "2027-01-02T00:00Z", "2027-01-08T00:00Z"),
        ("0 0 */2 * MON", "UTC", "2027-01-01T00:00Z", "2027-01-11T00:00Z"),
        ("0 0 * * 6-7/1", "UTC", "2027-01-02T00:00Z", "2027-01-03T00:00Z"),
    ],
)
def test_the_walk_knows_the_rule(text: str, zone: str, after: str, expected: str) -> None:
    """W-120, W-121, W-122, W-123, W-124: the walk itself says what the requirements say."""
    instant = datetime.fromisoformat(after)
    walk = Walk(zone, instant - timedelta(days=2), instant + timedelta(days=12))
    assert walk.next_after(read_expression(text), instant) == datetime.fromisoformat(expected)


def test_next_after_agrees_with_a_walk_over_minutes() -> None:
    """W-120, W-121, W-122, W-123, W-124: in every zone that ever changes, as the walk says."""
    assert compare(SAMPLES) > SAMPLES // 2


def test_next_after_agrees_with_a_walk_over_days() -> None:
    """W-006: either day field suffices if both are restricted, and ten years are looked at."""
    compare_decades(500)


def test_the_drawn_expressions_are_valid_and_the_others_are_not() -> None:
    """W-006: whatever the grammar draws is accepted, and with a sixth field it is refused."""
    random = Random(SEED)
    for _ in range(200):
        text = draw_expression(random, datetime(2027, 3, 28, 2, 30))  # noqa: DTZ001 - a wall time
        assert parse_cron(text, "UTC").expression == text
        with pytest.raises(WakefulError):
            parse_cron(f"{text} *", "UTC")


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    fired = compare(wanted, chosen)
    compare_decades(wanted // 10, chosen)
    sys.stdout.write(f"{wanted} samples, {fired} of them with a firing, all as the walk says\n")
