"""Properties that a workspace gives its issues: their types, and what a value may be.

The value of a property on an issue is JSON: a text, a number, true or false, a date as
YYYY-MM-DD, one of the options, or a list of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Any, Final, assert_never

from engine import limits
from engine.domain import fields
from engine.domain.records import Json
from engine.errors import WakefulError, invalid

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OPTIONS: Final = "options"


class PropertyType(StrEnum):
    """What the values of a property are; it never changes."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    SELECT = "select"
    MULTI_SELECT = "multi_select"

    @property
    def has_options(self) -> bool:
        """Whether its values are taken from a list in the configuration."""
        return self in {PropertyType.SELECT, PropertyType.MULTI_SELECT}


def parse_type(field: str, value: str) -> PropertyType:
    """Return the type with this name; else 400."""
    return PropertyType(fields.choice(field, value, [each.value for each in PropertyType]))


def checked_config(field: str, kind: PropertyType, config: object) -> dict[str, Any]:
    """Return the configuration of a property: `options` where its type has them, else nothing."""
    if not isinstance(config, Mapping):
        raise invalid(field, f"{field} must be an object")
    if not kind.has_options:
        if config:
            raise invalid(field, f"a property of type {kind} has no configuration")
        return {}
    options = config.get(_OPTIONS)
    if set(config) != {_OPTIONS} or not isinstance(options, list | tuple) or not options:
        raise invalid(field, f"{field} must have options, a list of texts, and nothing else")
    if len(options) > limits.PROPERTY_OPTIONS_MAX:
        raise invalid(field, f"there can be at most {limits.PROPERTY_OPTIONS_MAX} options")
    lines = [fields.line(field, each) for each in options]
    if len(set(lines)) != len(lines):
        raise invalid(field, "each option can stand there once")
    return {_OPTIONS: lines}


def checked_value(field: str, kind: PropertyType, config: Json, value: Any) -> Any:
    """Return a value as it is stored. Raises 400 where it is none of the property's type."""
    match kind:
        case PropertyType.TEXT:
            text = fields.text(field, value, bytes_max=limits.PROPERTY_VALUE_BYTES_MAX)
            if not text.strip():
                raise invalid(field, f"{field} must not be blank; DELETE takes it away")
            return text
        case PropertyType.NUMBER:
            return _number(field, value)
        case PropertyType.BOOLEAN:
            if not isinstance(value, bool):
                raise invalid(field, f"{field} must be true or false")
            return value
        case PropertyType.DATE:
            return _day(field, value)
        case PropertyType.SELECT:
            return _picked(field, config, [value])[0]
        case PropertyType.MULTI_SELECT:
            if not isinstance(value, list | tuple) or not value:
                raise invalid(field, f"{field} must be a list of options; DELETE takes it away")
            return _picked(field, config, value)
        case _ as never:
            assert_never(never)


def _number(field: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(field, f"{field} must be a number")
    try:
        is_finite = abs(float(value)) != float("inf") and value == value  # noqa: PLR0124 - NaN
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise invalid(field, f"{field} must be a number that a double can hold")
    return value


def _day(field: str, value: Any) -> str:
    refusal: WakefulError = invalid(field, f"{field} must be a date, YYYY-MM-DD")
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        raise refusal
    try:
        date.fromisoformat(value)
    except ValueError:
        raise refusal from None
    return value


def _picked(field: str, config: Json, values: list[Any] | tuple[Any, ...]) -> list[str]:
    """Return the options among `values`, each once, in the order of the configuration."""
    options: list[str] = config[_OPTIONS]
    if any(not isinstance(each, str) or each not in options for each in values):
        raise invalid(field, f"{field} must be one of the property's options")
    return [each for each in options if each in values]
