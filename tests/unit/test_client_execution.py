"""One command for one run, carried out by real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import trio

from client import limits
from client.execution import Outcome
from client.execution import execute as execute_heard
from client.transcript import Stream

ENVIRONMENT = {"PATH": os.environ["PATH"], "WHO": "a run"}


async def execute(command: str, *, prompt: str = "", hurry: trio.Event | None = None) -> Outcome:
    """Run a command whose output nobody follows."""
    return await execute_heard(
        command,
        prompt=prompt,
        environment=ENVIRONMENT,
        hear=lambda *_: None,
        hurry=trio.Event() if hurry is None else hurry,
    )


def is_alive(pid: int) -> bool:
    """Tell whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def wait_for_end(pid: int) -> None:
    """Wait until a process that is being killed is gone; an error if it goes on."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(limits.STOP_SECONDS_MAX):
            await trio.lowlevel.wait_readable(handle)
    finally:
        os.close(handle)


def pipe(path: Path) -> Path:
    """Make a named pipe; reading it waits for the line that another process writes."""
    os.mkfifo(path)
    return path


async def line_from(path: Path) -> str:
    """Wait for the line that comes out of a named pipe."""
    with trio.fail_after(10):
        async with await trio.open_file(path) as file:
            return (await file.readline()).strip()


async def test_a_command_gets_prompt_and_environment() -> None:
    """The prompt comes on standard input, and standard output and error are kept apart."""
    outcome = await execute('cat; printf %s " $WHO"; echo oops >&2; exit 3', prompt="päng")
    assert (outcome.exit_code, outcome.output) == (3, "päng a run")
    assert outcome.errors == "oops\n"


async def test_a_command_need_not_read_its_prompt() -> None:
    """A prompt larger than a pipe that nobody reads harms nothing."""
    outcome = await execute("echo done", prompt="x" * 1_000_000)
    assert (outcome.exit_code, outcome.output) == (0, "done\n")


async def test_texts_are_bounded_and_storable() -> None:
    """Of output the beginning is kept, of errors the end; NUL and bad bytes are replaced."""
    command = (
        r"printf 'a\000b\377'; head -c 3000000 /dev/zero | tr '\0' x;"
        " head -c 3000000 /dev/zero | tr '\\0' y >&2; echo last >&2"
    )
    outcome = await execute(command)
    assert outcome.output.startswith("ab\N{REPLACEMENT CHARACTER}xxx")
    assert len(outcome.output) == limits.OUTPUT_BYTES_MAX - 1
    assert outcome.errors.endswith("ylast\n")
    assert len(outcome.errors) == limits.ERROR_BYTES_MAX


async def test_what_a_command_leaves_behind_ends_with_it() -> None:
    """A process that stays in the group and holds the pipes is killed when the command ends."""
    with trio.fail_after(10):
        outcome = await execute("sleep 600 & echo $!")
    assert outcome.exit_code == 0
    await wait_for_end(int(outcome.output))


async def test_what_left_the_group_is_not_waited_for(tmp_path: Path) -> None:
    """A process that left the group and holds the pipes delays the end by a bounded time."""
    left = pipe(tmp_path / "left")
    command = f"setsid sh -c 'echo $$; echo gone > {left}; exec sleep 600' & read gone < {left}"
    with trio.fail_after(limits.PIPE_SECONDS_MAX + 8):
        outcome = await execute(command)
    pid = int(outcome.output)
    assert is_alive(pid), "the fault did not happen"
    os.kill(pid, signal.SIGKILL)
    assert outcome.exit_code == 0


async def test_a_cancelled_command_ends_with_its_group(tmp_path: Path) -> None:
    """Cancelling ends the command and what it started: SIGTERM, then SIGKILL for who ignores it."""
    ready = pipe(tmp_path / "ready")
    command = f"trap '' TERM; sh -c 'echo $$ > {ready}; exec sleep 600' & wait"
    with trio.fail_after(limits.STOP_SECONDS_MAX + 10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: execute(command))
            pid = int(await line_from(ready))
            assert is_alive(pid)
            nursery.cancel_scope.cancel()
    await wait_for_end(pid)


async def test_a_command_in_a_hurry_is_killed_at_once(tmp_path: Path) -> None:
    """A cancelled command that ignores SIGTERM does not keep who is in a hurry for five seconds."""
    ready, hurry = pipe(tmp_path / "ready"), trio.Event()
    command = f"trap '' TERM; sh -c 'echo $$ > {ready}; exec sleep 600' & wait"
    with trio.fail_after(limits.STOP_SECONDS_MAX / 2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: execute(command, hurry=hurry))
            pid = int(await line_from(ready))
            nursery.cancel_scope.cancel()
            hurry.set()
    await wait_for_end(pid)


async def test_output_is_heard_while_the_command_runs(tmp_path: Path) -> None:
    """What a command prints is heard before it ends, by the stream that it went to."""
    go = pipe(tmp_path / "go")
    heard: dict[Stream, bytes] = {}
    both = trio.Event()

    def hear(stream: Stream, data: bytes) -> None:
        heard[stream] = heard.get(stream, b"") + data
        if len(heard) == 2:
            both.set()

    async def run() -> None:
        await execute_heard(
            f"echo out; echo err >&2; read word < {go}; echo $word",
            prompt="",
            environment=ENVIRONMENT,
            hear=hear,
            hurry=trio.Event(),
        )

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await both.wait()
            assert heard == {Stream.OUTPUT: b"out\n", Stream.ERRORS: b"err\n"}
            async with await trio.open_file(go, "w") as file:
                await file.write("done\n")
    assert heard[Stream.OUTPUT] == b"out\ndone\n"
