"""Cancelled callers: what was returned is what was committed, and no connection is lost."""

from __future__ import annotations

import random
from collections import Counter

import trio

from engine.storage.database import Database, Lane, Query, Session, open_loop
from tests.faults.bookkeeping import INSERT, Books, prepare, whole

OPERATIONS = 5_000
TASKS = 100
SLEEP = Query("test.sleep", "SELECT pg_sleep(0.05)")


async def test_a_cancellation_storm_leaves_books_and_lanes_whole(empty_url: str) -> None:
    """Of 5,000 writes with randomly cancelled callers exactly those returned are committed."""
    chance = random.Random(5_000)
    books = Books()
    typical = 0.05  # seconds, follows the machine
    seen: Counter[str] = Counter()

    async def operate(database: Database, number: int) -> None:
        nonlocal typical
        began = trio.current_time()
        with trio.move_on_after(chance.uniform(0, 2) * typical) as scope:
            await books.write(database, chance.choice(list(Lane)), number)
            # No checkpoint stands between the return and this line.
            typical += 0.05 * (trio.current_time() - began - typical)
            seen["late"] += scope.cancel_called
        seen["cancelled"] += scope.cancelled_caught

    async def work(database: Database, numbers: range) -> None:
        for number in numbers:
            await operate(database, number)

    async with open_loop():
        await prepare(empty_url)
        async with Database.open(empty_url) as database:
            async with trio.open_nursery() as nursery:
                for first in range(TASKS):
                    nursery.start_soon(work, database, range(first, OPERATIONS, TASKS))
            await whole(database)
            committed = await books.committed(database)
            statistics = database.statistics()
    assert books.done == committed
    assert not books.failed
    assert not books.unknown
    assert seen["cancelled"] + len(books.done) == OPERATIONS
    assert min(seen["cancelled"], len(books.done)) > OPERATIONS / 10, "the storm did not blow"
    assert seen["late"], "no caller was cancelled while its unit ran"
    assert all(lane.replaced == 0 for lane in statistics.lanes.values())
    assert statistics.loop_errors == 0


async def test_a_started_unit_outlives_its_cancelled_caller(empty_url: str) -> None:
    """S-070: cancelled in the middle of a unit, the caller waits for its end and its result."""
    started = trio.Event()
    results: list[int] = []

    async def unit(session: Session) -> int:
        started.set()
        await session.fetchval(SLEEP)
        return await session.execute(INSERT, 1)

    async def call(scope: trio.CancelScope) -> None:
        with scope:
            results.append((await database.write(Lane.API, unit)).result)
            results.append(-1)
            await trio.lowlevel.checkpoint()
            results.append(-2)

    async with open_loop():
        await prepare(empty_url)
        async with Database.open(empty_url) as database:
            scope = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, scope)
                await started.wait()
                scope.cancel()
            assert scope.cancelled_caught
            assert results == [1, -1]
            assert await Books().committed(database) == {1}


async def test_a_caller_cancelled_before_its_unit_leaves_no_trace(empty_url: str) -> None:
    """Cancelled before the call or while waiting for its lane, a unit never starts."""
    async with open_loop():
        await prepare(empty_url)
        async with Database.open(empty_url) as database:
            with trio.CancelScope() as scope:
                scope.cancel()
                await Books().write(database, Lane.API, 1)
            assert scope.cancelled_caught
            assert database.statistics().lanes[Lane.API].units == 0
            assert await Books().committed(database) == set()
