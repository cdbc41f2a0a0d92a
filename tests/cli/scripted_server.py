"""A server that answers what a test tells it to, request by request, and keeps what it was asked.

Its contract is one exchange a connection: read a whole request, give the next answer, close.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import h11
import trio

RESET: Final = None  # an answer that is none: the connection is reset
_READ_BYTES: Final = 65_536


@attrs.frozen(kw_only=True)
class Asked:
    """One request, when it was read (monotonic seconds), and what was in it."""

    at: float
    method: str
    path: str
    body: Any


@attrs.frozen(kw_only=True)
class Answer:
    """A status with a JSON body."""

    status: int
    body: Any


def refusal(status: int, code: str) -> Answer:
    """Return a problem document as the product writes it."""
    kind = f"urn:wakeful:problem:{code}"
    body = {"type": kind, "code": code, "detail": "refused", "status": status}
    return Answer(status=status, body=body)


@attrs.define(kw_only=True)
class ScriptedServer:
    """Where it listens, what it was asked, and what it still has to say."""

    url: str
    answers: list[Answer | None]
    asked: list[Asked] = attrs.field(factory=list)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Carry out one exchange."""
        peer = h11.Connection(h11.SERVER)
        request: h11.Request | None = None
        body = b""
        while True:
            match peer.next_event():
                case h11.NEED_DATA:
                    peer.receive_data(await stream.receive_some(_READ_BYTES))
                case h11.Request() as head:
                    request = head
                case h11.Data() as part:
                    body += part.data
                case h11.EndOfMessage():
                    break
                case other:
                    raise AssertionError(other)
        assert request is not None
        self.asked.append(
            Asked(
                at=trio.current_time(),
                method=request.method.decode(),
                path=request.target.decode(),
                body=json.loads(body) if body else None,
            )
        )
        answer = self.answers.pop(0)
        if answer is RESET:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
            return
        text = json.dumps(answer.body).encode()
        headers = [("Content-Length", str(len(text))), ("Connection", "close")]
        start = h11.Response(status_code=answer.status, headers=headers)
        for event in (start, h11.Data(data=text), h11.EndOfMessage()):
            await stream.send_all(peer.send(event) or b"")
        await stream.aclose()


@asynccontextmanager
async def scripted(*answers: Answer | None) -> AsyncIterator[ScriptedServer]:
    """Serve these answers, one a request, on a free port."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        server = ScriptedServer(url=f"http://127.0.0.1:{port}", answers=list(answers))
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()
