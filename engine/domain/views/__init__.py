"""What use cases answer: frozen records whose field names are the wire's, one module an aggregate.

The web serialises them as they are; nothing in them is secret but a token that is shown once.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

V = TypeVar("V")


@attrs.frozen(kw_only=True)
class Page(Generic[V]):
    """A part of a list, in the list's order, and how many items the whole has."""

    items: tuple[V, ...]
    total: int
