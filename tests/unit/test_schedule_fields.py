from __future__ import annotations

import pytest

from engine.domain.cron_fields import parse_fields
from engine.errors import WakefulError


@pytest.mark.parametrize(
    ("expression", "canonical"),
    [
        ("* * * * *", "* * * * *"),
        ("*/15 9-17/4 1,15 * *", "0,15,30,45 9,13,17 1,15 * *"),
        ("5/20 22/1 31 * *", "5,25,45 22,23 31 * *"),
        ("05 09 * JAN,Mar-may Mon-Fri", "5 9 * 1,3,4,5 1,2,3,4,5"),
        ("0\t0  1 12 *", "0 0 1 12 *"),
        ("1,1,0-1 0 * * *", "0,1 0 * * *"),
        ("0-59 0-23 * 1-12 *", "* * * * *"),
        ("*,5 * * * *", "* * * * *"),
        ("0 0 */10 * 1", "0 0 1,11,21,31 * 1"),
    ],
)
def test_lists_ranges_steps_and_names(expression: str, canonical: str) -> None:
    """W-006: five fields take lists, ranges, steps and English names in any case."""
    assert parse_fields(expression).canonical == canonical


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("0", (0,)),
        ("7", (0,)),
        ("sun", (0,)),
        ("7-7", (0,)),
        ("sun-sun", (0,)),
        ("0-7", (0, 1, 2, 3, 4, 5, 6)),
        ("1-7/2", (0, 1, 3, 5)),
        ("fri-sun", (0, 5, 6)),
        ("5-0", (0, 5, 6)),
        ("7-2", (0, 1, 2)),
        ("7/2", (0,)),
        ("5/1", (5, 6)),
        ("0,7", (0,)),
        ("*/2", (0, 2, 4, 6)),
    ],
)
def test_sunday_has_two_numbers(field: str, values: tuple[int, ...]) -> None:
    """W-006: 0 and 7 are both Sunday, wherever they stand."""
    assert parse_fields(f"0 0 * * {field}").weekdays == values


@pytest.mark.parametrize(
    ("expression", "minutes", "hours"),
    [("23-23 5-5 * * *", (23,), (5,)), ("59-59 23-23 * * *", (59,), (23,))],
)
def test_a_range_of_one_is_one_value(
    expression: str, minutes: tuple[int, ...], hours: tuple[int, ...]
) -> None:
    """W-007: `a-a` is the value a, and not the whole cycle that croniter makes of it."""
    fields = parse_fields(expression)
    assert (fields.minutes, fields.hours) == (minutes, hours)


@pytest.mark.parametrize(
    "expression",
    [
        *("60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *"),
        *("* * * * 8", "* * * *", "* * * * * *", "* * * * * * *", "", "   "),
        *("@hourly", "@every 1h", "@daily * * * *"),
        *("0 0 ? * *", "0 0 L * *", "0 0 * * 5L", "0 0 15W * *", "0 0 LW * *"),
        *("0 0 * * MON#1", "H * * * *", "H/5 * * * *", "R * * * *", "R(1-5) * * * *"),
        *("CRON_TZ=UTC 0 0 * * *", "TZ=UTC 0 0 * *", "TZ=UTC 0 0 * * *"),
        *("*/0 * * * *", "*/61 * * * *", "* */25 * * *", "*/-1 * * * *", "*/1.5 * * * *"),
        *("30-10 * * * *", "0 22-2 * * *", "* * * dec-jan *", "* * * * 5-1"),
        *(",1 * * * *", "1,,2 * * * *", "1- * * * *", "-1 * * * *", "1-2-3 * * * *"),
        *("+1 * * * *", "mon * * * *", "* * jan * *", "* * * mon *", "* * * * jan"),
        *("* * * january *", "* * * * monday", "** * * * *", "*-5 * * * *", "*5 * * * *"),
        *("٣ * * * *", "0 0 * * *\n", "0\n0 * * *", "0 0 * * *\x00", "0\u00a00 * * *"),
        "0," * 60 + "0 * * * *",
    ],
)
def test_everything_else_is_refused(expression: str) -> None:
    """W-006, W-007: out of range, malformed, or an extension of some cron library."""
    with pytest.raises(WakefulError) as caught:
        parse_fields(expression)
    assert caught.value.code == "invalid_schedule"
    assert caught.value.details == {"field": "cron_expression"}


def test_an_expression_is_a_text() -> None:
    """W-003: another JSON type is refused and not read as text."""
    with pytest.raises(WakefulError, match="must be a text"):
        parse_fields(5)  # type: ignore[arg-type] # what a careless caller passes


@pytest.mark.parametrize(
    ("expression", "is_fixed"),
    [
        ("0 9 * * *", True),
        ("0-59 0-23 * * *", True),
        ("1,*/15 9 * * *", True),
        ("*/30 2 * * *", False),
        ("0 * * * *", False),
        ("0 */2 * * *", False),
        ("*,5 9 * * *", False),
    ],
)
def test_fixed_time_goes_by_the_first_character(expression: str, is_fixed: bool) -> None:
    """W-120: fixed-time means that neither minute nor hour begins with `*`."""
    assert parse_fields(expression).is_fixed_time is is_fixed


@pytest.mark.parametrize(
    ("days", "either", "canonical"),
    [
        ("13 * 5", True, "13 * 5"),
        ("13 * *", False, "13 * *"),
        ("* * 5", False, "* * 5"),
        ("*/2 * 5", False, "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * 5"),
        ("13 * */6", False, "13 * 0,6"),
        ("13 * 0-6", True, "* * *"),
        ("1-31 * 5", True, "* * *"),
    ],
)
def test_either_day_suffices_if_both_are_restricted(
    days: str, either: bool, canonical: str
) -> None:
    """W-006: a day field restricts unless it begins with `*`; with two, one match suffices."""
    fields = parse_fields(f"0 0 {days}")
    assert fields.either_day_suffices is either
    assert fields.canonical == f"0 0 {canonical}"
