"""Lanes: kinds of work that never wait for each other's connections (critique.md 14)."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs
import trio

from engine import limits
from engine.errors import WakefulError
from engine.storage.liveness import server_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

C = TypeVar("C")


class Lane(StrEnum):
    """Who a unit of work belongs to; each lane has its own dedicated connections."""

    DISPATCH = "dispatch"
    CLAIM = "claim"
    API = "api"
    BACKGROUND = "background"


@attrs.frozen(kw_only=True)
class LaneLimits:
    """How many connections a lane has and what its statements may take, in milliseconds.

    `is_planned_once`: its statements are few and find everything by index, whatever their values
    are. So no call plans for its own values again, least of all inside of functions, where a plan
    costs more than what it is for (dispatch of one issue: three of four milliseconds). `lock_ms` is
    how long each wait for a lock may take where a write says nothing else; 0: as its statement.
    """

    connections: int
    statement_ms: int
    lock_ms: int = 0
    is_planned_once: bool = False

    @property
    def settings(self) -> Mapping[str, str]:
        """What the connections of the lane ask for beside what all do."""
        planned = {"plan_cache_mode": "force_generic_plan"} if self.is_planned_once else {}
        return {"lock_timeout": str(self.lock_ms), **planned}


LANES: Final[Mapping[Lane, LaneLimits]] = MappingProxyType(
    {
        Lane.DISPATCH: LaneLimits(
            connections=limits.DISPATCH_CONNECTIONS,
            statement_ms=limits.DISPATCH_MS_MAX,
            is_planned_once=True,
        ),
        Lane.CLAIM: LaneLimits(
            connections=limits.CLAIM_CONNECTIONS,
            statement_ms=limits.CLAIM_MS_MAX,
            is_planned_once=True,
        ),
        Lane.API: LaneLimits(connections=limits.API_CONNECTIONS, statement_ms=limits.API_MS_MAX),
        Lane.BACKGROUND: LaneLimits(
            connections=limits.BACKGROUND_CONNECTIONS,
            statement_ms=limits.BACKGROUND_MS_MAX,
            lock_ms=limits.BACKGROUND_LOCK_MS_MAX,
        ),
    }
)


@attrs.frozen(kw_only=True)
class LaneStatistics:
    """One lane at one instant; `units`, `replaced` and `unknown` count since the start.

    `replaced` counts connections opened for broken ones, `unknown` commits without an answer.
    """

    size: int
    busy: int
    waiting: int
    units: int
    replaced: int
    unknown: int


@attrs.frozen(kw_only=True)
class Statistics:
    """The gateway at one instant; all but `lanes` and `is_listening` count since the start.

    `is_listening` tells whether every connection that should listen does.
    """

    lanes: Mapping[Lane, LaneStatistics]
    loop_errors: int
    listeners_connected: int
    hints_dropped: int
    is_listening: bool


@attrs.define(eq=False)
class Slot(Generic[C]):
    """The place of one connection in its lane; None until one is needed (again)."""

    connection: C | None = None


class Slots(Generic[C]):
    """The places of one lane, handed out first come, first served, the warmest one first."""

    def __init__(self, lane: Lane, bounds: LaneLimits) -> None:
        assert bounds.connections > 0
        own = server_settings(lane, bounds.statement_ms)
        self.settings = {**own, **bounds.settings}  # of every connection here
        self.all: tuple[Slot[C], ...] = tuple(Slot() for _ in range(bounds.connections))
        self._free = list(self.all)
        self._permits = trio.Semaphore(bounds.connections)
        self.units = 0
        self.replaced = 0
        self.unknown = 0

    async def acquire(self) -> Slot[C]:
        """Wait for a place. A caller that is cancelled here leaves no trace.

        Raises `WakefulError` overloaded when LANE_WAITING_MAX others wait already.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self._permits.acquire_nowait()
        except trio.WouldBlock:
            if self._permits.statistics().tasks_waiting >= limits.LANE_WAITING_MAX:
                raise WakefulError("overloaded", "too many wait for the database") from None
            await self._permits.acquire()
        self.units += 1
        return self._free.pop()

    def release(self, slot: Slot[C]) -> None:
        """Give the place back; the longest waiting caller gets it next."""
        self._free.append(slot)
        self._permits.release()

    def statistics(self) -> LaneStatistics:
        """Return the figures of this instant."""
        return LaneStatistics(
            size=len(self.all),
            busy=len(self.all) - len(self._free),
            waiting=self._permits.statistics().tasks_waiting,
            units=self.units,
            replaced=self.replaced,
            unknown=self.unknown,
        )
