"""What may be a reaction."""

from __future__ import annotations

import unicodedata
from typing import Final

from engine import limits
from engine.domain.texts import storable_text
from engine.errors import invalid

# Controls, and what ends a line. What joins the parts of an emoji (U+200D) is of another category.
_UNPRINTABLE: Final = frozenset({"Cc", "Zl", "Zp"})
_DOTS: Final = frozenset({".", ".."})


def emoji(field: str, value: str) -> str:
    """Return `value` if it is an emoji as one may type it: 1 to 64 bytes of printable text.

    It is also one part of an address, so it is no path and has no blanks around it.
    """
    text = storable_text(field, value)
    if not 1 <= len(text.encode()) <= limits.EMOJI_BYTES_MAX:
        raise invalid(field, f"{field} must be 1 to {limits.EMOJI_BYTES_MAX} bytes long")
    if any(unicodedata.category(char) in _UNPRINTABLE for char in text):
        raise invalid(field, f"{field} must not contain control characters")
    if text != text.strip():
        raise invalid(field, f"{field} must not begin or end with a blank")
    if "/" in text or text in _DOTS:
        raise invalid(field, f"{field} must not be a path")
    return text
