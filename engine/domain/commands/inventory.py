"""What callers may ask about the wakeup rules of a whole workspace (api.md, Wakeups).

Each asks for a member of the workspace, or an agent that runs there; a daemon is refused.
"""

from __future__ import annotations

from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import Query
from engine.domain.inventory import InventoryKind, InventoryScope


@attrs.frozen(kw_only=True)
class ListInventory(Query):
    """A page of the rules of a workspace, with counts: an `InventoryView` (W-206, W-207).

    `scope` is an `InventoryScope`, `kind` an `InventoryKind`, `source` a `RuleSource` or empty.
    `search` is literal, in any case, over title and identifier of the issue and the agent's name.
    """

    scope: str = InventoryScope.ACTIVE
    kind: str = InventoryKind.ALL
    source: str = ""
    agent_id: UUID | None = None
    search: str | None = None
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class ListSummaries(Query):
    """What each open issue with enabled rules waits for: a tuple of `IssueSummaryView` (W-211)."""


@attrs.frozen(kw_only=True)
class ListPaused(Query):
    """The paused rules of a workspace's open issues: a tuple of `PausedRuleView` (W-150)."""
