"""What the machine is, and what others did on it meanwhile: Linux's /proc, nothing else."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")  # of CPU time in a second
KIB: Final = 1_024


def environment(data: Path, postgres: str) -> dict[str, Any]:
    """Return what every figure depends on; `data` is where the database lies."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in (PROC / "cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cores": os.cpu_count(),
        "cpu": model,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "file_system": _file_system(data),
        "python": platform.python_version(),
        "postgres": postgres,
        "load": load(),
    }


def load() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def _file_system(path: Path) -> str:
    done = subprocess.run(
        ["df", "--output=fstype", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()[-1]


class ForeignShare:
    """How much of the machine's CPU other processes take, from its making on.

    Not other are the process `root`, by default this one, and its descendants.
    """

    def __init__(self, root: int | None = None) -> None:
        self._root = os.getpid() if root is None else root
        self._machine, self._busy = _machine_ticks()
        self._own = _tree_ticks(self._root)

    def read(self) -> float:
        """Return the share so far: 1.0 is the whole machine, all cores."""
        machine, busy = _machine_ticks()
        own = _tree_ticks(self._root) - self._own
        return max(busy - self._busy - own, 0) / max(machine - self._machine, 1)


def _machine_ticks() -> tuple[int, int]:
    """Return the ticks of all cores so far: all, and those in which they did something."""
    first = (PROC / "stat").read_text(encoding="ascii").splitlines()[0]
    user, nice, system, idle, wait, irq, soft, steal = map(int, first.split()[1:9])
    busy = user + nice + system + irq + soft + steal
    return busy + idle + wait, busy


def cpu_seconds(root: int) -> float:
    """Return the CPU time that a process and its descendants have taken so far."""
    return _tree_ticks(root) / TICKS


def _tree_ticks(root: int) -> int:
    """Return the ticks of a process and its descendants, those that have ended included."""
    total = 0
    for pid in tree(root):
        fields = _fields(pid)
        total += sum(map(int, fields[11:15])) if fields else 0
    return total


def tree(root: int) -> Iterator[int]:
    """Yield a process and all its living descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            children[int(fields[1])].append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children[pid]


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none if the process is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def resident_bytes(pid: int) -> int:
    """Return the memory of one process that is in use (RSS)."""
    return _memory(pid, "status", "VmRSS:")


def proportional_bytes(pid: int) -> int:
    """Return the same with each shared page divided by those who share it (PSS)."""
    return _memory(pid, "smaps_rollup", "Pss:")


def _memory(pid: int, file: str, name: str) -> int:
    for line in (PROC / str(pid) / file).read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * KIB
    return 0
