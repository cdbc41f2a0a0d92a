"""PgQueuer: asyncpg, batches of 10 (its default), no limit of its own on what runs at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import asyncpg
from pgqueuer import Queries, QueueManager  # type: ignore[import-not-found] # a peer's own Python
from pgqueuer.db import (  # type: ignore[import-not-found] # as above
    AsyncpgDriver,
    AsyncpgPoolDriver,
)

from bench.jobs.contract import Body, Enqueue, Place

ENTRYPOINT: Final = "bench"
BATCH: Final = 10


class PgQueuer:
    """Jobs of PgQueuer; a finished job leaves the table, its end is a row of the log."""

    def __init__(self, place: Place) -> None:
        self._dsn = place.dsn

    async def install(self) -> None:
        """Make its tables."""
        async with self._connected() as queries:
            await queries.install()

    @asynccontextmanager
    async def enqueuing(self, connections: int) -> AsyncIterator[Enqueue]:
        """Enqueue through a pool."""
        async with asyncpg.create_pool(
            self._dsn, min_size=connections, max_size=connections
        ) as pool:
            queries = Queries(AsyncpgPoolDriver(pool))

            async def enqueue(number: int) -> None:
                await queries.enqueue(ENTRYPOINT, str(number).encode())

            yield enqueue

    async def plan(self, numbers: range, seconds: float) -> float:
        """Enqueue in one call."""
        async with self._connected() as queries:
            due = time.monotonic() + seconds
            await queries.enqueue(
                [ENTRYPOINT] * len(numbers),
                [str(number).encode() for number in numbers],
                [0] * len(numbers),
                [timedelta(seconds=seconds)] * len(numbers),
            )
            return due

    @asynccontextmanager
    async def working(self, _concurrency: int, body: Body) -> AsyncIterator[None]:
        """Run its queue manager on one connection."""
        connection = await asyncpg.connect(self._dsn)
        try:
            worker = QueueManager(Queries(AsyncpgDriver(connection)))

            async def work(job: Any) -> None:
                await body(int(job.payload))

            worker.entrypoint(ENTRYPOINT)(work)
            running = asyncio.create_task(worker.run(batch_size=BATCH))
            yield
            worker.shutdown.set()
            await running
        finally:
            await connection.close()

    async def unfinished(self) -> int:
        """Count the rows that are left."""
        async with self._connected() as queries:
            rows = await queries.driver.fetch("SELECT count(*) AS left FROM pgqueuer")
            return int(rows[0]["left"])

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self._dsn)
        try:
            yield Queries(AsyncpgDriver(connection))
        finally:
            await connection.close()
