"""Carries out one command for one run: the prompt goes in, what it prints comes out.

The command gets a process group of its own, which ends with it: what it leaves behind there is
killed, and a cancelled execution ends the group within `STOP_SECONDS_MAX`. What it prints is heard
while it prints; the pipes are always read, whatever becomes of that.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import attrs
import trio

from client import limits
from client.transcript import Stream

Hear: TypeAlias = Callable[[Stream, bytes], None]


@attrs.frozen(kw_only=True)
class Outcome:
    """How a command ended; `exit_code` is negative for a signal.

    `output` is the beginning of standard output and `errors` the end of standard error, both cut
    to a bound, decoded with replacement characters and without NUL.
    """

    exit_code: int
    output: str
    errors: str


async def execute(
    command: str,
    *,
    prompt: str,
    environment: Mapping[str, str],
    hear: Hear,
    hurry: trio.Event,
) -> Outcome:
    """Run a shell command with a prompt on its standard input and return how it ended.

    `hear` gets what it prints as it comes and must not wait. Once `hurry` is set, a cancelled
    execution kills without asking. Raises OSError when no process can be started.
    """
    process = await trio.lowlevel.open_process(  # noqa: S604 - the operator's own command line
        command,
        shell=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    assert process.stderr is not None, "it is a pipe"
    output = _Head(limits.OUTPUT_BYTES_MAX)
    errors = _Tail(limits.ERROR_BYTES_MAX)
    try:
        async with (
            process.stdin,
            process.stdout,
            process.stderr,
            trio.open_nursery() as pipes,
        ):
            pipes.start_soon(_feed, process.stdin, prompt)
            pipes.start_soon(_collect, process.stdout, output, partial(hear, Stream.OUTPUT))
            pipes.start_soon(_collect, process.stderr, errors, partial(hear, Stream.ERRORS))
            await process.wait()
            _signal_group(process.pid, signal.SIGKILL)
            pipes.cancel_scope.deadline = trio.current_time() + limits.PIPE_SECONDS_MAX
    finally:
        with trio.CancelScope(shield=True):
            await _end(process, hurry)
    assert process.returncode is not None, "it has been waited for"
    return Outcome(exit_code=process.returncode, output=output.text(), errors=errors.text())


@attrs.define
class _Head:
    """Keeps the beginning of what is written."""

    bytes_max: int
    kept: bytearray = attrs.field(factory=bytearray, init=False)

    def take(self, data: bytes) -> None:
        self.kept += data[: self.bytes_max - len(self.kept)]

    def text(self) -> str:
        return _text(bytes(self.kept))


@attrs.define
class _Tail:
    """Keeps the end of what is written."""

    bytes_max: int
    kept: bytearray = attrs.field(factory=bytearray, init=False)

    def take(self, data: bytes) -> None:
        self.kept += data
        del self.kept[: -self.bytes_max]

    def text(self) -> str:
        return _text(bytes(self.kept))


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\x00", "")


async def _feed(pipe: trio.abc.SendStream, prompt: str) -> None:
    """Write the prompt and close; a command need not read it."""
    with suppress(trio.BrokenResourceError):
        await pipe.send_all(prompt.encode())
    await pipe.aclose()


async def _collect(
    pipe: trio.abc.ReceiveStream, into: _Head | _Tail, hear: Callable[[bytes], None]
) -> None:
    while data := await pipe.receive_some(limits.READ_BYTES):
        into.take(bytes(data))
        hear(bytes(data))


async def _end(process: trio.Process, hurry: trio.Event) -> None:
    """End a process that still runs, with its group: first politely, then for good."""
    if process.returncode is not None:
        return
    _signal_group(process.pid, signal.SIGTERM)
    with trio.move_on_after(limits.STOP_SECONDS_MAX):
        async with trio.open_nursery() as either:
            either.start_soon(_cancel_after, process.wait, either.cancel_scope)
            either.start_soon(_cancel_after, hurry.wait, either.cancel_scope)
    _signal_group(process.pid, signal.SIGKILL)
    await process.wait()


async def _cancel_after(wait: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel()


def _signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to what is left of a process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
