"""An account of writes through the gateway, to be compared with what the table says."""

from __future__ import annotations

import attrs
import trio

from engine.errors import WakefulError
from engine.storage.database import (
    CommitUnknown,
    Database,
    Dedicated,
    Lane,
    Query,
    Session,
    with_connection,
)

INSERT = Query("test.insert", "INSERT INTO booked VALUES ($1)")
BOOKED = Query("test.booked", "SELECT id FROM booked")
PID = Query("test.pid", "SELECT pg_backend_pid()")
STUCK = Query(
    "test.stuck",
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
)


async def prepare(url: str) -> None:
    """Make the table that the books are compared with."""

    async def make(session: Dedicated) -> None:
        await session.script("CREATE TABLE booked (id int PRIMARY KEY)")

    await with_connection(url, make)


@attrs.define
class Books:
    """What the callers of the gateway were told, by the number that they wrote."""

    done: set[int] = attrs.Factory(set)
    failed: set[int] = attrs.Factory(set)
    unknown: set[int] = attrs.Factory(set)

    async def write(self, database: Database, lane: Lane, number: int) -> None:
        """Write a number and book what the gateway says about it; Cancelled is not booked."""

        async def unit(session: Session) -> None:
            await session.fetchval(PID)
            await session.execute(INSERT, number)

        try:
            await database.write(lane, unit)
        except CommitUnknown:
            self.unknown.add(number)
        except WakefulError as error:
            if error.code != "database_unavailable":
                raise
            self.failed.add(number)
        else:
            self.done.add(number)

    async def committed(self, database: Database) -> set[int]:
        """Return the numbers that the table holds."""

        async def unit(session: Session) -> set[int]:
            return {row["id"] for row in await session.fetch(BOOKED)}

        return await database.read(Lane.BACKGROUND, unit)

    async def audit(self, database: Database) -> None:
        """Done means committed, failed means not, and nothing else is in the table."""
        committed = await self.committed(database)
        assert self.done <= committed
        assert committed <= self.done | self.unknown
        assert not self.failed & committed


async def whole(database: Database) -> None:
    """Every connection of every lane can be used at the same time, none is in a transaction."""
    backends: set[int] = set()
    places = {lane: one.size for lane, one in database.statistics().lanes.items()}
    arrived, everybody = [0], trio.Event()

    async def unit(session: Session) -> None:
        backends.add(await session.fetchval(PID))
        arrived[0] += 1
        if arrived[0] == sum(places.values()):
            everybody.set()
        while not everybody.is_set():
            await session.fetchval(PID)

    async def stuck(session: Session) -> int:
        return int(await session.fetchval(STUCK))

    async with trio.open_nursery() as nursery:
        for lane, size in places.items():
            for _ in range(size):
                nursery.start_soon(database.read, lane, unit)
    assert len(backends) == sum(places.values())
    assert await database.read(Lane.API, stuck) == 0
    assert all(one.busy == 0 for one in database.statistics().lanes.values())
