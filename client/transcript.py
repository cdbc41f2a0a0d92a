"""What a command prints, as lines of its run's transcript: bounded, in batches, never in its way.

Writing never waits. What comes faster than it may be sent pushes out the oldest lines that are not
sent yet, and a line says how many are missing. The lines of a run are numbered from 1 and sent in
order; a batch whose answer was lost is sent again, and then the same numbers stand there twice.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import structlog
import trio

from client import limits
from client.errors import ApiError
from client.patience import patiently

Line: TypeAlias = dict[str, Any]
Send: TypeAlias = Callable[[Sequence[Line]], Awaitable[None]]

_log = structlog.get_logger(__name__)
_NUL: Final = "\x00"  # no database text holds it


class Stream(StrEnum):
    """Where a line comes from."""

    OUTPUT = "stdout"
    ERRORS = "stderr"
    DAEMON = "daemon"


class Transcript:
    """The transcript of one run, of which the server has the beginning."""

    def __init__(self) -> None:
        self._splitters = {stream: _Splitter() for stream in Stream}
        self._backlog: deque[tuple[Stream, _Part]] = deque(maxlen=limits.BACKLOG_LINES_MAX)
        self._left_out = 0
        self._numbered = 0
        self._has_more = trio.Event()
        self._is_closed = trio.Event()

    def write(self, stream: Stream, data: bytes) -> None:
        """Take what a stream printed; its last line may go on with the next call."""
        self._keep(stream, *self._splitters[stream].split(data))

    def say(self, text: str) -> None:
        """Add a line of the mind's own."""
        self.write(Stream.OUTPUT, f"{text}\n".encode())

    def close(self) -> None:
        """End the transcript: what is left is sent without pauses. May be repeated."""
        if self._is_closed.is_set():
            return
        for stream, splitter in self._splitters.items():
            self._keep(stream, *splitter.split(b"", is_final=True))
        self._is_closed.set()
        self._has_more.set()

    async def send_all(self, send: Send) -> None:
        """Send lines until the transcript is closed and empty, or the server wants none of them.

        While the server is away the lines wait, and are left out when there are too many.
        """
        try:
            while batch := await self._next_batch():
                await patiently(partial(send, batch))
        except ApiError as error:
            _log.info("transcript_refused", code=error.code)

    async def _next_batch(self) -> Sequence[Line]:
        """Wait for the next lines to send; none when there will be no more."""
        await self._has_more.wait()
        with trio.move_on_after(limits.MESSAGE_SECONDS):
            await self._is_closed.wait()
        if self._numbered >= limits.TRANSCRIPT_LINES_MAX:
            await self._is_closed.wait()
        batch = self._gap()
        while self._backlog and len(batch) < limits.MESSAGE_LINES_MAX:
            batch.append(self._line(*self._backlog.popleft()))
        if not self._backlog and not self._is_closed.is_set():
            self._has_more = trio.Event()
        return batch

    def _gap(self) -> list[Line]:
        """Return the line that says how many are missing before the next one, if any are."""
        if not self._left_out:
            return []
        count, self._left_out = self._left_out, 0
        line = self._line(Stream.DAEMON, _Part(f"{count} lines left out", is_continued=False))
        return [{**line, "left_out": count}]

    def _line(self, stream: Stream, part: _Part) -> Line:
        self._numbered += 1
        line = {"number": self._numbered, "stream": stream, "text": part.text}
        return {**line, "continued": True} if part.is_continued else line

    def _keep(self, stream: Stream, parts: Sequence[_Part], left_out: int) -> None:
        if not parts or self._is_closed.is_set():
            return
        room = limits.BACKLOG_LINES_MAX - len(self._backlog)
        self._left_out += left_out + max(0, len(parts) - room)
        self._backlog.extend((stream, part) for part in parts)
        self._has_more.set()


class _Part(NamedTuple):
    """A line, or a part of one that is too long; `is_continued` if it is not the first part."""

    text: str
    is_continued: bool


class _Splitter:
    """Cuts what a stream printed into lines, and long lines into parts."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = ""  # what has come of the last line and is no part yet
        self._is_continued = False

    def split(self, data: bytes, *, is_final: bool = False) -> tuple[list[_Part], int]:
        """Return what is complete now, at the end everything, and how many lines before it are not.

        Of more lines than a backlog holds the first are only counted, whatever there is of them.
        """
        text = self._begun + self._decoder.decode(data, is_final).replace(_NUL, "")
        *whole, rest = text.split("\n")
        left_out = max(0, len(whole) - limits.BACKLOG_LINES_MAX)
        parts: list[_Part] = []
        for line in whole[left_out:]:
            parts += self._cut(line.removesuffix("\r"))
            self._is_continued = False
        ripe = len(rest) if is_final else len(rest) - len(rest) % limits.LINE_CHARS_MAX
        if ripe:
            parts += self._cut(rest[:ripe])
        self._begun = rest[ripe:]
        return parts, left_out

    def _cut(self, text: str) -> list[_Part]:
        if self._is_continued and not text:
            return []
        parts = []
        for start in range(0, max(1, len(text)), limits.LINE_CHARS_MAX):
            part = text[start : start + limits.LINE_CHARS_MAX]
            parts.append(_Part(part, self._is_continued))
            self._is_continued = True
        return parts
