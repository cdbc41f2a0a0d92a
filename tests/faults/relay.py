"""A TCP line to the server that a test can cut or freeze where it wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

import trio

CHUNK = 65_536
BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


class Relay:
    """Passes bytes between clients on TCP and the server's Unix socket.

    `freeze_on` and `cut_after` see what a client sends. The first keeps this and everything after
    it to itself; the second passes it on, waits for the server's answer and cuts the line instead
    of delivering it. `faults` counts how often either happened.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self.freeze_on: Callable[[bytes], bool] = lambda _: False
        self.cut_after: Callable[[bytes], bool] = lambda _: False
        self.faults = 0

    async def serve(self, client: trio.SocketStream) -> None:
        """Carry one connection until either end closes it."""
        server = await trio.open_unix_socket(self._socket_path)
        cut = trio.Event()
        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(self._up, client, server, cut, nursery.cancel_scope)
            with suppress(*BROKEN):
                async for data in server:
                    if cut.is_set():
                        self.faults += 1
                        break
                    await client.send_all(data)
            nursery.cancel_scope.cancel()

    async def _up(
        self,
        client: trio.SocketStream,
        server: trio.SocketStream,
        cut: trio.Event,
        both: trio.CancelScope,
    ) -> None:
        with suppress(*BROKEN):
            while data := await client.receive_some(CHUNK):
                if self.freeze_on(data):
                    self.faults += 1
                    await trio.sleep_forever()
                if self.cut_after(data):
                    cut.set()
                await server.send_all(data)
        both.cancel()


@asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[Relay, str]]:
    """Yield a relay in front of the server of `url`, and the URL that leads through it."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    relay = Relay(f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}")
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, relay.serve, [listener])
        yield relay, f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"
        nursery.cancel_scope.cancel()
