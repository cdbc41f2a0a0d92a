"""`wakeful serve` from its start to the line `ready`, and what it takes when nothing happens.

Cold means an empty data directory: initdb, migrations, the first workspace. Warm means the same
directory again after a clean stop. Programs and libraries are in the page cache in both. Memory is
read ten seconds after the line: of the Python process, and of it with its PostgreSQL. PSS divides
each shared page by those who share it, so its sum is what the machine really gives; RSS counts
shared buffers once a process.
"""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import attrs
import trio

from bench.machine import proportional_bytes, resident_bytes, tree
from bench.report import Figure, Row
from bench.world import HERE, Cluster

ROUNDS: Final = 3  # of each start the median
IDLE_SECONDS: Final = 10
STOP_SECONDS_MAX: Final = 60
MIB: Final = 2**20


@attrs.frozen(kw_only=True)
class _Idle:
    """Bytes of an idle server."""

    own: int
    resident: int
    proportional: int
    processes: int


def measure(_cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of both starts and of memory; the server brings its own cluster."""
    cold, warm = [], []
    rounds = 1 if quick else ROUNDS
    for turn in range(rounds):
        with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
            Path(folder).chmod(0o755)  # as in `bench.world.running_cluster`
            data = Path(folder) / "data"
            cold.append(trio.run(_serve, data, 0)[0])
            is_last = turn == rounds - 1
            seconds, idle = trio.run(_serve, data, IDLE_SECONDS if is_last else 0)
            warm.append(seconds)
    return [
        _start_row("start to ready, empty data directory", cold),
        _start_row("start to ready, existing data directory", warm),
        Row(
            what=f"memory after {IDLE_SECONDS} idle seconds",
            figures=(
                Figure(name="engine RSS", value=idle.own / MIB, unit=" MiB"),
                Figure(name="with PostgreSQL PSS", value=idle.proportional / MIB, unit=" MiB"),
                Figure(name="RSS", value=idle.resident / MIB, unit=" MiB"),
                Figure(name="processes", value=idle.processes),
            ),
        ),
    ]


def _start_row(what: str, seconds: list[float]) -> Row:
    return Row(
        what=what,
        figures=(
            Figure(name="", value=statistics.median(seconds), unit=" s"),
            Figure(name="max", value=max(seconds), unit=" s"),
        ),
    )


async def _serve(data: Path, idle_seconds: float) -> tuple[float, _Idle]:
    """Start a server, leave it idle, stop it; return the seconds to `ready`, and its memory."""
    started = time.monotonic()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "cli", "serve", "--data-dir", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=HERE.parent,
    )
    assert process.stdout is not None
    try:
        said = b""
        while b"ready " not in said:
            part = await process.stdout.receive_some()
            assert part, "the server ended before it was ready"
            said += part
        ready = time.monotonic()
        await trio.sleep(idle_seconds)
        idle = _idle(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(STOP_SECONDS_MAX), trio.CancelScope(shield=True):
            await process.wait()
    assert process.returncode == 0
    return ready - started, idle


def _idle(root: int) -> _Idle:
    pids = list(tree(root))
    return _Idle(
        own=resident_bytes(root),
        resident=sum(map(resident_bytes, pids)),
        proportional=sum(map(proportional_bytes, pids)),
        processes=len(pids),
    )
