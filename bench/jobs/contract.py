"""What a job queue has to offer so that it can be measured: the same few verbs for every one.

A job has a number and does nothing, or waits a while. Everything runs on asyncio, in processes that
hold nothing of Wakeful but `bench/jobs/`, so that a peer's Python and packages are its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Body: TypeAlias = Callable[[int], Awaitable[None]]
"""What a job does, given its number; entering it is the start of the job."""

Enqueue: TypeAlias = Callable[[int], Awaitable[None]]
"""Commits one job in a transaction of its own; as many at a time as there are connections."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a queue lives: `dsn` is its database, `url` the server in front of it, if any."""

    dsn: str
    url: str


class Queue(Protocol):
    """One system under measurement."""

    async def install(self) -> None:
        """Make the tables in an empty database."""

    def enqueuing(self, connections: int) -> AbstractAsyncContextManager[Enqueue]:
        """Connect as a program that enqueues, through the library's own client."""

    async def plan(self, numbers: range, seconds: float) -> float:
        """Enqueue jobs that are all due in so many seconds; return that instant, monotonic."""

    def working(self, concurrency: int, body: Body) -> AbstractAsyncContextManager[None]:
        """Work inside the block, at most `concurrency` jobs at a time where that can be said."""

    async def unfinished(self) -> int:
        """Return how many jobs are not yet durably done."""
