"""The cron dialect: five fields of lists, ranges, steps and English names (W-006), nothing else.

What croniter would accept beyond that is refused here (W-007), and what it reads in a way of its
own never reaches it: `a-a` means one value, a step may not be longer than its field, a range may
not run backwards, and each field is written out as plain numbers.

Two rules of Vixie cron go by the *first character* of a field, not by what it matches. A day
field that begins with `*` does not restrict the day, so `1-31` restricts and `*/2` does not; and a
minute or hour field that begins with `*` makes the schedule a wildcard (W-120).
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine import limits
from engine.errors import WakefulError, invalid

_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SUNDAY: Final = 7  # Sunday is 0, and also 7 (W-006)
_FIELDS: Final = 5
_ITEM: Final = re.compile(
    r"(?:(?P<star>\*)|(?P<low>\d{1,2}|[a-z]{3})(?:-(?P<high>\d{1,2}|[a-z]{3}))?)"
    r"(?:/(?P<step>\d{1,2}))?",
    re.ASCII,
)
_SEPARATOR: Final = re.compile(r"[ \t]+")


@attrs.frozen
class _Field:
    """One of the five: its name for messages, its values, the names that stand for them."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[int, ...]:
        """All values of the field."""
        return tuple(range(self.low, self.high + 1))


_MINUTE: Final = _Field("minute", 0, 59)
_HOUR: Final = _Field("hour", 0, 23)
_DAY: Final = _Field("day of month", 1, 31)
_MONTH: Final = _Field("month", 1, 12, _MONTHS)
_WEEKDAY: Final = _Field("day of week", 0, 6, _DAYS)


@attrs.frozen(kw_only=True)
class CronFields:
    """A parsed expression: the matching values of each field, ascending; Sunday is 0.

    `is_fixed_time` is the distinction of W-120. `either_day_suffices` says that both day fields
    are restricted, so that a match of one is enough; otherwise both must match.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    is_fixed_time: bool
    either_day_suffices: bool

    @property
    def canonical(self) -> str:
        """The expression in plain numbers: `*` for every value, else an ascending list."""
        days, weekdays = self.days, self.weekdays
        if self.either_day_suffices and (days == _DAY.every or weekdays == _WEEKDAY.every):
            days, weekdays = _DAY.every, _WEEKDAY.every
        return " ".join(
            "*" if values == field.every else ",".join(map(str, values))
            for field, values in (
                (_MINUTE, self.minutes),
                (_HOUR, self.hours),
                (_DAY, days),
                (_MONTH, self.months),
                (_WEEKDAY, weekdays),
            )
        )


def parse_fields(expression: str) -> CronFields:
    """Parse a five-field expression, names in any case; else `invalid_schedule`."""
    if not isinstance(expression, str):
        raise _refusal("cron_expression must be a text")
    if len(expression) > limits.CRON_EXPRESSION_CHARS_MAX:
        raise _refusal(
            f"cron_expression must be at most {limits.CRON_EXPRESSION_CHARS_MAX} characters long"
        )
    texts = _SEPARATOR.split(expression.strip(" \t").lower())
    if len(texts) != _FIELDS:
        raise _refusal(
            "cron_expression must have exactly five fields: "
            "minute, hour, day of month, month, day of week"
        )
    minute, hour, day, _, weekday = texts
    minutes, hours, days, months, weekdays = (
        _parse_field(field, text)
        for field, text in zip((_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY), texts, strict=True)
    )
    return CronFields(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        is_fixed_time=not minute.startswith("*") and not hour.startswith("*"),
        either_day_suffices=not day.startswith("*") and not weekday.startswith("*"),
    )


def _parse_field(field: _Field, text: str) -> tuple[int, ...]:
    """Return the values that a comma list of items matches, ascending."""
    return tuple(sorted({value for item in text.split(",") for value in _parse_item(field, item)}))


def _parse_item(field: _Field, text: str) -> set[int]:
    """Return the values of one item: `*`, `a`, `a-b`, each with an optional `/step`.

    `a/step` counts from `a` to the end of the field.
    """
    item = _ITEM.fullmatch(text)
    if item is None:
        raise _refusal(
            f"the {field.name} field takes numbers, ranges and steps"
            + (", and names of three letters" if field.names else "")
        )
    if item["star"]:
        low, high = field.low, field.high
    else:
        low = _value(field, item["low"])
        if item["high"]:
            low, high = _range(field, low, _value(field, item["high"]))
        else:
            high = field.high if item["step"] and low <= field.high else low
    step = int(item["step"] or 1)
    if not 1 <= step <= len(field.every):
        raise _refusal(f"a step in the {field.name} field is from 1 to {len(field.every)}")
    return {_fold(field, value) for value in range(low, high + 1, step)}


def _value(field: _Field, text: str) -> int:
    """Return the number that a digit group or a name stands for."""
    if text in field.names:
        return field.low + field.names.index(text)
    highest = _SUNDAY if field is _WEEKDAY else field.high
    if not text.isdigit() or not field.low <= int(text) <= highest:
        raise _refusal(f"the {field.name} field takes values from {field.low} to {highest}")
    return int(text)


def _range(field: _Field, low: int, high: int) -> tuple[int, int]:
    """Return the bounds of a range; Sunday begins a range as 0 and ends one as 7."""
    if field is _WEEKDAY:
        if low == _SUNDAY and high < _SUNDAY:
            low = 0
        elif high == 0 < low:
            high = _SUNDAY
    if low > high:
        raise _refusal(f"a range in the {field.name} field must not run backwards")
    return low, high


def _fold(field: _Field, value: int) -> int:
    """Write Sunday as 0."""
    return 0 if field is _WEEKDAY and value == _SUNDAY else value


def _refusal(message: str) -> WakefulError:
    return invalid("cron_expression", message, code="invalid_schedule")
