"""Statuses of issues: the seven that every workspace has, and what those of its own may look like.

A category says what a status means to the machine; it never changes, for rules and closed issues
hang on it (W-186). An archived status stays on the issues that have it, and is given to no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from engine import limits
from engine.domain import fields
from engine.errors import WakefulError, invalid

CATEGORIES: Final = ("backlog", "todo", "in_progress", "done", "closed")
CLOSED_CATEGORIES: Final = frozenset({"done", "closed"})
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9_]*")


@attrs.frozen(kw_only=True)
class Status:
    """A status that an issue can have."""

    key: str
    name: str
    category: str
    is_archived: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether an issue with it is closed (wakeups.md, section 0)."""
        return self.category in CLOSED_CATEGORIES


# The SQL function `status_category` says the same of them; a test compares.
BUILT_IN: Final[Mapping[str, Status]] = MappingProxyType(
    {
        key: Status(key=key, name=name, category=category)
        for key, name, category in (
            ("backlog", "Backlog", "backlog"),
            ("todo", "Todo", "todo"),
            ("in_progress", "In Progress", "in_progress"),
            ("in_review", "In Review", "in_progress"),
            ("blocked", "Blocked", "in_progress"),
            ("done", "Done", "done"),
            ("cancelled", "Cancelled", "closed"),
        )
    }
)


def new_key(field: str, value: str) -> str:
    """Return `value` if it can be the key of a status. Raises `conflict` for a built-in one."""
    key = fields.line(field, value, chars_max=limits.STATUS_KEY_CHARS_MAX)
    if not _KEY.fullmatch(key):
        raise invalid(
            field,
            f"{field} must be lower-case letters, digits and underscores, no underscore first",
        )
    if key in BUILT_IN:
        raise WakefulError("conflict", "every workspace has this status already", field=field)
    return key


def new_name(field: str, value: str) -> str:
    """Return `value` if it can be the name of a status. Raises `conflict` for a built-in one."""
    name = fields.line(field, value)
    if name.lower() in {status.name.lower() for status in BUILT_IN.values()}:
        raise WakefulError("conflict", "another status has this name", field=field)
    return name
