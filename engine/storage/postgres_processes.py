"""The processes of one cluster, found by the cluster's name and ended for good.

Each server process carries the name of its cluster in its command line: the postmaster as the
setting `cluster_name`, its children in their titles. Command lines are readable for everybody,
unlike working directories, which root in a container may not see. Every process is held by a
pidfd before it is looked at, so that a reused process id is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio

from engine import limits

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


def end_cluster(name: str) -> bool:
    """End every process of a cluster, gently first; return whether none is left.

    The postmaster is asked for a fast shutdown, then all for an immediate one, then killed.
    Blocks for as long as that takes: 16 ms for a healthy orphan, half a minute at worst.
    """
    for signum, seconds in (
        (signal.SIGINT, limits.POSTGRES_STOP_SECONDS),
        (signal.SIGQUIT, limits.POSTGRES_QUIT_SECONDS),
        (signal.SIGKILL, limits.POSTGRES_QUIT_SECONDS),
    ):
        with _held(name) as handles:
            if not handles:
                return True
            if signum is signal.SIGINT and not any(handles.values()):
                continue  # without a postmaster there is nobody to shut down in order
            structlog.get_logger().warning(
                "postgres_survivors", signal=signum.name, count=len(handles)
            )
            for handle, is_postmaster in handles.items():
                if is_postmaster or signum is not signal.SIGINT:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, signum)
            _wait_all(list(handles), seconds)
    with _held(name) as handles:
        return not handles


async def exited(process: subprocess.Popen[bytes]) -> None:
    """Wait until a child of this process has ended."""
    if process.poll() is not None:
        return
    handle = os.pidfd_open(process.pid)
    try:
        while process.poll() is None:
            await trio.lowlevel.wait_readable(handle)
    finally:
        os.close(handle)


def command_line(pid: int) -> bytes:
    """Return the words of a process, each ended by a zero byte; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def _held(name: str) -> Iterator[dict[int, bool]]:
    """Yield pidfds of the living processes of a cluster, and whether each is a postmaster."""
    found: dict[int, bool] = {}
    with contextlib.ExitStack() as stack:
        for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]:
            if _role(pid, name) is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                stack.callback(os.close, handle)
                is_postmaster = _role(pid, name)  # again: now the number cannot change its meaning
                if is_postmaster is not None:
                    found[handle] = is_postmaster
        yield found


def _role(pid: int, name: str) -> bool | None:
    """Return True for a postmaster of the cluster, False for its child, None for anything else."""
    words = command_line(pid)
    if f"\0cluster_name={name}\0".encode() in words:
        return True
    return False if words.startswith(f"postgres: {name}: ".encode()) else None


def _wait_all(handles: list[int], seconds: float) -> None:
    """Wait until all processes behind the pidfds have ended, or the time is over."""
    waiting = select.poll()
    for handle in handles:
        waiting.register(handle, select.POLLIN)
    deadline = time.monotonic() + seconds
    left = len(handles)
    while left and (rest := deadline - time.monotonic()) > 0:
        for handle, _ in waiting.poll(rest * 1000):
            waiting.unregister(handle)
            left -= 1
