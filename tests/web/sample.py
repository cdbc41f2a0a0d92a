"""What a sound request for a route consists of, and what stands in many of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain.commands import Command, Query
from tests.web.stand_in import ISSUE, WORKSPACE

THING: Final = UUID(int=0x301)
IN_PLACE: Final[Mapping[str, Any]] = {"workspace_id": WORKSPACE}
ON_ISSUE: Final[Mapping[str, Any]] = {**IN_PLACE, "issue_id": ISSUE}
PAGE: Final = "?limit=10&offset=20"
PART: Final[Mapping[str, Any]] = {"limit": 10, "offset": 20}


@attrs.frozen
class Sample:
    """A request, the command that it becomes, and what the engine answers it with.

    `full` has every field that the route takes; no field is unknown to one that `takes_anything`.
    With `is_file` the answer goes out as a file.
    """

    method: str
    path: str
    full: Mapping[str, Any]
    asked: Command | Query | None
    answers: Any
    status: int = 200
    is_file: bool = attrs.field(default=False, kw_only=True)
    takes_anything: bool = attrs.field(default=False, kw_only=True)

    @property
    def is_daemon(self) -> bool:
        """Whether a daemon makes this request."""
        return self.path.startswith("/daemon/")

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"
