"""Accepts connections and hands each to Hypercorn's HTTP/1.1 machinery on Trio.

Three things are not as in Hypercorn's own `serve`, because each let one client harm all:

- An error in one connection (a client that breaks the protocol while it is being answered) ended
  the whole server; here it stays with its connection.
- A client that does not read its answer kept the handler, and so the work token, for ever; here
  each write has its time.
- HTTP/2 without TLS and WebSockets are not offered: a stream whose connection is gone kept its
  handler waiting, and bytes after a refused upgrade were one of those errors.

ASGI's lifespan is left out: the engine outlives the application, and nothing may run that the work
ledger does not see (S-062).
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr

from engine import limits

_log = structlog.get_logger(__name__)
_NO_STATE: Final[LifespanState] = {}


async def run(
    application: ASGIFramework,
    listener: socket.socket,
    wait_for_shutdown: Callable[[], Awaitable[None]],
    task_status: trio.TaskStatus[None],
) -> None:
    """Serve connections of a bound socket, which is closed in the end, until the wait returns.

    Idle connections end then, and those that are left a moment later.
    """
    config = _config()
    context = WorkerContext(max_requests=None)
    wrapped = ASGIWrapper(application)

    async def connect(stream: trio.SocketStream) -> None:
        try:
            await _Connection(
                wrapped, config, context, ConnectionState(_NO_STATE), cast("Any", stream)
            ).run()
        except* Exception as errors:  # noqa: BLE001 - they are this connection's, whatever they are
            _log.info("connection_failed", errors=sorted(_names(errors)))

    listener.listen(limits.CONNECTION_BACKLOG)
    accepting = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as nursery:
            accept = partial(trio.serve_listeners, connect, accepting, handler_nursery=connections)
            await nursery.start(accept)
            task_status.started()
            await wait_for_shutdown()
            nursery.cancel_scope.cancel()
        await context.terminated.set()
        connections.cancel_scope.deadline = trio.current_time() + limits.GOODBYE_SECONDS_MAX


class _Connection(TCPServer):
    """One client's connection: HTTP/1.1 only, and no write takes for ever."""

    async def run(self) -> None:
        """Serve the connection to its end, and close it."""
        peer = self.stream.socket
        try:
            client = parse_socket_addr(peer.family, peer.getpeername())
            server = parse_socket_addr(peer.family, peer.getsockname())
            async with TaskGroup() as self._task_group:
                self.protocol = cast(
                    "Any",
                    _Http1(
                        self.app,
                        self.config,
                        self.context,
                        self._task_group,
                        ConnectionState(self.state),
                        ssl=False,
                        client=client,
                        server=server,
                        send=self.protocol_send,
                    ),
                )
                await self.idle_task.restart(self._task_group, self._idle_timeout)
                await self._read_data()
                await self.idle_task.stop()  # or a connection that has ended waits to be idle
        except OSError:
            pass  # the client was gone before anything was said
        finally:
            await self._close()

    async def protocol_send(self, event: Event) -> None:
        """Carry out what the protocol asks for; a client that does not read is cut off."""
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        try:
            async with self.send_lock:
                for start in range(0, len(event.data), limits.WRITE_BYTES):
                    with trio.fail_after(limits.WRITE_SECONDS_MAX):
                        await self.stream.send_all(event.data[start : start + limits.WRITE_BYTES])
        except trio.TooSlowError:
            await trio.aclose_forcefully(self.stream)
            await self.protocol.handle(Closed())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self.protocol.handle(Closed())


class _Http1(H11Protocol):
    """HTTP/1.1 that passes over every offer of another protocol, as a server may (RFC 9110, 7.8).

    There is no WebSocket: an upgrade is answered like any other request for its address (S-055).
    """

    async def _check_protocol(self, event: Any) -> None:
        """Look for no HTTP/2."""

    async def _create_stream(self, request: Any) -> None:
        """Begin a request without what it says of upgrades."""
        headers = [(name, value) for name, value in request.headers if name != b"upgrade"]
        plain = type(request)(
            method=request.method,
            target=request.target,
            headers=headers,
            http_version=request.http_version,
        )
        await super()._create_stream(plain)


def _config() -> Config:
    config = Config()
    config.accesslog = config.errorlog = None  # what is worth a line, the gate and we log
    config.include_server_header = False
    config.keep_alive_timeout = limits.KEEP_ALIVE_SECONDS
    return config


def _names(errors: BaseExceptionGroup[Exception]) -> set[str]:
    """Return the types of the errors in a group of groups."""
    names: set[str] = set()
    for each in errors.exceptions:
        names |= _names(each) if isinstance(each, BaseExceptionGroup) else {type(each).__name__}
    return names
