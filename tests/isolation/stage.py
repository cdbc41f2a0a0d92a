"""Units of work, each on a connection of its own, that take their turns statement by statement.

A player carries out the real code of a unit through a session that stops before each statement. One
player goes on at a time; when what it does has ended, or waits for a lock of another player
(`pg_blocking_pids`), the next one may.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal
from uuid import UUID

import attrs

from engine.errors import WakefulError
from engine.storage.database import Identity, Query, Session
from engine.storage.units import Dedicated, Wire, Writing
from tests.isolation.orders import Turn, choose

PATIENCE_SECONDS: Final = 0.003  # a statement that takes longer may wait for a lock
STUCK_SECONDS: Final = 30  # nobody goes on, and the server sees no deadlock
SELF: Final = Query("stage.self", "SELECT pg_backend_pid()")
BLOCKING: Final = Query(
    "stage.blocking",
    "SELECT b AS backend, pg_blocking_pids(b) AS blocking FROM unnest($1::int[]) b",
)
STATE: Final = re.compile(r"SQLSTATE (\w{5})")
COMMIT: Final = "COMMIT"
BEGINNING: Final = ("gateway.begin", "gateway.begin_snapshot")

Unit = Callable[[Session], Awaitable[object]]
Stop = Callable[[str], Awaitable[None]]


class SteppingWire:
    """A connection that asks before each statement whether it may go on: a `Wire`."""

    def __init__(self, wire: Wire, stop: Stop) -> None:
        self._wire = wire
        self._stop = stop
        self._has_begun = False

    async def ask(
        self,
        want: Literal["fetch", "fetchrow", "fetchval", "execute"],
        query: Query,
        *args: object,
    ) -> Any:
        """Send one statement when it is its turn; the first one belongs to the beginning."""
        if query.name not in BEGINNING:
            if self._has_begun:
                await self._stop(query.name)
            self._has_begun = True
        return await self._wire.ask(want, query, *args)

    async def commit(self, opened: tuple[UUID, ...]) -> None:
        """Commit when it is its turn."""
        await self._stop(COMMIT)
        await self._wire.commit(opened)

    async def rollback(self) -> None:
        """Roll back at once: nobody holds locks after an error."""
        await self._wire.rollback()


@attrs.frozen
class Ended:
    """How a unit ended: its result, or the SQLSTATE or code of the error that rolled it back."""

    result: object = None
    code: str = "done"

    @property
    def is_done(self) -> bool:
        """Whether it is committed."""
        return self.code == "done"


@attrs.define(eq=False)
class Player:
    """One unit of one order, on its connection.

    `stops` are the names of the statements that it stops before, None for all; the beginning of the
    transaction is always a step, with its first statement and what follows up to the first stop.
    `step` is where it stands or what it is doing. A player that is `in_flight` is neither at a stop
    nor at its end; `blockers` are the backends that it was seen waiting for.
    """

    name: str
    session: Dedicated
    backend: int
    stops: frozenset[str] | None
    step: str = "BEGIN"
    in_flight: bool = True
    ended: Ended | None = None
    blockers: frozenset[int] = frozenset()
    _moved: Callable[[], None] = attrs.field(default=lambda: None)
    _go: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def play(
        self, unit: Unit, writing: Writing, identity: Identity, lock_timeout_ms: int | None = None
    ) -> None:
        """Carry out a unit, stopping on the way; its end is in `ended`.

        What is no `WakefulError` passes: it is an error of the code.
        """
        paced = Dedicated(SteppingWire(self.session._open(), self._stop))
        try:
            await self._wait("BEGIN")
            committed = await writing.transact(
                paced, unit, identity=identity, lock_timeout_ms=lock_timeout_ms, is_quiet=True
            )
            self.ended = Ended(result=committed.result)
        except WakefulError as error:
            state = STATE.search(str(error))
            self.ended = Ended(result=error, code=state[1] if state else error.code)
        finally:
            paced.end()
            self.in_flight = False
            self._moved()

    def go_on(self) -> None:
        """Let it take its next step."""
        assert not self.in_flight
        self.in_flight = True
        self._go.set()

    async def _stop(self, step: str) -> None:
        if self.stops is None or step in self.stops:
            await self._wait(step)

    async def _wait(self, step: str) -> None:
        self.step = step
        self.in_flight = False
        self.blockers = frozenset()
        self._go.clear()
        self._moved()
        await self._go.wait()


@attrs.define(eq=False)
class Play:
    """One order: its players, and what happened."""

    players: Sequence[Player]
    observer: Session
    turns: list[Turn] = attrs.field(factory=list)
    trace: list[str] = attrs.field(factory=list)
    waits: set[tuple[str, str]] = attrs.field(factory=set)
    _moved: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        for player in self.players:
            player._moved = self._moved.set

    async def run(self, prefix: Sequence[int]) -> None:
        """Let the players take their turns until all have ended, as the prefix begins."""
        await self._settle()
        while not all(player.ended for player in self.players):
            ready = tuple(
                place
                for place, player in enumerate(self.players)
                if not player.in_flight and player.ended is None
            )
            if not ready:
                await self._unlock()
                continue
            chosen = choose(prefix, self.turns, ready)
            self.turns.append(Turn(chosen, ready))
            player = self.players[chosen]
            self.trace.append(f"{player.name}: {player.step}")
            player.go_on()
            await self._settle()
            if player.ended is not None:
                self.trace[-1] += f" -> {player.ended.code}"

    async def _unlock(self) -> None:
        """All wait for each other: until the server, or a unit itself, ends one of the waits."""
        self.trace.append("all wait")
        self._moved.clear()
        async with asyncio.timeout(STUCK_SECONDS):
            await self._moved.wait()
        await self._settle()

    async def _settle(self) -> None:
        """Wait until everybody who is in flight waits for a lock of another player."""
        while True:
            self._moved.clear()
            flying = [p for p in self.players if p.in_flight and not self._still_waits(p)]
            if not flying:
                return
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._moved.wait()
            except TimeoutError:
                await self._look(flying)

    def _still_waits(self, player: Player) -> bool:
        """Tell of a player that was seen waiting: locks are kept until a transaction ends."""
        blockers = [each for each in self.players if each.backend in player.blockers]
        return bool(blockers) and all(each.ended is None for each in blockers)

    async def _look(self, flying: Sequence[Player]) -> None:
        """Note who of these waits for whom, unless somebody has gone on meanwhile."""
        names = {player.backend: player.name for player in self.players}
        found = await self.observer.fetch(BLOCKING, [player.backend for player in flying])
        if self._moved.is_set():
            return
        blocking = {row["backend"]: frozenset(row["blocking"]) & names.keys() for row in found}
        for player in flying:
            player.blockers = blocking[player.backend]
            for backend in sorted(player.blockers):
                self.waits.add((player.name, names[backend]))
                self.trace.append(f"{player.name} waits for {names[backend]}")
