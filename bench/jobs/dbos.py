"""DBOS: workflows without steps on one queue without limits, polled once a second (its default)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import dbos  # type: ignore[import-not-found] # a peer's own Python
import psycopg  # type: ignore[import-not-found] # as above

from bench.jobs.contract import Body, Enqueue, Place

NAME: Final = "bench"
VERSION: Final = "1"  # of the application: workers take up only what was enqueued for theirs


class Dbos:
    """Workflows of DBOS; a finished one stays as a row that says so."""

    def __init__(self, place: Place) -> None:
        self._dsn = place.dsn
        self._url = place.dsn.replace("postgres://", "postgresql://", 1)

    async def install(self) -> None:
        """Make its tables and the queue, which takes one launch."""
        await asyncio.to_thread(self._launch)
        await asyncio.to_thread(dbos.DBOS.destroy)

    @asynccontextmanager
    async def enqueuing(self, connections: int) -> AsyncIterator[Enqueue]:
        """Enqueue through its client, which works in threads."""
        async with self._client(connections) as client:
            options = {"queue_name": NAME, "workflow_name": NAME, "app_version": VERSION}

            async def enqueue(number: int) -> None:
                await client.enqueue_async(options, number)

            yield enqueue

    async def plan(self, numbers: range, seconds: float) -> float:
        """Enqueue one by one with a delay: it has no call for many."""
        async with self._client(1) as client:
            due = time.monotonic() + seconds
            for number in numbers:
                options = {
                    "queue_name": NAME,
                    "workflow_name": NAME,
                    "app_version": VERSION,
                    "delay_seconds": due - time.monotonic(),
                }
                await client.enqueue_async(options, number)
            return due

    @asynccontextmanager
    async def working(self, _concurrency: int, body: Body) -> AsyncIterator[None]:
        """Launch in this process; asynchronous workflows run on this loop."""

        async def work(number: int) -> None:
            await body(number)

        self._configure()
        dbos.DBOS.workflow(name=NAME)(work)
        dbos.DBOS.launch()
        await dbos.DBOS.register_queue_async(NAME)
        yield
        await asyncio.to_thread(partial(dbos.DBOS.destroy, workflow_completion_timeout_sec=0))

    async def unfinished(self) -> int:
        """Count the rows in a state other than `SUCCESS`."""
        async with await psycopg.AsyncConnection.connect(self._dsn) as connection:
            said = await connection.execute(
                "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
            )
            return int((await said.fetchone())[0])

    def _configure(self) -> None:
        dbos.DBOS(
            config={
                "name": NAME,
                "system_database_url": self._url,
                "application_version": VERSION,
                "log_level": "ERROR",
            }
        )

    def _launch(self) -> None:
        self._configure()
        dbos.DBOS.launch()
        dbos.DBOS.register_queue(NAME)

    @asynccontextmanager
    async def _client(self, connections: int) -> AsyncIterator[Any]:
        client = dbos.DBOSClient(
            system_database_url=self._url, system_database_pool_size=connections
        )
        try:
            yield client
        finally:
            await asyncio.to_thread(client.destroy)
