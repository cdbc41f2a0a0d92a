from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domain import fields
from engine.errors import WakefulError


def refused(call: Callable[..., object], *args: object, field: str = "f", **more: object) -> bool:
    """Return whether a call is refused as bad input for this field."""
    with pytest.raises(WakefulError) as caught:
        call(*args, **more)
    assert caught.value.code == "invalid_input"
    return caught.value.details == {"field": field}


def test_a_line_is_one_trimmed_line() -> None:
    """A name loses its surrounding blanks; empty, too long or of two lines it is refused."""
    assert fields.line("f", "  ä b ") == "ä b"
    assert fields.line("f", "x" * 3, chars_max=3) == "xxx"
    for value in ("", " \n", "xxxx", "a\nb", "a\u2028b", "a\x00", "\ud800"):
        assert refused(fields.line, "f", value, chars_max=3)


def test_a_text_stays_as_it_is() -> None:
    """A text keeps its blanks, may be empty, and is measured in bytes."""
    assert fields.text("f", " ä\n", bytes_max=4) == " ä\n"
    assert fields.text("f", "", bytes_max=0) == ""
    assert refused(lambda: fields.text("f", "ää", bytes_max=3))
    assert refused(lambda: fields.text("f", 7, bytes_max=3))  # type: ignore[arg-type] # the point


def test_a_choice_is_one_of_a_few() -> None:
    """A choice is refused with the list of what it could be."""
    assert fields.choice("f", "a", ("a", "b")) == "a"
    with pytest.raises(WakefulError, match="f must be one of a, b"):
        fields.choice("f", "A", ("a", "b"))


def test_an_address_is_one_person_in_any_case() -> None:
    """E-mail addresses are stored in lower case; what has no two sides is none."""
    assert fields.email("f", " Me@Example.COM ") == "me@example.com"
    for value in ("me", "@x", "me@", "a@b@c", "a b@c"):
        assert refused(fields.email, "f", value)


def test_slugs_and_prefixes_have_a_form() -> None:
    """A slug fits into an address and is no id; a prefix is upper case and starts with a letter."""
    assert fields.slug("f", "my-team-2") == "my-team-2"
    for value in ("", "-a", "a-", "a--b", "A", "ä", "a_b", "x" * 51, str(UUID(int=0))):
        assert refused(fields.slug, "f", value)
    assert fields.issue_prefix("f", "WF2") == "WF2"
    for value in ("", "2W", "wf", "W-F", "W" * 11):
        assert refused(fields.issue_prefix, "f", value)


def test_json_fits_into_the_column() -> None:
    """Only objects pass that `jsonb` holds: no NUL, no NaN, no lone surrogate, not too long."""
    value = {"ä": [1, None, {"b": "\\u0000"}], "t": ("x",)}
    assert fields.json_object("f", value, bytes_max=100) == value
    assert fields.json_object("f", {"a": "ä"}, bytes_max=11) == {"a": "ä"}
    bad: list[Any] = [
        [],
        "x",
        None,
        {"a": float("nan")},
        {"a": "\x00"},
        {"\x00": 1},
        {"a": ["\ud800"]},
        {"a": object()},
        {"a": "ää"},
    ]
    for each in bad:
        assert refused(fields.json_object, "f", each, bytes_max=11)


def test_a_page_is_bounded() -> None:
    """A page has 1 to 100 items; the field that is out of bounds is named."""
    assert fields.page(100, 0) == (100, 0)
    assert refused(lambda: fields.page(101, 0), field="limit")
    assert refused(lambda: fields.page(0, 0), field="limit")
    assert refused(lambda: fields.page(1, -1), field="offset")
    assert refused(lambda: fields.page(1, 1_000_001), field="offset")


def test_an_id_has_its_usual_form() -> None:
    """An id is a UUID with hyphens, in any case; other ways of writing one are refused."""
    identifier = UUID("0198f2f0-1234-7abc-8def-0123456789ab")
    assert fields.parse_id(str(identifier)) == identifier
    assert fields.parse_id(str(identifier).upper()) == identifier
    for ref in ("", "main", identifier.hex, f"{{{identifier}}}", f"urn:uuid:{identifier}"):
        assert fields.parse_id(ref) is None


def test_an_identifier_is_prefix_and_number() -> None:
    """`WF-12` is read in any case; what no issue can be called is none."""
    assert fields.parse_identifier("wf2-012") == ("WF2", 12)
    for ref in ("WF", "WF-", "-1", "WF-1-2", "WF-x", "WF-1234567890", "WF-\u0661", " WF-1"):
        assert fields.parse_identifier(ref) is None


@given(st.text(alphabet="ab%_\\", min_size=1, max_size=20))
def test_a_pattern_means_its_text(text: str) -> None:
    """A search pattern, read by the rules of LIKE, is the literal text between two wildcards."""
    pattern = fields.search_pattern(text)
    assert (pattern[0], pattern[-1]) == ("%", "%")
    inner, read = pattern[1:-1], ""
    while inner:
        escaped = inner[0] == "\\"
        assert escaped or inner[0] not in "%_"
        read += inner[escaped]
        inner = inner[1 + escaped :]
    assert read == text
