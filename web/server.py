"""Accepts connections and hands each to Hypercorn's protocol machinery on Trio.

Hypercorn's own `serve` is not used: it runs all connections in one nursery, so that an error in
one of them (a client that breaks the protocol while it is being answered) ends the whole server.
Here an error stays with its connection. ASGI's lifespan is left out, because the engine outlives
the application and nothing may run that the work ledger does not see (S-062).
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState, LifespanState

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
        server = TCPServer(wrapped, config, context, ConnectionState(_NO_STATE), stream)
        try:
            await server.run()
        except* Exception as errors:  # the client's connection, and nobody else's
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
