"""The model behind every body and query, and the types of their fields.

Strict: a number is a JSON integer, an id a UUID in its usual form, an instant RFC 3339 with an
offset (W-003); an unknown field is refused by name (W-011). What a text may say is the use case's
business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Self, TypeAlias
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import models_json_schema

from engine import limits
from engine.errors import WakefulError, invalid

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DIGITS: Final = re.compile(r"\d{1,9}", re.ASCII)
_FLAGS: Final = {"true": True, "false": False}

_CODES: Final = {"extra_forbidden": "unknown_field", "missing": "missing_field"}
# What pydantic finds, in our words; a value is never repeated. Our own validators speak for
# themselves (value_error), and whatever else there may be is wrong without a reason.
_SENTENCES: Final = {
    "extra_forbidden": "unknown field",
    "missing": "it is missing",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
_OWN: Final = "value_error"
_OTHERWISE: Final = "has a value that is not allowed"
# The first error of the most telling sort is answered: what is unknown was never meant for us.
_RANKS: Final = {"extra_forbidden": 0, "missing": 2}
_RANK_OTHERS: Final = 1


def parse_uuid(text: object) -> UUID:
    """Return the UUID that a text in the usual form is. Raises ValueError for any other value."""
    if not isinstance(text, str) or not _UUID.fullmatch(text):
        raise ValueError("must be a UUID")
    return UUID(text)


def _parse_instant(text: object) -> datetime:
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise ValueError("must be a time in RFC 3339 with an offset")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a time that the calendar has") from None


def _parse_day(text: object) -> date:
    if not isinstance(text, str) or not _DAY.fullmatch(text):
        raise ValueError("must be a date, YYYY-MM-DD")
    return date.fromisoformat(text)


def _parse_digits(text: object) -> int:
    if not isinstance(text, str) or not _DIGITS.fullmatch(text):
        raise ValueError("must be a whole number")
    return int(text)


def _parse_flag(text: object) -> bool:
    if text not in _FLAGS:
        raise ValueError("must be true or false")
    return _FLAGS[str(text)]


def listed(items: str) -> Callable[[object], object]:
    """Return what makes the tuple that records hold of a JSON array of `items` (a plural)."""

    def as_tuple(values: object) -> object:
        if not isinstance(values, list):
            raise ValueError(f"must be a list of {items}")  # noqa: TRY004 - pydantic reads these
        return tuple(values)

    return as_tuple


Id: TypeAlias = Annotated[UUID, BeforeValidator(parse_uuid)]
Instant: TypeAlias = Annotated[datetime, BeforeValidator(_parse_instant)]
Day: TypeAlias = Annotated[date, BeforeValidator(_parse_day)]
Whole: TypeAlias = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Revision: TypeAlias = Annotated[int, Field(ge=1, le=2**63 - 1)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_parse_flag)]  # of a query, where all is text
Ids: TypeAlias = Annotated[tuple[Id, ...], BeforeValidator(listed("ids"))]
Texts: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(listed("texts"))]
Objects: TypeAlias = Annotated[tuple[dict[str, Any], ...], BeforeValidator(listed("objects"))]


def unsent() -> Any:
    """Return the default of a field that a change need not have; no description mentions it."""
    return Field(default_factory=lambda: None)


class Input(BaseModel):
    """What a request may send: the fields of its query or of its body."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return the input with these fields.

        Raises `unknown_field`, `missing_field` or `invalid_input`, with the field in question.
        """
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise _refusal(error) from None

    def sent(self) -> dict[str, Any]:
        """Return the fields that were sent, ready to become those of a command."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class Nothing(Input):
    """The input of a request that needs none."""


class Paging(Input):
    """Which part of a list."""

    limit: Annotated[int, BeforeValidator(_parse_digits), Field(ge=1, le=limits.PAGE_MAX)] = (
        limits.PAGE_DEFAULT
    )
    offset: Annotated[int, BeforeValidator(_parse_digits), Field(le=limits.OFFSET_MAX)] = 0


def _refusal(error: ValidationError) -> WakefulError:
    """Turn what pydantic found first into an error that repeats nothing of the input but names."""
    found = error.errors(include_url=False, include_input=False)
    first = min(found, key=lambda each: _RANKS.get(each["type"], _RANK_OTHERS))
    kind = first["type"]
    field = ".".join(map(str, first["loc"]))[: limits.FIELD_CHARS_MAX]
    context = first.get("ctx", {})
    message = str(context["error"]) if kind == _OWN else _SENTENCES.get(kind, _OTHERWISE)
    message = message if kind == _OWN else message.format_map(context)
    return invalid(field, f"{field}: {message}", code=_CODES.get(kind, "invalid_input"))


def describe(inputs: Iterable[type[Input]], template: str) -> dict[str, Any]:
    """Return the JSON schemas of inputs and of what they hold, by name.

    `template` makes a reference of a name: `#/components/schemas/{model}`.
    """
    _, document = models_json_schema(
        [(each, "validation") for each in inputs], ref_template=template
    )
    schemas: dict[str, Any] = document.get("$defs", {})
    return schemas
