"""Procrastinate: psycopg, LISTEN on, its default poll of five seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import procrastinate  # type: ignore[import-not-found] # a peer's own Python
import psycopg  # type: ignore[import-not-found] # as above

from bench.jobs.contract import Body, Enqueue, Place

TASK: Final = "bench"
WORKER_CONNECTIONS: Final = 10


class Procrastinate:
    """Jobs of Procrastinate; a finished job stays as a row that says so."""

    def __init__(self, place: Place) -> None:
        self._dsn = place.dsn

    async def install(self) -> None:
        """Make its tables."""
        async with self._app(1) as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def enqueuing(self, connections: int) -> AsyncIterator[Enqueue]:
        """Defer through a pool."""
        async with self._app(connections) as app:

            async def enqueue(number: int) -> None:
                await app.configure_task(TASK).defer_async(number=number)

            yield enqueue

    async def plan(self, numbers: range, seconds: float) -> float:
        """Defer in one call."""
        async with self._app(1) as app:
            due = time.monotonic() + seconds
            task = app.configure_task(TASK, schedule_in={"milliseconds": round(seconds * 1_000)})
            await task.batch_defer_async(*({"number": each} for each in numbers))
            return due

    @asynccontextmanager
    async def working(self, concurrency: int, body: Body) -> AsyncIterator[None]:
        """Run one worker for all queues."""
        async with self._app(WORKER_CONNECTIONS) as app:

            async def work(number: int) -> None:
                await body(number)

            app.task(name=TASK)(work)
            running = asyncio.create_task(
                app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)
            )
            yield
            running.cancel()
            await asyncio.wait([running])

    async def unfinished(self) -> int:
        """Count the rows in a state other than `succeeded`."""
        async with await psycopg.AsyncConnection.connect(self._dsn) as connection:
            said = await connection.execute(
                "SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'"
            )
            return int((await said.fetchone())[0])

    @asynccontextmanager
    async def _app(self, connections: int) -> AsyncIterator[Any]:
        connector = procrastinate.PsycopgConnector(
            conninfo=self._dsn, min_size=min(connections, 2), max_size=connections
        )
        app = procrastinate.App(connector=connector)
        async with app.open_async():
            yield app
