"""JSON as the wire has it: views, records and plain values to bytes (api.md, Conventions).

Field names are those of the attrs classes. Ids become text, instants RFC 3339 in UTC with `Z` and
microseconds, closed sets their value, sets and tuples arrays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from functools import cache
from typing import Any, cast
from uuid import UUID

import attrs

from engine.domain.texts import instant_text


def dumps(value: object) -> bytes:
    """Return the JSON text of a view or a plain value, in UTF-8.

    Raises:
        TypeError: something in it has no form on the wire.
        ValueError: a number in it is infinite or none.
    """
    text = json.dumps(
        value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode()


def instant(value: datetime) -> str:
    """Return an aware instant as RFC 3339 in UTC with `Z` and microseconds.

    Raises:
        ValueError: it has no offset.
    """
    if value.tzinfo is None:
        raise ValueError("an instant without an offset is no instant")
    return instant_text(value)


@cache
def names(view: type[Any]) -> tuple[str, ...]:
    """Return the field names of an attrs class, which are its names on the wire."""
    return tuple(field.name for field in attrs.fields(view))


def _plain(value: object) -> object:
    """Return the JSON form of what `json` does not know; it is asked again for what is inside."""
    match value:
        case UUID():
            return str(value)
        case datetime():
            return instant(value)
        case date():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case AbstractSet():
            return sorted(value)
        case _ if attrs.has(view := cast("type[Any]", type(value))):
            return {name: getattr(value, name) for name in names(view)}
        case _:
            raise TypeError(f"{type(value).__name__} has no form on the wire")
