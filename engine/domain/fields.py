"""Fields of the tracker as callers send them: names, choices, JSON, pages.

As in `texts`, every refusal names the field and never repeats its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from engine import limits
from engine.domain.texts import storable_text, whole_number
from engine.errors import invalid

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_SLUG: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PREFIX: Final = re.compile(r"[A-Z][A-Z0-9]*")
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")
_IDENTIFIER: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)-([0-9]+)", re.ASCII)


def line(field: str, value: str, *, chars_max: int = limits.NAME_CHARS_MAX) -> str:
    """Return `value` without surrounding blanks: one line of 1 to `chars_max` characters."""
    text = storable_text(field, value).strip()
    if not text:
        raise invalid(field, f"{field} must not be blank")
    if len(text) > chars_max:
        raise invalid(field, f"{field} must be at most {chars_max} characters long")
    if len(text.splitlines()) > 1:
        raise invalid(field, f"{field} must be a single line")
    return text


def text(field: str, value: str, *, bytes_max: int) -> str:
    """Return `value` as it is: at most `bytes_max` bytes of UTF-8, possibly none."""
    if len(storable_text(field, value).encode()) > bytes_max:
        raise invalid(field, f"{field} must be at most {bytes_max} bytes long")
    return value


def choice(field: str, value: str, allowed: Collection[str]) -> str:
    """Return `value` if it is one of `allowed`."""
    if value not in allowed:
        raise invalid(field, f"{field} must be one of {', '.join(allowed)}")
    return value


def email(field: str, value: str) -> str:
    """Return an address in lower case, so that one person is one user."""
    address = line(field, value, chars_max=limits.EMAIL_CHARS_MAX).lower()
    if not _EMAIL.fullmatch(address):
        raise invalid(field, f"{field} must be an e-mail address")
    return address


def slug(field: str, value: str) -> str:
    """Return `value` if it can name a workspace in an address and cannot be taken for an id."""
    if not _SLUG.fullmatch(line(field, value, chars_max=limits.SLUG_CHARS_MAX)):
        raise invalid(field, f"{field} must be lower-case letters, digits and single hyphens")
    if parse_id(value) is not None:
        raise invalid(field, f"{field} must not look like an id")
    return value


def issue_prefix(field: str, value: str) -> str:
    """Return `value` if it can stand in front of an issue's number."""
    if not _PREFIX.fullmatch(line(field, value, chars_max=limits.ISSUE_PREFIX_CHARS_MAX)):
        raise invalid(field, f"{field} must be upper-case letters and digits, a letter first")
    return value


def color(field: str, value: str | None) -> str | None:
    """Return a colour as pages write it, `#rrggbb` in lower case, or none."""
    if value is None:
        return None
    lowered = storable_text(field, value).lower()
    if not _COLOR.fullmatch(lowered):
        raise invalid(field, f"{field} must be a colour such as #1f6feb")
    return lowered


def json_object(field: str, value: object, *, bytes_max: int) -> dict[str, Any]:
    """Return `value` if it is an object that `jsonb` can hold, at most `bytes_max` bytes long."""
    if not isinstance(value, Mapping):
        raise invalid(field, f"{field} must be an object")
    for each in _texts(value):
        storable_text(field, each)
    try:
        size = len(json.dumps(dict(value), allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError):
        raise invalid(field, f"{field} must be JSON") from None
    if size > bytes_max:
        raise invalid(field, f"{field} must be at most {bytes_max} bytes long")
    return dict(value)


def _texts(root: object) -> Iterator[str]:
    """Yield every text of a JSON value, keys included, without recursion."""
    left: list[object] = [root]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left.extend(value.keys())
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)


def page(limit: int, offset: int) -> tuple[int, int]:
    """Return the bounds of a page if they are within those of api.md, Conventions."""
    return (
        whole_number("limit", limit, low=1, high=limits.PAGE_MAX, code="invalid_input"),
        whole_number("offset", offset, low=0, high=limits.OFFSET_MAX, code="invalid_input"),
    )


def parse_id(ref: str) -> UUID | None:
    """Return the UUID that `ref` writes in its usual form, else None."""
    try:
        identifier = UUID(ref)
    except ValueError:
        return None
    return identifier if str(identifier) == ref.lower() else None


def parse_identifier(ref: str) -> tuple[str, int] | None:
    """Return prefix, in upper case, and number of an issue's identifier (`WF-12`), else None."""
    match = _IDENTIFIER.fullmatch(ref)
    if match is None or len(match.group(2)) > limits.ISSUE_NUMBER_DIGITS_MAX:
        return None
    return match.group(1).upper(), int(match.group(2))


def search_pattern(value: str) -> str:
    r"""Return the LIKE pattern that finds `value` literally; `\` escapes in it."""
    return literal_pattern(line("search", value, chars_max=limits.SEARCH_CHARS_MAX))


def literal_pattern(value: str) -> str:
    r"""Return the LIKE pattern of every text that has `value` in it; `\` escapes in it."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", value) + "%"
