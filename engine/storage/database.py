"""The gateway to PostgreSQL: the only importer of asyncpg and trio_asyncio.

A unit of work is one asyncio function that gets a `Session`. It crosses from Trio to asyncio once
and runs shielded to its end: what the caller sees is what happened. Budgets of the server end it,
not cancellation (architecture 3; measured in anchors F1 to F5). COMMIT has three outcomes: it
returned, it raised, or it raised `CommitUnknown`; so every write is idempotent or fenced.

The caller's work token covers a unit for its whole time on the loop (S-070): the caller is there
until the unit has ended.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import asyncpg
import structlog
import trio
import trio_asyncio

from engine import limits
from engine.errors import WakefulError
from engine.storage.lanes import LANES, Lane, LaneLimits, Slots, Statistics
from engine.storage.listening import Hint, Listening, Notification, Reconnected
from engine.storage.liveness import LoopErrors, keep_alive, server_settings
from engine.storage.queries import Query
from engine.storage.sqlstate import (
    CONNECTION_LOST,
    MISUSE,
    SCHEMA_CHANGED,
    CommitUnknown,
    ConstraintViolation,
    DatabaseError,
    failure,
    may_pass,
)
from engine.storage.units import (
    Committed,
    Dedicated,
    Identity,
    Record,
    Session,
    Unit,
    Writing,
    look,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
    from uuid import UUID

__all__ = [
    "CommitUnknown",
    "ConstraintViolation",
    "Database",
    "DatabaseError",
    "Dedicated",
    "Hint",
    "Identity",
    "Lane",
    "LaneLimits",
    "Notification",
    "Query",
    "Reconnected",
    "Record",
    "Session",
    "open_loop",
    "with_connection",
]

T = TypeVar("T")
Work: TypeAlias = "Callable[[Dedicated], Awaitable[T]]"

_log = structlog.get_logger(__name__)

_DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # TimeoutError is one of them
)
_TRANSACTION_TIMEOUT: Final = "SELECT pg_catalog.set_config('transaction_timeout', $1, false)"
_TRANSACTION_TIMEOUT_SINCE: Final = 17  # PostgreSQL

_encode_json = partial(json.dumps, allow_nan=False, separators=(",", ":"))


@asynccontextmanager
async def open_loop() -> AsyncIterator[LoopErrors]:
    """Run an asyncio loop beside the caller; open it once, around everything that uses a database.

    An error of the body leaves as itself, without the two groups of trio-asyncio's nurseries.
    """
    errors = LoopErrors()
    try:
        async with trio_asyncio.open_loop() as loop:
            loop.set_exception_handler(errors)
            yield errors
    except BaseExceptionGroup as group:
        only: BaseException = group
        for _ in range(2):
            if isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
                only = only.exceptions[0]
        if only is group:
            raise
        raise only from only.__cause__


class _Connection(asyncpg.Connection):  # type: ignore[misc] # it publishes no types
    """The driver's connection; a silent break of its line is found within 60 s (W-073)."""

    __slots__ = ()

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        keep_alive(transport.get_extra_info("socket"))


class _Wire:
    """One connection with our errors: a `Wire` of `engine.storage.units`."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.backend: int = connection.get_server_pid()

    async def ask(
        self,
        want: Literal["fetch", "fetchrow", "fetchval", "execute"],
        query: Query,
        *args: object,
    ) -> Any:
        try:
            return await getattr(self.connection, want)(query.text, *args)
        except _DRIVER_ERRORS as error:
            raise self.failure(error, query.name) from _cause(error)

    async def commit(self, opened: tuple[UUID, ...]) -> None:
        try:
            tag = await self.connection.execute("COMMIT")
        except (*_DRIVER_ERRORS, asyncio.CancelledError) as error:
            if _is_answer(error):
                raise self.failure(error, "gateway.commit") from None
            self.connection.terminate()
            raise CommitUnknown(opened) from None
        if tag != "COMMIT":
            raise DatabaseError("25P02", "gateway.commit")

    async def rollback(self) -> None:
        try:
            if not self.connection.is_closed():
                await self.connection.execute("ROLLBACK")
        except _DRIVER_ERRORS:
            self.connection.terminate()

    def failure(self, error: BaseException, query: str) -> WakefulError:
        """Translate, and give a connection up on which nothing more can be expected."""
        state = self._sqlstate(error)
        if type(error) is asyncpg.FeatureNotSupportedError:
            return DatabaseError(state, query)  # the code of a stale plan, said of something else
        translated = failure(state, query, constraint=getattr(error, "constraint_name", None) or "")
        if not _is_answer(error) and translated.code in ("database_unavailable", "budget_exceeded"):
            self.connection.terminate()
        return translated

    def _sqlstate(self, error: BaseException) -> str:
        if isinstance(error, asyncpg.OutdatedSchemaCacheError):
            return SCHEMA_CHANGED
        if isinstance(error, asyncpg.PostgresError):
            # The last words of a backend come as the cause of the broken connection: 57P01 of an
            # administrator, 25P04 of transaction_timeout.
            last = error.__cause__
            return str((last if isinstance(last, asyncpg.PostgresError) else error).sqlstate)
        if isinstance(error, OSError) or self.connection.is_closed():
            return CONNECTION_LOST
        return MISUSE


def _is_answer(error: BaseException) -> bool:
    """Whether the server itself reported the error, and the connection lives on."""
    return (
        isinstance(error, asyncpg.PostgresError)
        and error.severity is not None
        and not isinstance(error, asyncpg.PostgresConnectionError)
    )


def _cause(error: BaseException) -> BaseException | None:
    """Return an error that can only speak of statements (class 42), never of rows."""
    state = getattr(error, "sqlstate", None) or ""
    return error if state.startswith("42") else None


async def _open_connection(dsn: str, settings: Mapping[str, str]) -> asyncpg.Connection:
    """Asyncio side: connect once, within CONNECT_SECONDS_MAX."""
    connection: asyncpg.Connection | None = None
    try:
        async with asyncio.timeout(limits.CONNECT_SECONDS_MAX):
            connection = await asyncpg.connect(
                dsn,
                statement_cache_size=limits.STATEMENTS_CACHED_MAX,
                max_cached_statement_lifetime=0,
                max_cacheable_statement_size=0,
                connection_class=_Connection,
                server_settings=dict(settings),
            )
            for name in ("json", "jsonb"):
                await connection.set_type_codec(
                    name, encoder=_encode_json, decoder=json.loads, schema="pg_catalog"
                )
            if connection.get_server_version().major >= _TRANSACTION_TIMEOUT_SINCE:
                bound = limits.TRANSACTION_MS_MAX if settings["statement_timeout"] != "0" else 0
                await connection.fetchval(_TRANSACTION_TIMEOUT, str(bound))
    except BaseException:
        if connection is not None:
            connection.terminate()
        raise
    return connection


async def _close_connection(connection: asyncpg.Connection) -> None:
    """Asyncio side: say goodbye, within CLOSE_SECONDS_MAX; never raises."""
    try:
        await connection.close(timeout=limits.CLOSE_SECONDS_MAX)
    except _DRIVER_ERRORS:
        connection.terminate()


class _Connector:
    """Opens, uses and closes connections from Trio."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._loop = trio_asyncio.current_loop.get()
        assert self._loop is not None, "open_loop() surrounds every use of a database"
        self.errors = self._loop.get_exception_handler()
        assert isinstance(self.errors, LoopErrors), "the loop was not opened by open_loop()"
        self._failed_at = float("-inf")
        self._is_away = False  # said in the log once an outage

    async def connect(self, settings: Mapping[str, str], *, since: float) -> _Wire:
        """Connect for a caller who waits since `since` (Trio's clock), with back-off.

        Cancellable between attempts. Raises `WakefulError` database_unavailable once
        RECONNECT_SECONDS_MAX are over and an attempt made meanwhile has failed, and at once when
        the server refuses the login.
        """
        pause = limits.RECONNECT_PAUSE_SECONDS_MIN
        while True:
            overdue = trio.current_time() - since > limits.RECONNECT_SECONDS_MAX
            if overdue and self._failed_at > since:
                raise WakefulError("database_unavailable", "the server cannot be reached")
            try:
                with trio.CancelScope(shield=True):
                    connection = await self.run(_open_connection(self._dsn, settings))
            except ValueError:
                raise WakefulError("database_unavailable", "its address is not valid") from None
            except _DRIVER_ERRORS as error:
                self._failed_at = trio.current_time()
                state = getattr(error, "sqlstate", None) or CONNECTION_LOST
                if not may_pass(state):
                    raise WakefulError(
                        "database_unavailable", f"the login is refused (SQLSTATE {state})"
                    ) from None
                self._say(is_away=True)
            else:
                self._say(is_away=False)
                return _Wire(connection)
            await trio.sleep(pause)
            pause = min(2 * pause, limits.RECONNECT_PAUSE_SECONDS_MAX)

    async def close(self, wires: Sequence[_Wire]) -> None:
        """Close all of them, at the same time, whatever the state of the caller."""

        async def close_all() -> None:
            await asyncio.gather(*(_close_connection(wire.connection) for wire in wires))

        with trio.CancelScope(shield=True):
            await self.run(close_all())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop: one crossing from Trio to asyncio and back."""
        result: T = await self._loop.run_aio_coroutine(work)
        return result

    async def run_whole(self, wire: _Wire, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Run `work`, which uses `wire`, to its end; give the wire up after `seconds`."""
        with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds):
            return await self.run(work)
        wire.connection.terminate()
        raise WakefulError("database_unavailable", "the server does not answer")

    def _say(self, *, is_away: bool) -> None:
        if is_away is not self._is_away:
            _log.warning("database.unreachable" if is_away else "database.reachable")
            self._is_away = is_away


class Database:
    """Units of work over dedicated connections in lanes; open it with `Database.open`."""

    def __init__(
        self, connector: _Connector, lanes: Mapping[Lane, LaneLimits], writing: Writing
    ) -> None:
        self._connector = connector
        self._writing = writing
        self._slots: dict[Lane, Slots[_Wire]] = {
            lane: Slots(lane, bounds) for lane, bounds in lanes.items()
        }
        self._listenings: list[Listening] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        *,
        begin: Query | None = None,
        flush: Query | None = None,
        busy: Query | None = None,
        lanes: Mapping[Lane, LaneLimits] = LANES,
    ) -> AsyncIterator[Database]:
        """Connect every lane, and close all connections at the end.

        `begin` runs first in each write, with the identity and the lock timeout; `flush` runs last,
        its rows' first column is what `Committed.opened` and `CommitUnknown.opened` carry. `busy`
        runs now and then in writes that are not of the background (see `Writing`).
        Needs `open_loop()` around it. Raises `WakefulError` database_unavailable.
        """
        database = cls(_Connector(dsn), lanes, Writing(begin=begin, flush=flush, busy=busy))
        since = trio.current_time()
        try:
            for slots in database._slots.values():
                for slot in slots.all:
                    slot.connection = await database._connector.connect(slots.settings, since=since)
            yield database
        finally:
            await database._connector.close(database._wires())

    async def write(
        self,
        lane: Lane,
        unit: Unit[T],
        identity: Identity | None = None,
        *,
        lock_timeout_ms: int | None = None,
    ) -> Committed[T]:
        """Run `unit` in one READ COMMITTED transaction and commit it.

        Cancelled before the unit starts it leaves no trace; afterwards it runs to its end, and
        returning means committed. When the unit raises, the transaction is rolled back and the
        error passes. `lock_timeout_ms` bounds each wait for a lock (None: only the statement
        budget of the lane does). Raises what `sqlstate.failure` returns, `CommitUnknown`, and
        `WakefulError` overloaded or database_unavailable.
        """
        transact = partial(
            self._writing.transact,
            unit=unit,
            identity=identity or Identity(),
            lock_timeout_ms=lock_timeout_ms,
            is_quiet=lane is Lane.BACKGROUND,
        )
        try:
            return await self._run(lane, transact)
        except CommitUnknown:
            self._slots[lane].unknown += 1
            raise

    async def read(self, lane: Lane, unit: Unit[T], *, snapshot: bool = False) -> T:
        """Run `unit`, which only reads; each statement by itself, or all of one snapshot.

        With `snapshot` they share one REPEATABLE READ READ ONLY transaction. Cancellation and
        errors are those of `write`.
        """
        return await self._run(lane, partial(look, unit=unit) if snapshot else unit)

    @asynccontextmanager
    async def listen(
        self, channels: Sequence[str], arrive: Query | None = None
    ) -> AsyncIterator[trio.MemoryReceiveChannel[Hint]]:
        """Hear the notifications of `channels` on a connection of its own; `arrive` runs on it.

        Does not wait for the connection: the first item is a `Reconnected` once it stands, and
        another follows each reconnection (W-073) and each loss of hints to a slow reader.
        """
        send, receive = trio.open_memory_channel[Hint](limits.HINTS_MAX)
        listening = Listening(partial(self._line, tuple(channels), arrive), send)
        self._listenings.append(listening)
        async with send, receive, trio.open_nursery() as nursery:
            nursery.start_soon(listening.run)
            try:
                yield receive
            finally:
                nursery.cancel_scope.cancel()

    def statistics(self) -> Statistics:
        """Return the figures of this instant."""
        return Statistics(
            lanes={lane: slots.statistics() for lane, slots in self._slots.items()},
            loop_errors=self._connector.errors.count,
            listeners_connected=sum(each.connected for each in self._listenings),
            hints_dropped=sum(each.dropped for each in self._listenings),
            is_listening=all(each.is_connected for each in self._listenings),
        )

    async def _run(self, lane: Lane, work: Work[T]) -> T:
        slots = self._slots[lane]
        since = trio.current_time()
        slot = await slots.acquire()
        try:
            wire = slot.connection
            if wire is not None and not wire.connection.is_closed():
                session = Dedicated(wire)
                try:
                    return await self._cross(wire, session, work)
                except WakefulError:
                    # It may have broken while nobody looked. Then nothing has been executed,
                    # and the work can start afresh on a new connection.
                    if session.answered or not wire.connection.is_closed():
                        raise
            wire = slot.connection = await self._connector.connect(slots.settings, since=since)
            slots.replaced += 1
            return await self._cross(wire, Dedicated(wire), work)
        finally:
            slots.release(slot)

    async def _cross(self, wire: _Wire, session: Dedicated, work: Work[T]) -> T:
        """Run the work shielded, and leave a connection behind that is clean or closed."""
        try:
            return await self._connector.run_whole(
                wire, _awaited(work, session), limits.UNIT_SECONDS_MAX
            )
        finally:
            session.end()
            if not wire.connection.is_closed() and wire.connection.is_in_transaction():
                wire.connection.terminate()

    def _wires(self) -> list[_Wire]:
        places = (slot.connection for slots in self._slots.values() for slot in slots.all)
        return [wire for wire in places if wire is not None]

    def _is_own(self, backend: int) -> bool:
        # Of open connections only: the server may give the number of a closed one to another.
        return any(
            wire.backend == backend and not wire.connection.is_closed() for wire in self._wires()
        )

    @asynccontextmanager
    async def _line(
        self, channels: tuple[str, ...], arrive: Query | None, listening: Listening
    ) -> AsyncIterator[int]:
        connector = self._connector
        wire = await connector.connect(
            server_settings("listen", limits.API_MS_MAX), since=trio.current_time()
        )

        def heard(_: asyncpg.Connection, backend: int, channel: str, payload: str) -> None:
            listening.heard(Notification(channel, payload, own=self._is_own(backend)))

        async def subscribe() -> None:
            wire.connection.add_termination_listener(lambda _: listening.lost())
            try:
                for channel in channels:
                    await wire.connection.add_listener(channel, heard)
                if arrive is not None:
                    await wire.connection.fetchrow(arrive.text)
            except _DRIVER_ERRORS as error:
                raise wire.failure(error, "gateway.listen") from _cause(error)

        try:
            await connector.run_whole(wire, subscribe(), limits.CONNECT_SECONDS_MAX)
            yield wire.backend
        finally:
            await connector.close([wire])


async def _awaited(work: Work[T], session: Dedicated) -> T:
    """Make a coroutine of any awaitable, with its first step on the loop's side."""
    return await work(session)


async def with_connection(dsn: str, work: Work[T]) -> T:
    """Run `work`, an asyncio function, with one connection of its own and no time limits.

    For migrations: `work` rules its transactions itself. Cancelling the caller cancels `work` in
    the middle; the server rolls back what was not committed. Needs `open_loop()` around it.
    Raises what `sqlstate.failure` returns, and `WakefulError` database_unavailable.
    """
    connector = _Connector(dsn)
    wire = await connector.connect(server_settings("dedicated", None), since=trio.current_time())
    session = Dedicated(wire)
    try:
        return await connector.run(_awaited(work, session))
    finally:
        session.end()
        await connector.close([wire])
