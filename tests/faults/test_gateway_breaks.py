"""Broken connections: terminated backends, restarted servers, lost answers, silence."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
import trio

from engine import limits
from engine.errors import WakefulError
from engine.storage.database import (
    CommitUnknown,
    Database,
    Dedicated,
    Lane,
    LaneLimits,
    Query,
    Session,
    open_loop,
    with_connection,
)
from engine.storage.postgres import Postgres
from tests.faults.bookkeeping import INSERT, PID, Books, prepare, whole
from tests.faults.relay import relayed

WRITERS = 16
TERMINATE = Query(
    "test.terminate",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = any($1)"
    " ORDER BY random() LIMIT $2",
)
OURS = [f"wakeful {lane}" for lane in Lane]
FLUSH = Query("test.flush", "SELECT '00000000-0000-0000-0000-000000000007'::uuid")


@asynccontextmanager
async def opened(url: str, *, flush: Query | None = None) -> AsyncIterator[Database]:
    """A gateway over a database with the table of the books."""
    async with open_loop():
        await prepare(url)
        async with Database.open(url, flush=flush) as database:
            yield database


async def terminate(url: str, applications: list[str], count: int) -> int:
    """Terminate some backends as an administrator would; return how many were hit."""

    async def work(session: Dedicated) -> int:
        return len(await session.fetch(TERMINATE, applications, count))

    return await with_connection(url, work)


@asynccontextmanager
async def load(database: Database, books: Books) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Writers on all lanes as long as the body runs; yields a way to wait for n more successes."""
    numbers = itertools.count()
    lanes = itertools.cycle(Lane)
    progress = trio.Condition()
    is_over = False

    async def write() -> None:
        while not is_over:
            await books.write(database, next(lanes), next(numbers))
            async with progress:
                progress.notify_all()

    async def advance(more: int) -> None:
        goal = len(books.done) + more
        async with progress:
            while len(books.done) < goal:
                await progress.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(WRITERS):
            nursery.start_soon(write)
        yield advance
        is_over = True


async def test_a_storm_of_terminated_backends_is_survived(empty_url: str) -> None:
    """While backends are terminated under load the books stay right and work goes on."""
    books = Books()
    hit = 0
    async with opened(empty_url) as database:
        async with load(database, books) as advance:
            for _ in range(30):
                hit += await terminate(empty_url, OURS, 3)
                await advance(10)
            await advance(100)
        await whole(database)
        await books.audit(database)
        lanes = database.statistics().lanes.values()
    assert hit >= 60
    assert sum(lane.replaced for lane in lanes) >= hit / 2
    assert books.failed, "no unit was hit"
    assert sum(lane.unknown for lane in lanes) == len(books.unknown)


async def test_immediate_restarts_of_the_server_are_survived(durable_postgres: Postgres) -> None:
    """The process outlives servers that crash under load, and nothing returned is lost."""
    books = Books()
    postmasters: list[int | None] = []
    server = durable_postgres
    async with opened(server.dsn()) as database, trio.open_nursery() as nursery:
        nursery.start_soon(server.keep_running)
        async with load(database, books) as advance:
            for _ in range(3):
                await advance(100)
                assert server.pid is not None
                postmasters.append(server.pid)
                os.kill(server.pid, signal.SIGQUIT)
                await advance(100)
        await whole(database)
        await books.audit(database)
        nursery.cancel_scope.cancel()
    assert len(set(postmasters)) == 3
    assert books.failed | books.unknown, "no unit was hit"


async def test_a_connection_that_broke_while_idle_is_replaced_unseen(empty_url: str) -> None:
    """A unit on a connection that is gone starts afresh; its caller notices nothing."""
    async with opened(empty_url) as database:
        assert await terminate(empty_url, OURS, 100) == 8
        books = Books()
        for number in range(8):
            await books.write(database, Lane.API, number)
        assert len(books.done) == 8
        await whole(database)
        assert sum(lane.replaced for lane in database.statistics().lanes.values()) == 8


async def test_an_absent_server_is_reported_in_bounded_time(
    durable_postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many wait, they fail together once the time to reconnect is over; then work goes on.

    Only one of them needs to have tried: an outage is not paid for once a caller.
    """
    monkeypatch.setattr(limits, "RECONNECT_SECONDS_MAX", 0.5)
    books = Books()
    server = durable_postgres
    async with opened(server.dsn()) as database:
        server.stop()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(books.write, database, Lane.API, number)
        assert len(books.failed) == 200
        assert trio.current_time() - began < 10 * limits.RECONNECT_SECONDS_MAX
        server.start()
        await books.write(database, Lane.API, 1_000)
        await whole(database)
        assert await books.committed(database) == {1_000}


async def test_cancelling_one_who_waits_for_the_server_is_clean(
    durable_postgres: Postgres,
) -> None:
    """A caller can leave while the gateway tries to reconnect; its place is free again."""
    server = durable_postgres
    async with opened(server.dsn()) as database:
        server.stop()
        with trio.move_on_after(0.2) as scope:
            await Books().write(database, Lane.BACKGROUND, 1)
        assert scope.cancelled_caught
        server.start()
        await whole(database)
        assert await Books().committed(database) == set()


async def test_a_lost_answer_to_commit_is_unknown(empty_url: str) -> None:
    """A connection cut after COMMIT arrived: committed, but the caller is told unknown."""
    async with opened(empty_url), relayed(empty_url) as (relay, url):
        relay.cut_after = lambda data: b"COMMIT" in data
        async with Database.open(url, flush=FLUSH) as database:

            async def unit(session: Session) -> None:
                await session.execute(INSERT, 1)

            with pytest.raises(CommitUnknown) as caught:
                await database.write(Lane.API, unit)
            assert caught.value.code == "commit_unknown"
            assert caught.value.opened == (UUID(int=7),)
            assert database.statistics().lanes[Lane.API].unknown == 1
            assert await Books().committed(database) == {1}
    assert relay.faults == 1


async def test_a_backend_that_dies_in_commit_is_unknown(empty_url: str) -> None:
    """FATAL during COMMIT proves nothing about the transaction; here it had not committed."""
    async with opened(empty_url) as database:
        await with_connection(empty_url, lambda session: session.script(DYING))
        books = Books()
        await books.write(database, Lane.API, 1)
        assert books.unknown == {1}
        await whole(database)
        assert await books.committed(database) == set()


async def test_work_in_commit_is_bounded_by_the_server(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deferred trigger has no statement budget; the budget of the whole transaction ends it."""
    monkeypatch.setattr(limits, "TRANSACTION_MS_MAX", 300)
    async with opened(empty_url) as database:
        await with_connection(empty_url, lambda session: session.script(SLEEPING))
        books = Books()
        await books.write(database, Lane.API, 1)
        assert books.unknown == {1}
        await whole(database)
        assert await books.committed(database) == set()


@pytest.mark.parametrize(
    ("frozen", "code"), [(b"SELECT pg_backend_pid", "database_unavailable"), (b"COMMIT", "unknown")]
)
async def test_a_silent_server_ends_a_unit_in_bounded_time(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, frozen: bytes, code: str
) -> None:
    """When nothing answers any more, the client's own bound ends the unit and its connection."""
    monkeypatch.setattr(limits, "UNIT_SECONDS_MAX", 0.3)
    books = Books()
    async with (
        opened(empty_url),
        relayed(empty_url) as (relay, url),
        Database.open(url) as database,
    ):
        relay.freeze_on = lambda data: frozen in data
        await books.write(database, Lane.API, 1)
        assert relay.faults == 1
        relay.freeze_on = lambda _: False
        await books.write(database, Lane.API, 2)
        assert await books.committed(database) == {2}
    assert books.done == {2}
    assert (books.unknown if code == "unknown" else books.failed) == {1}


async def test_an_idle_transaction_is_ended_by_the_server(empty_url: str) -> None:
    """A unit that waits for anything but its session loses its transaction after its budget."""
    ended = asyncio.Event()
    lanes = {Lane.API: LaneLimits(connections=1, statement_ms=100)}

    async def stall(session: Session) -> None:
        await session.execute(INSERT, 1)
        await ended.wait()  # what a unit must not do: it is no answer of its session
        await session.fetchval(PID)

    async def watch() -> None:
        query = Query(
            "test.alive",
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wakeful api'",
        )

        async def alive(session: Dedicated) -> None:
            while await session.fetchval(query):
                pass

        await with_connection(empty_url, alive)
        ended.set()

    async with open_loop():
        await prepare(empty_url)
        async with (
            Database.open(empty_url, lanes=lanes) as database,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(watch)
            with pytest.raises(WakefulError) as caught:
                await database.write(Lane.API, stall)
            assert caught.value.code in ("database_unavailable", "budget_exceeded")


DYING = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER dying AFTER INSERT ON booked DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION die();
"""
SLEEPING = """
CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER sleeping AFTER INSERT ON booked DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION nap();
"""
