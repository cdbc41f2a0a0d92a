"""The engines that share the database: who lives, and which of them works an issue first (W-083).

A hint that every engine hears is worked by the one that wins the rendezvous for the issue (Thaler
and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", 1998): each issue goes to the
engine with the highest weight, so that an engine that comes or goes moves only its own share. The
others look 250 ms later, if an input is then still waiting; and because the winner may have died,
they find out anew who lives.

An engine lives while its listening connection does: the server ends the session of a process that
has died. So there are no signs of life, and an idle engine runs no SQL (W-074).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from hashlib import blake2b
from typing import Final
from uuid import UUID

import attrs
import structlog
import trio

from engine import limits
from engine.actors.runtime import Runtime
from engine.errors import WakefulError
from engine.storage import queries
from engine.storage.database import Database, Lane, Session
from engine.work import WorkKind

_log = structlog.get_logger(__name__)
sql: Final = queries.load("engines")


def first_for(issue_id: UUID, backends: Iterable[int]) -> int:
    """Return which of these engines, named by their backends, works the issue first."""
    return max(backends, key=partial(_weight, issue_id))


def _weight(issue_id: UUID, backend: int) -> tuple[bytes, int]:
    digest = blake2b(issue_id.bytes, key=backend.to_bytes(8), digest_size=8)
    return digest.digest(), backend


@attrs.define(kw_only=True)
class FleetStatistics:
    """What the fleet has done for this engine since it was made."""

    left_to_others: int = 0
    taken_over: int = 0


class Fleet:
    """What one engine knows of all; see the module."""

    def __init__(
        self, database: Database, runtime: Runtime, look_at: Callable[[Iterable[UUID]], None]
    ) -> None:
        """`look_at` hints the actors of issues."""
        self._database = database
        self._runtime = runtime
        self._look_at = look_at
        self._me: int | None = None
        self._others: frozenset[int] = frozenset()
        self._left: deque[tuple[float, UUID]] = deque()  # when to look after it, by Trio's clock
        self._is_looking = False  # one task looks after all of them
        self.statistics = FleetStatistics()

    @property
    def others(self) -> int:
        """How many other engines live, as far as is known."""
        return len(self._others)

    @property
    def backend(self) -> int | None:
        """The server process of this engine's listening connection, its name among the others."""
        return self._me

    def stands(self, backend: int) -> None:
        """This engine listens (again); `backend` is what the others know it by."""
        self._me = backend
        self._others -= {backend}

    def gone(self, backend: int) -> None:
        """Another engine has said that it stops."""
        self._others -= {backend}

    def count(self) -> None:
        """Find out anew who lives, soon."""
        self._spawn(self._count, "fleet count")

    def is_first(self, issue_id: UUID) -> bool:
        """Tell whether this engine works the issue first. Alone, or unknown to others, it does."""
        if self._me is None or not self._others:
            return True
        return first_for(issue_id, {self._me, *self._others}) == self._me

    def heard(self, issue_id: UUID) -> None:
        """Take a hint that every engine hears: look now, or after the one whose issue it is."""
        if self.is_first(issue_id):
            self._look_at([issue_id])
            return
        self.statistics.left_to_others += 1
        self._left.append((trio.current_time() + limits.OTHERS_FIRST_SECONDS, issue_id))
        if not self._is_looking:
            self._is_looking = self._spawn(self._look_after_others, "fleet look")

    async def leave(self) -> None:
        """Tell the others that this engine stops; they find out anyway."""
        if self._me is None:
            return
        backend = self._me

        async def unit(session: Session) -> None:
            await session.fetch(sql.leave, str(backend))

        with trio.CancelScope(shield=True, deadline=trio.current_time() + limits.LEAVE_SECONDS_MAX):
            try:
                await self._database.write(Lane.BACKGROUND, unit)
            except WakefulError as error:
                _log.info("fleet.left_silently", code=error.code)

    async def _count(self) -> None:
        async def unit(session: Session) -> frozenset[int]:
            return frozenset(row["backend"] for row in await session.fetch(sql.live))

        try:
            live = await self._database.read(Lane.BACKGROUND, unit)
        except WakefulError as error:
            _log.warning("fleet.not_counted", code=error.code)
            return
        others = live - {self._me}
        if others != self._others:
            _log.info("fleet.changed", engines=len(others) + 1)
        self._others = others

    async def _look_after_others(self) -> None:
        """Look at what was left to others as long as there is any, each at its time."""
        try:
            while self._left:
                await trio.sleep_until(self._left[0][0])
                now = trio.current_time()
                issue_ids = set()
                while self._left and self._left[0][0] <= now:
                    issue_ids.add(self._left.popleft()[1])
                waiting = await self._still_waiting(issue_ids)
                if waiting:
                    self.statistics.taken_over += len(waiting)
                    self._look_at(waiting)
                    await self._count()
        finally:
            self._is_looking = False

    async def _still_waiting(self, issue_ids: set[UUID]) -> list[UUID]:
        """Return those with an input that nobody has taken; all, if that cannot be found out."""

        async def unit(session: Session) -> list[UUID]:
            return [row["id"] for row in await session.fetch(sql.waiting, list(issue_ids))]

        try:
            return await self._database.read(Lane.BACKGROUND, unit)
        except WakefulError as error:
            _log.warning("fleet.not_looked", code=error.code)
            return list(issue_ids)

    def _spawn(self, work: Callable[[], Awaitable[object]], name: str) -> bool:
        try:
            self._runtime.spawn(work, kind=WorkKind.SCHEDULER, name=name)
        except WakefulError as error:  # the engine is stopping; the others are there
            _log.info("fleet.stopping", code=error.code)
            return False
        return True
