"""Dedicated connections, and the loop that carries every connection."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
import trio

from engine.errors import WakefulError
from engine.storage.database import (
    Database,
    DatabaseError,
    Dedicated,
    Lane,
    Query,
    Session,
    open_loop,
    with_connection,
)


async def test_a_dedicated_connection_runs_scripts(empty_url: str) -> None:
    """Migrations get scripts, transactions of their own, and statements outside of any."""
    timeout = Query("test.timeout", "SELECT current_setting('statement_timeout')")
    left = Query(
        "test.left",
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%dedicated'",
    )

    async def work(session: Dedicated) -> Any:
        await session.script("CREATE TABLE a (x int); INSERT INTO a VALUES (1); SELECT 1;")
        await session.script("CREATE INDEX CONCURRENTLY a_x ON a (x)")
        await session.begin()
        await session.execute(Query("test.drop", "DROP TABLE a"))
        await session.rollback()
        await session.begin()
        await session.script("INSERT INTO a VALUES (2); INSERT INTO a VALUES (3)")
        await session.commit()
        with pytest.raises(DatabaseError, match="script: SQLSTATE 42P07"):
            await session.script("CREATE TABLE b (); CREATE TABLE a ()")
        assert await session.fetchval(timeout) == "0"
        assert await session.fetchval(Query("test.b", "SELECT to_regclass('b')")) is None
        return await session.fetchval(Query("test.count", "SELECT count(*) FROM a"))

    async def remaining(session: Session) -> Any:
        return await session.fetchval(left)

    async with open_loop():
        assert await with_connection(empty_url, work) == 3
        async with Database.open(empty_url) as database:
            assert await database.read(Lane.API, remaining) == 0


async def test_a_cancelled_migration_is_rolled_back(empty_url: str) -> None:
    """Cancelling the owner of a dedicated connection ends its statement and closes it."""
    open_still = Query(
        "test.open", "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)'"
    )
    begun = trio.Event()

    async def work(session: Dedicated) -> None:
        await session.begin()
        await session.script("CREATE TABLE half ()")
        begun.set()
        await session.script("SELECT pg_sleep(60)")

    async def gone(session: Session) -> bool:
        while await session.fetchval(open_still):
            pass
        return await session.fetchval(Query("test.half", "SELECT to_regclass('half')")) is None

    async with open_loop(), Database.open(empty_url) as database:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(with_connection, empty_url, work)
            await begun.wait()
            nursery.cancel_scope.cancel()
        assert await database.read(Lane.API, gone)


async def test_a_database_that_refuses_is_reported_at_once(empty_url: str) -> None:
    """Neither an absent database nor a bad address is worth waiting for; no address is shown."""
    for url in (empty_url.replace("/t", "/absent", 1), "postgresql://h:port/x"):
        async with open_loop():
            with pytest.raises(WakefulError) as caught:
                async with Database.open(url):
                    pass
        assert caught.value.code == "database_unavailable"
        assert "absent" not in caught.value.message
        assert "port" not in caught.value.message


async def test_errors_leave_the_loop_as_themselves(empty_url: str) -> None:
    """An error of the body crosses `open_loop` without a wrapping; a gateway needs that loop."""
    with pytest.raises(LookupError, match="mine"):
        async with open_loop():
            raise LookupError("mine")
    with pytest.raises(AssertionError, match="open_loop"):
        async with Database.open(empty_url):
            pass


async def test_a_stray_error_of_the_loop_is_counted(empty_url: str) -> None:
    """A future whose exception nobody asks for is counted and logged, and ends nothing."""

    async def stray(_: Session) -> None:
        asyncio.get_running_loop().create_future().set_exception(LookupError("stray"))
        gc.collect()

    async def one(session: Session) -> Any:
        return await session.fetchval(Query("test.one", "SELECT 1"))

    async with open_loop(), Database.open(empty_url) as database:
        await database.read(Lane.API, stray)
        assert database.statistics().loop_errors == 1
        assert await database.read(Lane.API, one) == 1
