"""What keeps the gateway alive: nothing hangs unnoticed, and no stray error ends the process."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from engine import limits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

_log = structlog.get_logger(__name__)

_SOCKET_OPTIONS: Final = (
    ("TCP_KEEPIDLE", limits.KEEPALIVE_IDLE_SECONDS),
    ("TCP_KEEPALIVE", limits.KEEPALIVE_IDLE_SECONDS),  # its name on macOS
    ("TCP_KEEPINTVL", limits.KEEPALIVE_INTERVAL_SECONDS),
    ("TCP_KEEPCNT", limits.KEEPALIVE_PROBES_MAX),
    ("TCP_USER_TIMEOUT", limits.UNACKNOWLEDGED_MS_MAX),
)


class Socket(Protocol):
    """The part of a socket that is used here; asyncio shows its own only through a wrapper."""

    @property
    def family(self) -> int:
        """AF_INET, AF_INET6 or AF_UNIX."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """As `socket.socket.setsockopt`."""


def server_settings(name: str, statement_ms: int | None) -> Mapping[str, str]:
    """Return what a connection asks of the server for its whole life.

    Without `statement_ms` a statement takes what it takes: for migrations. The tcp settings are
    the server's half of W-073; a Unix socket ignores them. A mis-estimated short statement must
    not pay for compilation, hence no jit.
    """
    bound = str(statement_ms or 0)
    return {
        "application_name": f"wakeful {name}",
        "default_transaction_isolation": "read committed",
        "idle_in_transaction_session_timeout": bound,
        "jit": "off",
        "lock_timeout": "0",
        "statement_timeout": bound,
        "tcp_keepalives_count": str(limits.KEEPALIVE_PROBES_MAX),
        "tcp_keepalives_idle": str(limits.KEEPALIVE_IDLE_SECONDS),
        "tcp_keepalives_interval": str(limits.KEEPALIVE_INTERVAL_SECONDS),
        "tcp_user_timeout": str(limits.UNACKNOWLEDGED_MS_MAX),
        "timezone": "UTC",
    }


def keep_alive(line: Socket) -> None:
    """Have the kernel find a silent break within 60 s (W-073); a Unix socket needs nothing."""
    if line.family not in (socket.AF_INET, socket.AF_INET6):
        return
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SOCKET_OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            line.setsockopt(socket.IPPROTO_TCP, option, value)


class LoopErrors:
    """The loop's exception handler: counts and logs, never raises.

    Without it trio-asyncio ends the process when a server restart leaves a future behind whose
    exception nobody asked for (anchors F4).
    """

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Take one report of asyncio; its texts may hold values of rows and are left out."""
        self.count += 1
        error = context.get("exception")
        _log.warning("database.loop_error", error=type(error).__name__, count=self.count)
