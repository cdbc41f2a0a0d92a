"""Child processes that answer: one JSON object a line to them, one JSON object a line back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import attrs
import trio

from bench.world import HERE, Cluster

ANSWER_SECONDS_MAX: Final = 30  # for one answer; more is no latency but a loss
STOP_SECONDS_MAX: Final = 60
LOG_CHARS_MAX: Final = 2_000  # of a server that did not start


class Child:
    """The near side of a process; its errors are seen on ours."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._stdin = process.stdin
        self._lines = lines(process.stdout)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, command: Sequence[str | Path], *, first: dict[str, Any] | None = None
    ) -> AsyncIterator[Self]:
        """Start a process, send it its `first` question, if any, and return at its first answer.

        It runs in the root of the repository and ends with the block. Raises when it fails.
        """
        async with trio.open_nursery() as nursery:
            run = partial(
                trio.run_process,
                list(map(str, command)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=HERE.parent,
            )
            process: trio.Process = await nursery.start(run)
            child = cls(process)
            if first is not None:
                await child.tell(first)
            await child.answer()
            yield child
            await child._stdin.aclose()

    async def ask(
        self, question: dict[str, Any], *, seconds_max: float = ANSWER_SECONDS_MAX
    ) -> dict[str, Any]:
        """Send a question and return its answer."""
        await self.tell(question)
        return await self.answer(seconds_max=seconds_max)

    async def tell(self, question: dict[str, Any]) -> None:
        """Send a question whose answers are taken later."""
        await self._stdin.send_all(f"{json.dumps(question)}\n".encode())

    async def answer(self, *, seconds_max: float = ANSWER_SECONDS_MAX) -> dict[str, Any]:
        """Return the next answer."""
        with trio.fail_after(seconds_max):
            answer: dict[str, Any] = json.loads(await anext(self._lines))
            return answer


async def lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[str]:
    """Yield what comes in, line by line."""
    rest = b""
    async for part in stream:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode()


@attrs.frozen(kw_only=True)
class Server:
    """A running server."""

    url: str
    pid: int


@asynccontextmanager
async def serving(cluster: Cluster, database: str, folder: Path) -> AsyncIterator[Server]:
    """Run `wakeful serve` on a database; `folder` gets its files.

    Raises with the end of its log when it does not start.
    """
    log = folder / "server.log"
    with log.open("wb") as errors:
        process = await trio.lowlevel.open_process(
            [
                *(sys.executable, "-m", "cli", "serve", "--port", "0", "--data-dir", str(folder)),
                *("--database-url", cluster.url(database)),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=HERE.parent,
        )
    assert process.stdout is not None
    try:
        with trio.fail_after(ANSWER_SECONDS_MAX):
            said = await anext(lines(process.stdout), "")
        if not said:
            raise RuntimeError(f"the server ended: {log.read_text()[-LOG_CHARS_MAX:]}")
        yield Server(url=said.removeprefix("ready "), pid=process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(STOP_SECONDS_MAX), trio.CancelScope(shield=True):
            await process.wait()
    assert process.returncode == 0
