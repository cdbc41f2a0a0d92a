"""LISTEN: hints arrive, and every gap is marked."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from engine import limits
from engine.storage import database as gateway
from engine.storage import liveness
from engine.storage.database import (
    Database,
    Dedicated,
    Hint,
    Lane,
    Notification,
    Query,
    Reconnected,
    Session,
    open_loop,
    with_connection,
)
from tests.faults.relay import relayed

NOTIFY = Query("test.notify", "SELECT pg_notify($1, $2)")
FLOOD = Query("test.flood", "SELECT pg_notify('hints', g::text) FROM generate_series(1, $1) g")
TERMINATE = Query(
    "test.terminate",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'wakeful listen'",
)


@asynccontextmanager
async def listening(
    url: str, *channels: str
) -> AsyncIterator[tuple[Database, trio.MemoryReceiveChannel[Hint]]]:
    """A gateway and the stream of its hints."""
    async with (
        open_loop(),
        Database.open(url) as database,
        database.listen(channels) as hints,
    ):
        yield database, hints


async def foreign(url: str, query: Query, *args: object) -> int:
    """Execute a query as another process would."""

    async def work(session: Dedicated) -> int:
        return len(await session.fetch(query, *args))

    return await with_connection(url, work)


async def test_hints_say_whether_they_are_our_own(empty_url: str) -> None:
    """A hint of one of the gateway's own connections is marked; the first item asks to sweep."""

    async def notify(session: Session) -> None:
        await session.fetchval(NOTIFY, "other", "mine")

    async with listening(empty_url, "hints", 'other "channel"', "other") as (database, hints):
        assert await hints.receive() == Reconnected()
        await foreign(empty_url, NOTIFY, "hints", "theirs")
        assert await hints.receive() == Notification("hints", "theirs", own=False)
        await database.write(Lane.API, notify)
        assert await hints.receive() == Notification("other", "mine", own=True)
        await foreign(empty_url, NOTIFY, 'other "channel"', "")
        assert await hints.receive() == Notification('other "channel"', "", own=False)


async def test_a_terminated_listener_comes_back_and_says_so(empty_url: str) -> None:
    """W-073: after the listener is terminated it reconnects, marks the gap, and hears again."""
    async with listening(empty_url, "hints") as (database, hints):
        assert await hints.receive() == Reconnected()
        for _ in range(3):
            assert await foreign(empty_url, TERMINATE) == 1
            assert await hints.receive() == Reconnected()
            await foreign(empty_url, NOTIFY, "hints", "again")
            assert await hints.receive() == Notification("hints", "again", own=False)
        assert database.statistics().listeners_connected == 4
        assert database.statistics().loop_errors == 0


async def test_a_slow_consumer_loses_hints_and_is_told(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints that find no room are dropped and counted, and a mark to sweep takes their place."""
    monkeypatch.setattr(limits, "HINTS_MAX", 10)
    async with listening(empty_url, "hints") as (database, hints):
        assert await hints.receive() == Reconnected()
        await foreign(empty_url, FLOOD, 1_000)
        while await hints.receive() != Reconnected():
            pass
        assert database.statistics().hints_dropped > 0
        # Either it arrives, or it found no room behind the flood, and then another mark says so.
        await foreign(empty_url, NOTIFY, "hints", "after")
        after = Notification("hints", "after", own=False)
        while await hints.receive() not in (after, Reconnected()):
            pass


async def test_a_server_that_is_away_is_awaited(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing answers the listener keeps trying, and hears once there is an answer."""
    monkeypatch.setattr(limits, "CONNECT_SECONDS_MAX", 0.2)
    async with open_loop(), relayed(empty_url) as (relay, url), Database.open(url) as database:
        relay.freeze_on = lambda _: True
        async with database.listen(["hints"]) as hints:
            with trio.move_on_after(0.5) as scope:
                await hints.receive()
            assert scope.cancelled_caught
            assert relay.faults >= 2
            assert database.statistics().listeners_connected == 0
            relay.freeze_on = lambda _: False
            assert await hints.receive() == Reconnected()


async def test_a_silent_break_is_found_by_keepalive(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-073: every TCP connection, the listener's too, is probed so that 60 s are enough."""
    lines: list[Any] = []

    def recording(line: Any) -> None:
        liveness.keep_alive(line)
        lines.append(line)

    monkeypatch.setattr(gateway, "keep_alive", recording)
    async with (
        open_loop(),
        relayed(empty_url) as (_, url),
        Database.open(url) as database,
        database.listen(["hints"]) as hints,
    ):
        assert await hints.receive() == Reconnected()
        assert len(lines) == 9
        for line in lines:
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle, interval, count, unacknowledged = (
                line.getsockopt(socket.IPPROTO_TCP, option)
                for option in (
                    socket.TCP_KEEPIDLE,
                    socket.TCP_KEEPINTVL,
                    socket.TCP_KEEPCNT,
                    socket.TCP_USER_TIMEOUT,
                )
            )
            assert idle + interval * count <= 60
            assert idle < unacknowledged / 1_000 <= 60
