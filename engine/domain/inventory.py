"""By what the rules of a whole workspace are told apart (W-207, W-208)."""

from __future__ import annotations

from enum import StrEnum


class InventoryScope(StrEnum):
    """Which rules of the inventory: all of them, or those of one class (W-207, W-208)."""

    ACTIVE = "active"
    ALL = "all"
    PAUSED = "paused"
    DISABLED = "disabled"
    ENDED = "ended"


class InventoryKind(StrEnum):
    """What the rules of the inventory wait for: events, a time, or times that recur (W-207)."""

    ALL = "all"
    EVENT = "event"
    AT = "at"
    RECURRING = "recurring"


class RuleSource(StrEnum):
    """Who registered a rule: a person, a run of an agent, or the platform (W-207)."""

    MEMBER = "member"
    AGENT = "agent"
    SYSTEM = "system"
