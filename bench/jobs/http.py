"""A small HTTP/1.1 client on asyncio: one kept connection, one JSON call at a time.

A client library costs more than the server that is measured; this one costs little and knows no
more than what the API answers: a status, a length, a JSON body or none.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

_END: Final = b"\r\n\r\n"
_CLOSE: Final = b"\r\nconnection: close\r\n"


class Connection:
    """One connection that is kept as long as the server does; one `call` at a time."""

    def __init__(self, url: str, token: str) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self._place = (where.hostname, where.port)
        self._head = (
            f"Host: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\n"
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, path: str, body: dict[str, Any]) -> Any:
        """POST a body and return the answer's JSON; an answer that is no success is an error."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place)
        reader, writer = self._streams
        content = json.dumps(body).encode()
        request = f"POST /api{path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n"
        writer.write(request.encode() + content)
        head = await reader.readuntil(_END)
        status = int(head[9:12])
        answer = await reader.readexactly(_length(head))
        assert 200 <= status < 300, (path, status, answer)
        if _CLOSE in head.lower():  # servers do that now and then
            await self.close()
        return json.loads(answer) if answer else None

    async def close(self) -> None:
        """Leave."""
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()
            with suppress(OSError):  # the server may have been first
                await writer.wait_closed()


def _length(head: bytes) -> int:
    """Return how many bytes follow a head; no announcement means none."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
