"""LISTEN as a stream that mends itself (W-073): hints, and a mark wherever some may be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs
import structlog
import trio

from engine import limits
from engine.errors import WakefulError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

_log = structlog.get_logger(__name__)


@attrs.frozen
class Notification:
    """A hint from the server. `own`: sent by one of this gateway's own connections."""

    channel: str
    payload: str
    own: bool


@attrs.frozen
class Reconnected:
    """Notifications may have been missed in front of this item: sweep (W-073).

    `backend` is the server process of the connection that listens.
    """

    backend: int = attrs.field(default=0, eq=False)


Hint: TypeAlias = Notification | Reconnected


class Listening:
    """Keeps one line to the server open and passes on what is heard.

    `line` opens a connection that listens and reports to `heard` and `lost`, and gives its server
    process; it raises `WakefulError` when the server cannot be reached. The stream gets a
    `Reconnected` after every (re)connection, and after a consumer was so slow that hints had to be
    dropped.
    """

    def __init__(
        self,
        line: Callable[[Listening], AbstractAsyncContextManager[int]],
        stream: trio.MemorySendChannel[Hint],
    ) -> None:
        self._line = line
        self._stream = stream
        self._attention = trio.Event()
        self._is_lost = False
        self.dropped = 0
        self.connected = 0
        self.is_connected = False

    def heard(self, notification: Notification) -> None:
        """Pass a hint on; called by the loop, never waits."""
        try:
            self._stream.send_nowait(notification)
        except trio.WouldBlock:
            self.dropped += 1
            self._attention.set()
        except trio.BrokenResourceError:
            self.lost()

    def lost(self) -> None:
        """Take note that the connection is gone; called by the loop."""
        self._is_lost = True
        self._attention.set()

    async def run(self) -> None:
        """Listen until cancelled, or until nobody reads the stream any more."""
        while True:
            self._is_lost = False
            try:
                async with self._line(self) as backend:
                    self.connected += 1
                    self.is_connected = True
                    try:
                        await self._relay(backend)
                    finally:
                        self.is_connected = False
                _log.warning("database.listener_lost", connected=self.connected)
            except WakefulError as error:
                _log.warning("database.listener_unreachable", code=error.code)
                await trio.sleep(limits.RECONNECT_PAUSE_SECONDS_MAX)
            except trio.BrokenResourceError:
                return

    async def _relay(self, backend: int) -> None:
        """Mark the stream now and after every loss of hints, until the connection is gone."""
        while True:
            # Made before the mark is sent: what is dropped from here on asks for another mark.
            self._attention = trio.Event()
            if self._is_lost:
                return
            await self._stream.send(Reconnected(backend))
            await self._attention.wait()
