"""A server on a loopback port: over the stand-in for the transport, over an engine for the rest."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import attrs
import httpx
import pytest
import trio

from engine.app import Engine
from tests.web.samples import ANSWERS
from tests.web.stand_in import MEMBER, StandInEngine
from web.app import serve
from web.listening import listening


@attrs.frozen
class Server:
    """A running server: where it listens, and the switch that stops it."""

    url: str
    shutdown: trio.Event

    @property
    def port(self) -> int:
        """The port on the loopback address."""
        return int(self.url.rpartition(":")[2])

    def client(self, token: str | None = MEMBER, **headers: str) -> httpx.AsyncClient:
        """Return a client that shows a token."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        # Without certificates, which take 60 ms to load and guard nothing on the loopback.
        return httpx.AsyncClient(
            base_url=f"{self.url}/api", headers=headers, timeout=20, verify=False
        )

    async def exchange(self, *parts: bytes, stop_sending: bool = False) -> bytes:
        """Send bytes on a connection of their own and return the first whole response."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            for part in parts:
                await stream.send_all(part)
            if stop_sending:
                await stream.send_eof()
            received = bytearray()
            while not is_whole(received) and (part := await stream.receive_some()):
                received += part
            return bytes(received)


def is_whole(received: bytes | bytearray) -> bool:
    """Tell whether a response is complete by its Content-Length."""
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(end) and length is not None and len(body) >= int(length[1])


@asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[Server]:
    """Serve an engine on a free port for as long as the block lasts."""
    shutdown = trio.Event()
    with listening("127.0.0.1", 0, None) as listener:
        async with trio.open_nursery() as nursery:
            run = partial(serve, engine, listener, shutdown=shutdown)
            url: str = await nursery.start(run)
            try:
                yield Server(url, shutdown)
            finally:
                shutdown.set()


@pytest.fixture
def stand_in() -> StandInEngine:
    return StandInEngine(ANSWERS)


@pytest.fixture
async def server(stand_in: StandInEngine) -> AsyncIterator[Server]:
    async with serving(cast("Engine", stand_in)) as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as http:
        yield http
