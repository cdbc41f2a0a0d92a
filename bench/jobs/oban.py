"""Oban for Python: psycopg, one queue, the stager's default interval of a second."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import oban  # type: ignore[import-not-found] # a peer's own Python
import oban.schema  # type: ignore[import-not-found] # as above
import psycopg  # type: ignore[import-not-found] # as above

from bench.jobs.contract import Body, Enqueue, Place

QUEUE: Final = "default"
WORKER_CONNECTIONS: Final = 10  # its default


class _Job:
    """The worker class of the jobs; `body` is what the present process does with them."""

    body: Body

    async def process(self, job: Any) -> None:
        """Do one job."""
        await type(self).body(job.args["number"])


_Worker: Final[Any] = oban.worker(queue=QUEUE)(_Job)


class Oban:
    """Jobs of Oban; a finished job stays as a row that says so."""

    def __init__(self, place: Place) -> None:
        self._dsn = place.dsn

    async def install(self) -> None:
        """Make its tables."""
        async with self._pool(1) as pool:
            await oban.schema.install(pool)

    @asynccontextmanager
    async def enqueuing(self, connections: int) -> AsyncIterator[Enqueue]:
        """Enqueue as a client without queues."""
        async with self._pool(connections) as pool, oban.Oban(pool=pool) as client:

            async def enqueue(number: int) -> None:
                await client.enqueue(_Worker.new({"number": number}))

            yield enqueue

    async def plan(self, numbers: range, seconds: float) -> float:
        """Enqueue in one call."""
        async with self._pool(1) as pool, oban.Oban(pool=pool) as client:
            due = time.monotonic() + seconds
            jobs = [_Worker.new({"number": each}, scheduled_in=seconds) for each in numbers]
            await client.enqueue_many(jobs)
            return due

    @asynccontextmanager
    async def working(self, concurrency: int, body: Body) -> AsyncIterator[None]:
        """Run one queue with this limit."""
        _Job.body = staticmethod(body)
        async with (
            self._pool(WORKER_CONNECTIONS) as pool,
            oban.Oban(pool=pool, queues={QUEUE: concurrency}),
        ):
            yield

    async def unfinished(self) -> int:
        """Count the rows in a state other than `completed`."""
        async with await psycopg.AsyncConnection.connect(self._dsn) as connection:
            said = await connection.execute(
                "SELECT count(*) FROM oban_jobs WHERE state <> 'completed'"
            )
            return int((await said.fetchone())[0])

    @asynccontextmanager
    async def _pool(self, connections: int) -> AsyncIterator[Any]:
        pool = await oban.Oban.create_pool(
            self._dsn, min_size=min(connections, 2), max_size=connections
        )
        try:
            yield pool
        finally:
            await pool.close()
