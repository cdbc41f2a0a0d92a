"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.durations import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10m", 600), ("1h30m", 5400), ("90s", 90), ("1s", 1), ("2h", 7200), ("1h1m1s", 3661)],
)
def test_durations_are_seconds(text: str, expected: int) -> None:
    """W-201: hours, minutes and seconds in this order, each at most once."""
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0s",
        "0h0m0s",
        "1.5s",
        "-5m",
        "+5m",
        "abc",
        "1m1h",
        "1s1s",
        "1d",
        "5 m",
        "\N{FULLWIDTH DIGIT FIVE}m",
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    """W-201: durations are positive, in whole seconds, and in no other form."""
    with pytest.raises(ValueError, match="no duration"):
        seconds(text)


@pytest.mark.parametrize("text", ["5", "0", "090", "600"])
def test_a_number_alone_lacks_its_unit(text: str) -> None:
    """W-201: a number without a unit is refused, too, and told apart from nonsense."""
    with pytest.raises(ValueError, match=rf"'{text}' has no unit: .* '{text}m'.* 1h30m"):
        seconds(text)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_the_parts_add_up(hours: int, minutes: int, rest: int) -> None:
    """W-201: a duration is the sum of its parts, whichever of them it has."""
    parts = [(hours, "h", 3600), (minutes, "m", 60), (rest, "s", 1)]
    text = "".join(f"{number}{unit}" for number, unit, _ in parts if number)
    total = sum(number * factor for number, _, factor in parts)
    if total:
        assert seconds(text) == total
