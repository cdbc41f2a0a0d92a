"""Requests byte by byte, answers that a test holds back, and the wait for the end of all work."""

from __future__ import annotations

import json
from typing import Any

import trio

from engine.work import WorkLedger
from tests.web.stand_in import MEMBER, Asked, StandInEngine


def request(
    line: str,
    body: bytes = b"",
    *,
    token: str = MEMBER,
    headers: str = "",
    length: int | None = None,
) -> bytes:
    """Return the bytes of a request whose connection closes after it."""
    size = len(body) if length is None else length
    head = (
        f"{line} HTTP/1.1\r\nHost: wakeful\r\nConnection: close\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {size}\r\n{headers}\r\n"
    )
    return head.encode("latin-1") + body


def answer(raw: bytes) -> tuple[int, Any]:
    """Return status and JSON body of a raw response."""
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if body else None


class Blocked:
    """An answer that the test holds back: `reached` is set once a handler waits for it."""

    def __init__(self, stand_in: StandInEngine) -> None:
        self.reached = trio.Event()
        self.waiting = 0
        self.release = trio.Event()
        self.finished = 0
        self.cancelled = trio.Event()
        self._sample = stand_in.sample
        stand_in.answer = self.answer

    async def answer(self, asked: Asked) -> Any:
        """Wait until the test lets go, and tell how that ended."""
        self.waiting += 1
        self.reached.set()
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        self.finished += 1
        return await self._sample(asked)


async def idle(ledger: WorkLedger) -> None:
    """Wait until nothing is active; tests end in a timeout if that never comes."""
    event = trio.Event()
    ledger.call_when_idle(event.set)
    try:
        with trio.fail_after(10):
            while ledger.active:
                await event.wait()
                event = trio.Event()
    finally:
        ledger.forget(event.set)
