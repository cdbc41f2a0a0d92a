from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domain import metadata
from engine.errors import WakefulError

# RFC 7396, appendix A, without the patches that are no objects.
EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": "b"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ({"a": [1, None]}, {"b": [None]}, {"a": [1, None], "b": [None]}),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_a_patch_is_merged_as_the_rfc_says(target: Any, patch: Any, result: Any) -> None:
    """The examples of RFC 7396, appendix A, come out as they stand there, and touch no input."""
    before = repr((target, patch))
    assert metadata.merged(target, patch) == result
    assert repr((target, patch)) == before


@given(OBJECTS, OBJECTS)
def test_a_patch_is_idempotent(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7396, section 2: the same patch a second time changes nothing."""
    once = metadata.merged(target, patch)
    assert metadata.changed_keys(once, metadata.merged(once, patch)) == []


@given(OBJECTS, OBJECTS)
def test_changed_keys_are_those_that_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Every key at the top is named if and only if it is in one alone, or has another value."""
    changed = metadata.changed_keys(one, other)
    assert changed == metadata.changed_keys(other, one) == sorted(changed)
    for key in {*one, *other}:
        is_kept = key in one and key in other and metadata.is_same(one[key], other[key])
        assert (key in changed) is not is_kept
    assert metadata.changed_keys(one, one) == []


def test_equality_is_that_of_jsonb() -> None:
    """1 is 1.0 and no true; order counts in lists, not in objects."""
    assert metadata.is_same({"a": [1, {"b": 2}], "c": None}, {"c": None, "a": [1.0, {"b": 2}]})
    for one, other in (
        (True, 1),
        (0, False),
        (None, False),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 1, "b": None}),
        ([], {}),
        ("1", 1),
    ):
        assert not metadata.is_same(one, other)


def nested(levels: int, *, in_lists: bool = False) -> dict[str, Any]:
    """Return an object that is as many levels deep."""
    value: Any = {}
    for _ in range(levels - 2):
        value = [value] if in_lists else {"a": value}
    return {"a": value}


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * 65_536},
        nested(17),
        nested(17, in_lists=True),
        {str(number): 1 for number in range(101)},
        {"a": {str(number): 1 for number in range(500)}},
        {"a": [{"b": 1}] * 251, "c": {str(number): 1 for number in range(250)}},
        {"k" * 101: 1},
        {"a": "\x00"},
        {"a": ["\ud800"]},
        {"a": float("inf")},
        [],
    ],
    ids=repr,
)
def test_what_is_out_of_bounds_is_refused(value: Any) -> None:
    """65,536 bytes, 16 levels, 500 keys, 100 of 100 characters at the top; the field is named."""
    with pytest.raises(WakefulError) as caught:
        metadata.checked("metadata", value)
    assert caught.value.code == "invalid_input"
    assert caught.value.details == {"field": "metadata"}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": "x" * 65_000},
        nested(16),
        nested(16, in_lists=True),
        {str(number): 1 for number in range(100)},
        {"a": {str(number): 1 for number in range(499)}},
        {"k" * 100: {"k" * 101: 1}},
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_within_bounds_is_kept(value: dict[str, Any]) -> None:
    """Each bound itself is allowed, and keys below the top may be long."""
    assert metadata.checked("metadata", value) == value
