from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import attrs
import pytest

from engine.domain import schedule
from engine.domain.records import Kind, Mode, Rule
from engine.domain.schedule import (
    At,
    Every,
    Shift,
    elapsed_step,
    next_after,
    parse_cron,
    parse_zone,
    schedule_of,
    upcoming,
)
from engine.errors import WakefulError

NOW = datetime(2027, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def firings(expression: str, zone: str, start: str, count: int) -> list[datetime]:
    """Return the next `count` firings, each found from the one before it."""
    cron = parse_cron(expression, zone)
    found: list[datetime] = []
    after = utc(start)
    for _ in range(count):
        fire_at = next_after(cron, after)
        assert fire_at is not None
        found.append(fire_at)
        after = fire_at
    return found


def test_fixed_time_in_a_gap_fires_once_right_after_it() -> None:
    """W-121: all that falls into the gap fires once, at the first instant after the gap."""
    for expression in ("30 2 * * *", "0,30 2 * * *", "0-59 2 * * *", "0 2,3 * * *"):
        first, second = firings(expression, "Europe/Berlin", "2027-03-27T12:00Z", 2)
        assert first == utc("2027-03-28T01:00Z"), expression
        assert second.astimezone(parse_zone("Europe/Berlin")).date().isoformat() == "2027-03-29"


def test_fixed_time_in_an_overlap_fires_on_the_first_pass() -> None:
    """W-122: a fixed time that comes twice fires once, on the first pass."""
    assert firings("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00Z", 2) == [
        utc("2027-10-31T00:30Z"),
        utc("2027-11-01T01:30Z"),
    ]


def test_fixed_time_saved_during_the_second_pass_waits() -> None:
    """W-122: a rule that is saved during the second pass waits for the next day."""
    assert firings("30 2 * * *", "Europe/Berlin", "2027-10-31T01:10Z", 1) == [
        utc("2027-11-01T01:30Z")
    ]
    assert firings("*/30 2 * * *", "Europe/Berlin", "2027-10-31T01:10Z", 1) == [
        utc("2027-10-31T01:30Z")
    ]


def test_wildcards_follow_the_clock() -> None:
    """W-123: no burst for skipped minutes, and both passes of repeated ones."""
    assert firings("*/30 * * * *", "Europe/Berlin", "2027-03-28T00:15Z", 3) == [
        utc("2027-03-28T00:30Z"),
        utc("2027-03-28T01:00Z"),
        utc("2027-03-28T01:30Z"),
    ]
    assert firings("0 * * * *", "Europe/Berlin", "2027-10-30T23:30Z", 3) == [
        utc("2027-10-31T00:00Z"),
        utc("2027-10-31T01:00Z"),
        utc("2027-10-31T02:00Z"),
    ]


def test_hour_steps_are_not_pushed_out_of_the_gap() -> None:
    """W-123: `0 */2 * * *` has no firing at 03:00 local on the day of the gap."""
    assert firings("0 */2 * * *", "Europe/Berlin", "2027-03-27T23:00Z", 2) == [
        utc("2027-03-28T02:00Z"),  # 04:00 local
        utc("2027-03-28T04:00Z"),
    ]


def test_second_pass_after_a_sparse_first_one() -> None:
    """W-123: a wildcard whose first pass is over comes again on the second pass."""
    assert firings("10 */2 * * *", "Europe/Berlin", "2027-10-31T00:05Z", 3) == [
        utc("2027-10-31T00:10Z"),  # 02:10, first pass
        utc("2027-10-31T01:10Z"),  # 02:10, second pass
        utc("2027-10-31T03:10Z"),
    ]


def test_star_at_the_beginning_makes_a_wildcard() -> None:
    """W-120: `*/30 2` is a wildcard and is lost in the gap, `0,30 2` is fixed and is made up."""
    assert firings("*/30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", 1) == [
        utc("2027-03-29T00:00Z")
    ]
    assert firings("0,30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", 1) == [
        utc("2027-03-28T01:00Z")
    ]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T12:00Z", "2027-10-03T02:30+11:00"),
        ("30 0 * * *", "Africa/Cairo", "2027-04-29T12:00Z", "2027-04-30T01:00+03:00"),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00Z", "2011-12-31T12:00+14:00"),
        ("0 12 30 * *", "Pacific/Apia", "2011-12-29T23:00Z", "2012-01-30T12:00+14:00"),
        ("30 0 * * *", "America/Santiago", "2027-09-04T12:00Z", "2027-09-05T01:00-03:00"),
    ],
)
def test_gaps_of_other_sizes_and_hours(
    expression: str, zone: str, start: str, expected: str
) -> None:
    """W-124: half-hour, midnight and whole-day gaps; three hours or more get no catch-up."""
    assert firings(expression, zone, start, 1) == [utc(expected)]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00Z",
            [("2027-03-28T01:00Z", Shift.GAP_SHIFTED), ("2027-03-29T00:30Z", None)],
        ),
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00Z",
            [("2027-03-28T01:00Z", Shift.GAP_SHIFTED), ("2027-03-29T00:00Z", None)],
        ),
        (
            "0,30 2,3 * * *",  # 03:00 matches anyway: nothing was shifted
            "Europe/Berlin",
            "2027-03-27T12:00Z",
            [("2027-03-28T01:00Z", None), ("2027-03-28T01:30Z", None)],
        ),
        (
            "*/30 2 * * *",
            "Europe/Berlin",
            "2027-03-27T12:00Z",
            [("2027-03-29T00:00Z", None), ("2027-03-29T00:30Z", None)],
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2027-10-30T12:00Z",
            [("2027-10-31T00:30Z", Shift.OVERLAP_FIRST), ("2027-11-01T01:30Z", None)],
        ),
        (
            "*/30 2 31 * *",
            "Europe/Berlin",
            "2027-10-31T00:10Z",
            [
                ("2027-10-31T00:30Z", Shift.OVERLAP_FIRST),
                ("2027-10-31T01:00Z", Shift.OVERLAP_SECOND),
            ],
        ),
        (
            "0 12 * * *",  # a whole day comes twice, which is a correction
            "Pacific/Kwajalein",
            "1969-09-29T12:00Z",
            [
                ("1969-09-30T01:00Z", Shift.OVERLAP_FIRST),
                ("1969-10-01T00:00Z", Shift.OVERLAP_SECOND),
            ],
        ),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2027-10-02T12:00Z",
            [("2027-10-02T15:30Z", Shift.GAP_SHIFTED), ("2027-10-03T15:15Z", None)],
        ),
        (
            "0 12 * * *",  # a lost day is no season
            "Pacific/Apia",
            "2011-12-29T12:00Z",
            [("2011-12-29T22:00Z", None), ("2011-12-30T22:00Z", None)],
        ),
    ],
)
def test_a_preview_marks_what_the_clock_shifts(
    expression: str, zone: str, start: str, expected: list[tuple[str, Shift | None]]
) -> None:
    """W-120, W-121, W-122, W-123, W-124: coming times say that they are made up or come twice."""
    found = upcoming(parse_cron(expression, zone), utc(start), 2)
    assert [(each.at, each.dst) for each in found] == [(utc(at), dst) for at, dst in expected]


def test_a_preview_ends_with_its_schedule() -> None:
    """W-034: as many times as asked for, fewer where the schedule ends."""
    hour = timedelta(hours=1)
    assert [each.at for each in upcoming(Every(3_600), NOW, 3)] == [
        NOW + k * hour for k in (1, 2, 3)
    ]
    assert [each.at for each in upcoming(At(NOW), NOW - hour, 5)] == [NOW]
    assert upcoming(At(NOW), NOW, 5) == ()
    assert upcoming(parse_cron("0 0 31 2 *", "UTC"), NOW, 5) == ()
    leap = upcoming(parse_cron("0 0 29 2 *", "UTC"), NOW, 5)
    assert [each.at.year for each in leap] == [2028, 2032, 2036, 2040, 2044]


def test_corrections_of_the_clock_repeat_fixed_times() -> None:
    """W-124: when a whole day comes twice, a daily rule fires on both."""
    local = [
        fire_at.astimezone(parse_zone("Pacific/Kwajalein")).isoformat()
        for fire_at in firings("0 12 * * *", "Pacific/Kwajalein", "1969-09-29T12:00Z", 3)
    ]
    assert local == [
        "1969-09-30T12:00:00+11:00",
        "1969-09-30T12:00:00-12:00",
        "1969-10-01T12:00:00-12:00",
    ]


def test_second_pass_comes_before_a_later_wall_time() -> None:
    """W-124: in a repeated day the second pass wins over wall times that are a year away."""
    cron = parse_cron("0 1 30 9 2", "Pacific/Kwajalein")
    in_first_pass = utc("1969-09-30T13:00+11:00")
    assert next_after(cron, in_first_pass) == utc("1969-09-30T01:00-12:00")
    assert next_after(cron, utc("1969-09-30T01:00-12:00")) == utc("1970-09-01T01:00-12:00")


def test_every_ignores_zone_changes() -> None:
    """W-124: `every 1h` is 3600 elapsed seconds across both changes of Berlin."""
    for start in ("2027-03-28T00:30+01:00", "2027-10-31T01:30+02:00"):
        after = utc(start).astimezone(parse_zone("Europe/Berlin"))
        for _ in range(4):
            following = next_after(Every(3600), after)
            assert following is not None
            assert following.tzinfo is UTC
            assert following - after.astimezone(UTC) == timedelta(seconds=3600)
            after = following.astimezone(parse_zone("Europe/Berlin"))


def test_at_fires_once() -> None:
    """W-114: an `at` schedule has its time, and nothing at or after it."""
    assert next_after(At(NOW), NOW - timedelta(microseconds=1)) == NOW
    assert next_after(At(NOW), NOW) is None


def test_cron_is_strictly_later() -> None:
    """W-116: the next firing lies strictly later than the given instant."""
    cron = parse_cron("0 9 * * 1-5", "Europe/Berlin")
    nine = utc("2027-01-04T09:00+01:00")
    assert next_after(cron, nine - timedelta(microseconds=1)) == nine
    assert next_after(cron, nine) == nine + timedelta(days=1)
    assert next_after(cron, nine + timedelta(seconds=59)) == nine + timedelta(days=1)


def test_expression_and_zone_are_kept_as_sent() -> None:
    """W-116: the parsed schedule keeps the text that the caller wrote."""
    cron = parse_cron(" 0  9 * * MON-fri ", "Europe/Berlin")
    assert (cron.expression, cron.timezone) == (" 0  9 * * MON-fri ", "Europe/Berlin")


def test_never_matching_dates_have_no_next() -> None:
    """W-006: 31 February never comes, 29 February does."""
    assert next_after(parse_cron("0 0 31 2 *", "UTC"), NOW) is None
    assert firings("0 0 29 2 *", "UTC", "2027-01-01T00:00Z", 1) == [utc("2028-02-29T00:00Z")]
    assert firings("0 0 29 2 *", "UTC", "2096-03-01T00:00Z", 1) == [utc("2104-02-29T00:00Z")]


def test_nothing_is_looked_for_beyond_ten_years() -> None:
    """W-006: 29 February on a Sunday is too rare from 2032 on, but not just before it."""
    cron = parse_cron("0 0 29 2 */7", "UTC")
    assert next_after(cron, utc("2031-01-01T00:00Z")) == utc("2032-02-29T00:00Z")
    assert next_after(cron, utc("2032-02-29T00:00Z")) is None
    assert next_after(cron, utc("2050-02-01T00:00Z")) is None  # 2060 lies ten years and 28 days on


@pytest.mark.parametrize("year", [1, 1899, 9901, 9999])
def test_the_ends_of_the_calendar_are_no_error(year: int) -> None:
    """W-034: a preview from the far past or future finds nothing, and does not fail."""
    after = datetime(year, 12, 31, 23, 59, tzinfo=UTC)
    for zone in ("UTC", "Pacific/Kiritimati", "Etc/GMT+12"):
        assert next_after(parse_cron("* * * * *", zone), after) is None


def test_both_day_fields() -> None:
    """W-006: `0 0 13 * 5` lists Fridays and 13ths; a field that begins with `*` restricts not."""
    days = [f.day for f in firings("0 0 13 * 5", "UTC", "2027-01-02T00:00Z", 5)]
    assert days == [8, 13, 15, 22, 29]
    mondays = firings("0 0 */2 * 1", "UTC", "2027-01-01T00:00Z", 2)
    assert [f.day for f in mondays] == [11, 25]
    every_day = [f.day for f in firings("0 0 13 * 0-6", "UTC", "2027-01-02T00:00Z", 2)]
    assert every_day == [3, 4]


@pytest.mark.parametrize(
    ("late", "planned", "following"),
    [(0, 0, 60), (1, 0, 60), (59.999999, 0, 60), (60, 60, 120), (21_620, 21_600, 21_660)],
)
def test_every_keeps_its_grid(late: float, planned: int, following: int) -> None:
    """W-115: planned is the last elapsed step, next is planned + interval, later than now."""
    now = NOW + timedelta(seconds=late)
    assert elapsed_step(NOW, 60, now) == (
        NOW + timedelta(seconds=planned),
        NOW + timedelta(seconds=following),
    )
    assert elapsed_step(NOW, 60, now)[1] > now


def test_elapsed_step_needs_a_due_rule() -> None:
    """W-119: a rule that is not due has no elapsed step, also when the clock went back."""
    with pytest.raises(AssertionError):
        elapsed_step(NOW, 60, NOW - timedelta(microseconds=1))


@pytest.mark.parametrize("name", ["UTC", "Asia/Shanghai", "Europe/Berlin", "Etc/GMT+8", "Zulu"])
def test_iana_zones_are_known(name: str) -> None:
    """W-008: an IANA name is a time zone."""
    assert parse_zone(name).key == name


@pytest.mark.parametrize(
    "name",
    [
        *("Mars/Olympus", "+08:00", "Local", "local", "localtime", "", "utc", "UTC+8", "Factory"),
        *("../zones", "Europe", "Europe/", "/etc/localtime", "Europe/Berlin\n", "posixrules"),
    ],
)
def test_other_zones_are_refused(name: str) -> None:
    """W-008: unknown names, `Local` and bare offsets are invalid."""
    with pytest.raises(WakefulError) as caught:
        parse_zone(name)
    assert caught.value.code == "invalid_schedule"
    assert caught.value.details == {"field": "timezone"}


def test_every_listed_zone_loads() -> None:
    """W-008: each name of the time zone database is served from the package."""
    for name in schedule._zone_names():
        assert NOW.astimezone(parse_zone(name)) == NOW


RULE = Rule(
    id=UUID(int=1),
    workspace_id=UUID(int=2),
    issue_id=UUID(int=3),
    agent_id=UUID(int=4),
    created_by=UUID(int=5),
    source_task_id=None,
    parent_comment_id=None,
    instruction="look",
    kind=Kind.EVENT,
    mode=Mode.ONCE,
    event_types=("comment.created",),
    filter_agent_id=None,
    filter_task_id=None,
    filter_actor_type=None,
    filter_actor_id=None,
    interval_seconds=None,
    cron_expression=None,
    timezone="Europe/Berlin",
    next_fire_at=None,
    enabled=True,
    disabled_at=None,
    revision=1,
    last_task_id=None,
    last_error=None,
    created_at=NOW,
    updated_at=NOW,
)


def test_schedule_of_a_stored_rule() -> None:
    """W-114: a stored rule yields its schedule; an event rule or one without a time has none."""
    assert schedule_of(RULE) is None
    assert schedule_of(attrs.evolve(RULE, kind=Kind.AT)) is None
    assert schedule_of(attrs.evolve(RULE, kind=Kind.AT, next_fire_at=NOW)) == At(NOW)
    every = attrs.evolve(RULE, kind=Kind.EVERY, interval_seconds=60)
    assert schedule_of(every) == Every(60)
    assert schedule_of(attrs.evolve(RULE, kind=Kind.EVERY)) is None
    cron = attrs.evolve(RULE, kind=Kind.CRON, cron_expression="0 9 * * *")
    assert schedule_of(cron) == parse_cron("0 9 * * *", "Europe/Berlin")
    assert schedule_of(attrs.evolve(RULE, kind=Kind.CRON)) is None
