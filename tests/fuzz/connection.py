"""HTTP/1.1 by hand, as little of it as a hostile client needs: any bytes out, one answer in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Self

import attrs
import trio

Header = tuple[str, str]


@attrs.frozen(kw_only=True)
class Answer:
    """A whole response."""

    status: int
    media_type: str
    body: bytes

    def json(self) -> Any:
        """Return the body as the JSON value that it is; raises ValueError if it is none."""
        return json.loads(self.body)


class Connection:
    """A kept-alive connection, opened again whenever the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stream: trio.SocketStream | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator[Self]:
        """Close the connection at the end of the block."""
        connection = cls(port)
        try:
            yield connection
        finally:
            await connection._close()

    async def ask(self, method: str, target: str, headers: Sequence[Header], body: bytes) -> Answer:
        """Send one request with these headers and return its answer."""
        lines = [f"{method} {target} HTTP/1.1", "Host: wakeful"]
        lines += [f"{name}: {value}" for name, value in headers]
        raw = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
        try:
            return await self._exchange(raw)
        except (trio.BrokenResourceError, EOFError):
            await self._close()  # it was closed between two requests: once more, on a new one
            return await self._exchange(raw)

    async def _exchange(self, raw: bytes) -> Answer:
        if self._stream is None:
            self._stream = await trio.open_tcp_stream("127.0.0.1", self._port)
        await self._stream.send_all(raw)
        received = b""
        while b"\r\n\r\n" not in received:
            received += await self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        status = int(status_line.split()[1])
        length = int(fields.get("content-length", "0"))
        while len(body) < length:
            body += await self._more()
        is_cut = (
            status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )  # its body was announced and never sent
        if is_cut or fields.get("connection", "").lower() == "close":
            await self._close()
        return Answer(
            status=status,
            media_type=fields.get("content-type", ""),
            body=body,
        )

    async def _more(self) -> bytes:
        assert self._stream is not None, "there is a stream while an answer is read"
        part = await self._stream.receive_some()
        if not part:
            raise EOFError
        return bytes(part)

    async def _close(self) -> None:
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)
            self._stream = None
