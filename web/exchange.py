"""One HTTP exchange as the gate lets the application see it: bounded, and calm at its end.

Wraps the ASGI `receive` and `send` of one request. The body ends at the largest size that any
route takes; a client that leaves is not told to a handler that changes something (S-061); a
connection that breaks while it is written to is nobody's error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import structlog
import trio

from engine import limits
from web.problems import Problem

_log = structlog.get_logger(__name__)
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# The client is gone, or hypercorn is closing its connection right now (stack.md 4).
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError, OSError)
_END: Final[Message] = {"type": "http.request", "body": b"", "more_body": False}


class Exchange:
    """The two sides of one request. `may_leave`: the client's leaving may cancel the handler."""

    def __init__(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send, *, may_leave: bool
    ) -> None:
        self._receive = receive
        self._send = send
        self._may_leave = may_leave
        self._has_body = _announces_body(scope)
        self._size = 0
        self._is_cut = False
        self._is_complete = False
        self._is_ending = False
        self._is_broken = False
        self._drained = trio.Event()
        self.has_answered = False

    async def receive(self) -> Message:
        """Return the next message for the application.

        A body above the largest allowed size is cut one byte past it, which is enough for its
        reader to refuse it; the rest is read and forgotten. The disconnect that hypercorn announces
        after a complete answer is kept back: Quart would cancel the task that is just closing the
        connection, which would then stay open for ever.
        """
        while True:
            if self._is_complete and not self._may_leave:
                await trio.sleep_forever()
            message = await self._receive()
            if message["type"] != "http.request":
                self._drained.set()
                if self._is_ending:
                    await trio.sleep_forever()
                return message
            if (shown := self._take(message)) is not None:
                return shown

    def _take(self, message: Message) -> Message | None:
        """Count one part of the body and return what of it the application may see."""
        part: bytes = message.get("body", b"")
        room = max(0, limits.BODY_BYTES_MAX + 1 - self._size)
        self._size += len(part)
        if not message.get("more_body", False):
            self._is_complete = not self._is_cut
            self._drained.set()
        elif self._size > limits.LINGER_BYTES_MAX:
            self._drained.set()
        if self._is_cut:
            return None
        if len(part) < room:
            return message
        self._is_cut = True
        self._is_complete = False
        return {**_END, "body": part[:room]}

    async def send(self, message: Message) -> None:
        """Pass an answer on; once the client is gone, do nothing.

        The end of the answer waits a little for the rest of the body: hypercorn closes the
        connection after it, and a client that is still sending would see a reset instead.
        """
        self.has_answered = True
        is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_end and self._has_body and not self._drained.is_set():
            with trio.move_on_after(limits.LINGER_SECONDS_MAX):
                await self._drained.wait()
        self._is_ending = is_end
        if self._is_broken:
            return
        try:
            await self._send(message)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the connection's
            self._is_broken = True
            self._drained.set()
            if not isinstance(error, _GONE):
                _log.info("answer_undelivered", error=type(error).__name__)

    async def refuse(self, answer: Problem) -> None:
        """Answer in place of the application, and read a body that is under way to its end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drain)
            await self.send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": [
                        (name.lower().encode("latin-1"), value.encode("latin-1"))
                        for name, value in answer.headers
                    ],
                }
            )
            await self.send({"type": "http.response.body", "body": answer.body, "more_body": True})
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
            nursery.cancel_scope.cancel()

    async def _drain(self) -> None:
        message: Message = _END
        while message["type"] == "http.request":
            message = await self.receive()


def _announces_body(scope: MutableMapping[str, Any]) -> bool:
    """Tell whether a request says that a body follows."""
    headers = {name.lower(): value for name, value in scope["headers"]}
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
