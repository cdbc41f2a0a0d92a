"""Texts and numbers as callers send them: what may be stored, checked once for everybody.

Lengths are bytes of UTF-8 where the name says bytes, else characters. Every refusal is a
`WakefulError` that names the field (api.md, Conventions) and never repeats the value.
"""

from __future__ import annotations

from datetime import UTC, datetime

from engine.errors import invalid


def instant_text(at: datetime) -> str:
    """Return an instant as every answer and fact tells it: RFC 3339, `Z`, microseconds (api.md)."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def storable_text(field: str, value: str) -> str:
    """Return `value` if PostgreSQL can hold it: no NUL, no lone surrogate; else 400."""
    if not isinstance(value, str):
        raise invalid(field, f"{field} must be a text")
    if "\x00" in value:
        raise invalid(field, f"{field} must not contain NUL characters")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise invalid(field, f"{field} must be valid Unicode text")
    return value


def trimmed_text(field: str, value: str | None, *, bytes_max: int) -> str:
    """Return `value` without surrounding blanks, 1 to `bytes_max` bytes long (W-002); else 400."""
    if value is None:
        raise invalid(field, f"{field} is missing", code="missing_field")
    text = storable_text(field, value).strip()
    if not text:
        raise invalid(field, f"{field} must not be blank")
    size = len(text.encode())
    if size > bytes_max:
        raise invalid(field, f"{field} must be at most {bytes_max} bytes long, not {size}")
    return text


def whole_number(field: str, value: object, *, low: int, high: int, code: str) -> int:
    """Return `value` if it is an integer in `low`..`high`, booleans and floats refused (W-003).

    The error carries `code`, because the same mistake is another kind of error in a schedule.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(field, f"{field} must be a whole number", code=code)
    if not low <= value <= high:
        raise invalid(field, f"{field} must be between {low} and {high}", code=code)
    return value
