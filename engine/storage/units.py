"""Units of work: what they see, and how they begin and end. Runs on the asyncio side.

Knows nothing of the driver: a `Wire` is a connection whose errors are already ours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs

from engine import limits
from engine.storage.queries import Query

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T")
Record: TypeAlias = Mapping[str, Any]
"""One row. The driver's rows are no mappings, but have their methods, and positions: `row[0]`."""

BEGIN: Final = Query("gateway.begin", "BEGIN")
BEGIN_SNAPSHOT: Final = Query(
    "gateway.begin_snapshot", "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
)
LOCK_TIMEOUT: Final = Query(
    "gateway.lock_timeout", "SELECT pg_catalog.set_config('lock_timeout', $1, true)"
)


class Wire(Protocol):
    """A connection; its methods raise the errors of `engine.storage.sqlstate`."""

    async def ask(
        self,
        want: Literal["fetch", "fetchrow", "fetchval", "execute"],
        query: Query,
        *args: object,
    ) -> Any:
        """Send one statement and return what the driver's method `want` returns."""

    async def commit(self, opened: tuple[UUID, ...]) -> None:
        """See `Dedicated.commit`."""

    async def rollback(self) -> None:
        """See `Dedicated.rollback`."""


class Session:
    """One connection for the time of one unit of work; usable from asyncio only.

    Every method raises the errors of `sqlstate.failure`. After an error the transaction is over:
    let it pass, or raise another in its place.
    """

    __slots__ = ("_wire", "answered")

    def __init__(self, wire: Wire) -> None:
        self._wire: Wire | None = wire
        self.answered = 0  # how many statements the server has executed for this session

    async def fetch(self, query: Query, *args: object) -> list[Record]:
        """Return all rows."""
        rows: list[Record] = await self._open().ask("fetch", query, *args)
        self.answered += 1
        return rows

    async def fetchrow(self, query: Query, *args: object) -> Record | None:
        """Return the first row, None when there is none."""
        row: Record | None = await self._open().ask("fetchrow", query, *args)
        self.answered += 1
        return row

    async def fetchval(self, query: Query, *args: object) -> Any:
        """Return the first column of the first row, None when there is none."""
        value = await self._open().ask("fetchval", query, *args)
        self.answered += 1
        return value

    async def execute(self, query: Query, *args: object) -> int:
        """Execute and return how many rows the statement touched."""
        tag: str = await self._open().ask("execute", query, *args)
        self.answered += 1
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def end(self) -> None:
        """Take the connection from a unit that might have kept its session."""
        self._wire = None

    def _open(self) -> Wire:
        assert self._wire is not None, "a session ends with its unit of work"
        return self._wire


class Dedicated(Session):
    """A session that also rules its transactions: for migrations, and for the gateway itself."""

    __slots__ = ()

    async def script(self, text: str) -> None:
        """Execute any number of statements as one simple query, without arguments.

        Outside a transaction the server runs them as one of their own, unless one of them
        (CREATE INDEX CONCURRENTLY) forbids it and stands alone.
        """
        await self.execute(Query("script", text))

    async def begin(self, *, snapshot: bool = False) -> None:
        """Open a READ COMMITTED transaction, or a REPEATABLE READ READ ONLY one."""
        await self.execute(BEGIN_SNAPSHOT if snapshot else BEGIN)

    async def commit(self, opened: tuple[UUID, ...] = ()) -> None:
        """Commit. Returning means committed.

        Raises `CommitUnknown` when the server did not answer, anything else when nothing was
        committed, in particular `DatabaseError` 25P02 when an earlier error was swallowed.
        """
        await self._open().commit(opened)

    async def rollback(self) -> None:
        """Leave the transaction, with the connection if that is what it takes; never raises."""
        await self._open().rollback()


Unit: TypeAlias = Callable[[Session], Awaitable[T]]
"""An asyncio function that awaits nothing but its session; it may be called twice.

The second call happens only when the connection broke before the server answered anything.
"""


@attrs.frozen(kw_only=True)
class Identity:
    """Who writes: handed to the begin query as $1 text, $2 uuid, $3 uuid; $4 see `Writing`."""

    actor_type: str | None = None
    actor_id: UUID | None = None
    source_task_id: UUID | None = None


@attrs.frozen
class Committed(Generic[T]):
    """A unit that is in the database: its result, and what the flush query returned."""

    result: T
    opened: tuple[UUID, ...]


@attrs.define(kw_only=True, eq=False)
class Writing:
    """How every write of a gateway begins and ends; each part may be absent.

    `begin` is one round trip for all that a transaction is told: who writes, and as $4 text how
    many milliseconds each wait for a lock may take, null for what the lane allows.
    `busy` runs before the commit of the first write, and again of one that comes more than
    BUSY_SECONDS after the last time.
    """

    begin: Query | None
    flush: Query | None
    busy: Query | None
    _said_at: float = attrs.field(default=-math.inf, init=False)

    async def transact(
        self,
        session: Dedicated,
        unit: Unit[T],
        *,
        identity: Identity,
        lock_timeout_ms: int | None,
        is_quiet: bool,
    ) -> Committed[T]:
        """BEGIN, the begin query, the unit, the flush query, COMMIT; ROLLBACK after an error.

        A quiet write leaves the busy query out.
        """
        now = time.monotonic()
        is_news = not is_quiet and now - self._said_at > limits.BUSY_SECONDS
        await session.begin()
        try:
            bound = None if lock_timeout_ms is None else str(lock_timeout_ms)
            if self.begin is not None:
                who = (identity.actor_type, identity.actor_id, identity.source_task_id)
                await session.fetch(self.begin, *who, bound)
            elif bound is not None:
                await session.fetchval(LOCK_TIMEOUT, bound)
            result = await unit(session)
            opened: tuple[UUID, ...] = ()
            if self.flush is not None:
                rows: list[Any] = list(await session.fetch(self.flush))
                opened = tuple(row[0] for row in rows)
            if is_news and self.busy is not None:
                await session.fetch(self.busy)
        except Exception:
            await session.rollback()
            raise
        await session.commit(opened)
        if is_news:
            self._said_at = now
        return Committed(result, opened)


async def look(session: Dedicated, unit: Unit[T]) -> T:
    """Run a unit that only reads in one snapshot."""
    await session.begin(snapshot=True)
    try:
        result = await unit(session)
    except Exception:
        await session.rollback()
        raise
    await session.rollback()  # nothing was written: the way out that cannot fail
    return result
