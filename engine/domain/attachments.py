"""What may be said of a file: its name, its media type, the address where it lies.

As everywhere, a refusal names the field and never repeats the value.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import urlsplit

from engine import limits
from engine.domain import fields
from engine.domain.texts import storable_text
from engine.errors import invalid

UNKNOWN_TYPE: Final = "application/octet-stream"
_SCHEMES: Final = frozenset({"http", "https"})
_HALF: Final = r"[A-Za-z0-9!#$&^_.+-]{1,127}"  # RFC 6838, 4.2
_MEDIA_TYPE: Final = re.compile(rf"({_HALF}/{_HALF})[ \t]*(?:;.*)?", re.ASCII)


def filename(field: str, value: str) -> str:
    """Return the name of a file without blanks around it: one line, no path, nothing invisible."""
    name = fields.line(field, value, chars_max=limits.FILENAME_CHARS_MAX)
    if any(unicodedata.category(char) == "Cc" for char in name):
        raise invalid(field, f"{field} must not contain control characters")
    if "/" in name or "\\" in name or name in {".", ".."}:
        raise invalid(field, f"{field} must be a name without a path")
    return name


def url(field: str, value: str) -> str:
    """Return `value` if it is an address of the web: http or https, with a host."""
    text = storable_text(field, value)
    if len(text.encode()) > limits.URL_BYTES_MAX:
        raise invalid(field, f"{field} must be at most {limits.URL_BYTES_MAX} bytes long")
    # Looked for first: the parser would drop some of them without a word.
    if any(char.isspace() or unicodedata.category(char) == "Cc" for char in text):
        raise invalid(field, f"{field} must not contain blanks or control characters")
    try:
        parts = urlsplit(text)
        is_sound = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound:
        raise invalid(field, f"{field} must be an http or https address")
    return text


def media_type(value: str | None) -> str:
    """Return the media type that an upload calls itself, without parameters.

    Nothing relies on it; what is not well-formed counts as unknown.
    """
    match = _MEDIA_TYPE.fullmatch((value or "").strip())
    return match[1].lower() if match else UNKNOWN_TYPE
