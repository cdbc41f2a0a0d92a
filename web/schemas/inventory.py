"""Inputs about the wakeup rules of a whole workspace (W-207)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import WithJsonSchema

from engine import limits
from engine.domain.inventory import InventoryKind, InventoryScope, RuleSource
from web.schemas.inputs import Id, Paging

_SCOPE: Final = WithJsonSchema({"type": "string", "enum": [*InventoryScope]})
_KIND: Final = WithJsonSchema({"type": "string", "enum": [*InventoryKind]})
_SOURCE: Final = WithJsonSchema({"type": "string", "enum": ["", *RuleSource]})
_SEARCH: Final = WithJsonSchema(
    {
        "type": "string",
        "description": f"At most {limits.INVENTORY_SEARCH_BYTES_MAX} bytes; in any case, literally,"
        " in the title and identifier of the issue and in the agent's name.",
    }
)


class InventoryFilter(Paging):
    """Which rules to list; each filter narrows, and all but the scope narrow the counts, too."""

    scope: Annotated[str, _SCOPE] = InventoryScope.ACTIVE
    kind: Annotated[str, _KIND] = InventoryKind.ALL
    source: Annotated[str, _SOURCE] = ""
    agent_id: Id | None = None
    search: Annotated[str, _SEARCH] = ""
