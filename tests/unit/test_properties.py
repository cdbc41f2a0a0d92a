from __future__ import annotations

from typing import Any

import pytest

from engine.domain.properties import PropertyType, checked_config, checked_value
from engine.errors import WakefulError

OPTIONS = {"options": ["low", "high", "none"]}
NO_OPTIONS: dict[str, Any] = {}


def config_of(kind: str) -> dict[str, Any]:
    return OPTIONS if PropertyType(kind).has_options else NO_OPTIONS


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("text", " as it is ", " as it is "),
        ("text", "x" * 4_096, "x" * 4_096),
        ("number", 0, 0),
        ("number", -1.5, -1.5),
        ("boolean", False, False),
        ("date", "2028-02-29", "2028-02-29"),
        ("select", "high", "high"),
        ("multi_select", ["none", "low", "none"], ["low", "none"]),
    ],
)
def test_a_value_of_its_type_is_stored(kind: str, value: Any, stored: Any) -> None:
    """A value of the property's type is kept; a choice of several in the order of the options."""
    found = checked_value("value", PropertyType(kind), config_of(kind), value)
    assert found == stored
    assert type(found) is type(stored)


WRONG: dict[str, tuple[Any, ...]] = {
    "text": (1, True, [], {}, None, "", "  ", "x" * 4_097, "nul\x00", "\ud800"),
    "number": ("1", True, [], {}, None, 10**400, float("nan"), float("inf")),
    "boolean": (0, 1, "true", [], {}, None),
    "date": ("2027-02-29", "20270101", "2027-1-1", "2027-01-01T00:00:00Z", "", 20270101, None, []),
    "select": ("LOW", "", ["low"], {}, 1, None, True),
    "multi_select": ("low", [], ["LOW"], [1], [["low"]], {}, None, [None]),
}


@pytest.mark.parametrize(
    ("kind", "value"),
    [(kind, value) for kind, values in WRONG.items() for value in values],
    ids=lambda value: repr(value)[:30],
)
def test_a_value_of_another_type_is_refused(kind: str, value: Any) -> None:
    """What is none of the property's type is 400 and names the field `value`."""
    with pytest.raises(WakefulError) as caught:
        checked_value("value", PropertyType(kind), config_of(kind), value)
    assert (caught.value.code, caught.value.details) == ("invalid_input", {"field": "value"})


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("text", OPTIONS),
        ("text", []),
        ("select", {}),
        ("select", {"options": []}),
        ("select", {"options": "low"}),
        ("select", {"options": ["low"], "more": 1}),
        ("select", {"options": ["low", "low "]}),
        ("select", {"options": [1]}),
        ("select", {"options": [""]}),
        ("select", {"options": ["two\nlines"]}),
        ("multi_select", {"options": [str(number) for number in range(101)]}),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_configuration_that_says_nothing_is_refused(kind: str, config: Any) -> None:
    """Options belong to the two types that have them: 1 to 100 single lines, each once."""
    with pytest.raises(WakefulError) as caught:
        checked_config("config", PropertyType(kind), config)
    assert (caught.value.code, caught.value.details) == ("invalid_input", {"field": "config"})


def test_options_are_kept_without_blanks() -> None:
    """Options keep their order and lose their surrounding blanks; other types have none."""
    config = checked_config("config", PropertyType.SELECT, {"options": [" b ", "a"]})
    assert config == {"options": ["b", "a"]}
    assert checked_config("config", PropertyType.DATE, {}) == {}
