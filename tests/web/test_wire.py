"""Views as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domain.records import Kind
from engine.domain.views import Page
from web import wire


@attrs.frozen(kw_only=True)
class Inner:
    """A view inside a view."""

    at: datetime | None
    on: date


@attrs.frozen(kw_only=True)
class Outer:
    """A view with one of everything."""

    id: UUID
    kind: Kind
    inner: Inner
    several: tuple[Inner, ...]
    details: Mapping[str, Any]
    some: frozenset[str]


def test_a_view_becomes_json_by_the_names_of_its_fields() -> None:
    """Ids, instants, dates, closed sets, views inside views, tuples and sets have their form."""
    east = timezone(timedelta(hours=2))
    inner = Inner(at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=east), on=date(2030, 1, 2))
    view = Outer(
        id=UUID(int=1),
        kind=Kind.EVENT,
        inner=inner,
        several=(attrs.evolve(inner, at=None),),
        details=MappingProxyType({"ids": [UUID(int=2)], "text": "grüß\x00"}),
        some=frozenset({"b", "a"}),
    )
    assert json.loads(wire.dumps(Page(items=(view,), total=1))) == {
        "items": [
            {
                "id": "00000000-0000-0000-0000-000000000001",
                "kind": "event",
                "inner": {"at": "2030-01-02T01:04:05.000000Z", "on": "2030-01-02"},
                "several": [{"at": None, "on": "2030-01-02"}],
                "details": {"ids": ["00000000-0000-0000-0000-000000000002"], "text": "grüß\x00"},
                "some": ["a", "b"],
            }
        ],
        "total": 1,
    }


@given(st.datetimes(timezones=st.timezones()))
def test_an_instant_survives_its_form(value: datetime) -> None:
    """Every aware instant is written in UTC with Z and microseconds, and reads back equal."""
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        return
    text = wire.instant(value)
    assert len(text) == len("2030-01-02T03:04:05.000006Z")
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == utc


@pytest.mark.parametrize("value", [datetime(2030, 1, 2), float("nan"), float("inf")])  # noqa: DTZ001 - refused for it
def test_what_json_cannot_say_is_refused(value: object) -> None:
    """An instant without an offset and a number that is none are errors of ours."""
    with pytest.raises(ValueError, match=r"offset|JSON"):
        wire.dumps([value])


def test_a_stranger_has_no_form() -> None:
    """A value that is no view, and no plain value, is an error of ours."""
    with pytest.raises(TypeError, match="object has no form"):
        wire.dumps({"a": object()})
