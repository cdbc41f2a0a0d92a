"""What a simulated world has planned: things to do, each at an instant."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from datetime import datetime
from itertools import count
from typing import TypeAlias

Action: TypeAlias = Callable[[], Awaitable[object]]


class Agenda:
    """Actions by their instants; those of one instant in the order in which they were planned."""

    def __init__(self) -> None:
        self._planned: list[tuple[datetime, int, Action]] = []
        self._numbers = count()

    @property
    def next_at(self) -> datetime | None:
        """When the next action is to be done, None when nothing is planned."""
        return self._planned[0][0] if self._planned else None

    def plan(self, at: datetime, action: Action) -> None:
        """Have an action done at an instant; one that has passed is done at the next stop."""
        heapq.heappush(self._planned, (at, next(self._numbers), action))

    def take(self, now: datetime) -> Action | None:
        """Return the next action whose instant has come and forget it; None when none has."""
        if not self._planned or self._planned[0][0] > now:
            return None
        return heapq.heappop(self._planned)[2]
