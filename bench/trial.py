"""One trial: a system in a database of its own, a process that enqueues and one that works.

A trial takes several measurements one after the other, the same for every system (`bench/jobs/`).
It begins with a few jobs that warm both processes up, and each measurement ends when the system
itself says that every job is durably done.

- `latency`: jobs come one by one, with a pause after each; from commit to start of each.
- `timers`: jobs that are all due at one instant; from that instant until the last one has started.
- `burst`: jobs by 16 connections at full speed, each in a transaction of its own; jobs per second
  from the first call until all are done.
- `sleepers`: the same, but each job takes a second, and all may run at a time; from the first call
  until all are done, without that second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs

from bench.children import Child, Server, serving
from bench.machine import ForeignShare, cpu_seconds
from bench.report import percentile
from bench.world import HERE, Cluster, Sizes

OWN: Final = "wakeful"
AGENTS: Final = 200  # a claim hands out one run an agent at most
WARM_UP: Final = 20
PAUSE_SECONDS: Final = 0.02
WRITERS: Final = 16
PLAN_SECONDS: Final = 3  # ahead; every system has enqueued its jobs by then
SLEEP_SECONDS: Final = 1.0
TRIAL_SECONDS_MAX: Final = 600  # for one measurement, on a machine that others use, too
PEERS_PYTHON: Final = HERE / ".venv" / "bin" / "python"  # `make peers`


class Kind(StrEnum):
    """What is measured."""

    LATENCY = "latency"
    SLEEPERS = "sleepers"
    TIMERS = "timers"
    BURST = "burst"


@attrs.frozen(kw_only=True)
class System:
    """One system: its module in `bench/jobs/`, and how many jobs its worker has at a time."""

    module: str
    title: str
    concurrency: int = 10

    @property
    def is_own(self) -> bool:
        """Whether it is Wakeful, which has a server between database and worker."""
        return self.module == OWN

    @property
    def python(self) -> Path:
        """The interpreter that has what it needs."""
        return Path(sys.executable) if self.is_own else PEERS_PYTHON

    @property
    def is_installed(self) -> bool:
        """Whether it can run here."""
        if self.is_own:
            return True
        if not self.python.exists():
            return False
        command = [str(self.python), "-P", "-c", f"import {self.module}"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    @property
    def template(self) -> str:
        """The database that is cloned for each trial."""
        return f"installed_{self.module}"

    @property
    def database(self) -> str:
        """The database of the trial that is going on."""
        return f"trial_{self.module}"

    def child(self, role: str, dsn: str, url: str = "") -> list[str | Path]:
        """Return the command of one of its processes."""
        return [self.python, "-m", "bench.jobs.child", self.module, role, dsn, url]


WAKEFUL: Final = System(module=OWN, title="Wakeful", concurrency=100)


@attrs.frozen
class Outcome:
    """What a measurement found: figures by name, and the others' share of the machine meanwhile."""

    values: dict[str, float]
    foreign: float


async def install(cluster: Cluster, system: System, jobs: int) -> None:
    """Make the database that the trials of a system with at most so many jobs start from."""
    if system.is_own:
        issues = jobs + WARM_UP
        cluster.create_world(system.template, Sizes(agents=AGENTS, issues=issues, last_rule=issues))
        return
    cluster.psql("postgres", f"CREATE DATABASE {system.template}")
    async with Child.open(system.child("install", cluster.url(system.template))):
        pass


async def run(
    cluster: Cluster, system: System, measurements: Sequence[tuple[Kind, int]]
) -> dict[Kind, Outcome]:
    """Take measurements, each with so many jobs; `sleepers` alone, for its worker is another one.

    The database is left for a look at it until `forget`.
    """
    cluster.create(system.database, system.template)
    dsn = cluster.url(system.database)
    outcomes = {}
    async with _server(cluster, system) as server:
        url = server.url if server else ""
        async with (
            Child.open(system.child("client", dsn, url)) as client,
            Child.open(
                system.child("worker", dsn, url), first=_orders(system, measurements)
            ) as worker,
        ):
            await worker.tell({"expect": [0, WARM_UP]})
            await client.ask({"paced": [0, WARM_UP], "pause": PAUSE_SECONDS})
            await _finished(worker)
            pids = {"client": client.pid, "worker": worker.pid}
            costs = _Costs(pids | ({"server": server.pid} if server else {}))
            first = WARM_UP
            for kind, jobs in measurements:
                numbers = (first, first + jobs)
                foreign = ForeignShare(costs.root)
                costs.begin()
                await worker.tell({"expect": numbers})
                values = await _MEASURES[kind](client, worker, numbers)
                outcomes[kind] = Outcome(values | costs.read(jobs), foreign.read())
                first += jobs
    return outcomes


def _orders(system: System, measurements: Sequence[tuple[Kind, int]]) -> dict[str, Any]:
    """Return what the worker is told first."""
    orders = {"concurrency": system.concurrency, "sleepers": [0, 0], "seconds": SLEEP_SECONDS}
    for kind, jobs in measurements:
        if kind is Kind.SLEEPERS:
            assert len(measurements) == 1
            orders |= {"concurrency": jobs, "sleepers": [WARM_UP, WARM_UP + jobs]}
    return orders


def forget(cluster: Cluster, system: System) -> None:
    """Drop the database of a trial that is over."""
    cluster.drop(system.database)


class _Costs:
    """The CPU time of each process since `begin`; what is left of all is the database's.

    `root` is the process that runs the server of the database, and whatever else belongs to us.
    """

    def __init__(self, pids: dict[str, int]) -> None:
        self.root = os.getppid()
        self._pids = pids
        self._before: dict[str, float] = {}

    def begin(self) -> None:
        """Count from now on."""
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        each = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        known = sum(each.values()) + time.process_time()
        return each | {"database": cpu_seconds(self.root) - known}

    def read(self, jobs: int) -> dict[str, float]:
        """Return the seconds a job of each, by `cpu` and its name."""
        return {
            f"cpu {name}": (after - self._before[name]) / jobs
            for name, after in self._read().items()
        }


@asynccontextmanager
async def _server(cluster: Cluster, system: System) -> AsyncIterator[Server | None]:
    if not system.is_own:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        async with serving(cluster, system.database, Path(folder)) as server:
            yield server


# --- What is measured ---------------------------------------------------------------------------


async def _latency(client: Child, worker: Child, numbers: tuple[int, int]) -> dict[str, float]:
    asked = {"paced": numbers, "pause": PAUSE_SECONDS}
    committed = (await client.ask(asked, seconds_max=TRIAL_SECONDS_MAX))["committed"]
    started = (await _finished(worker))["started"]
    seconds = [at - since for at, since in zip(started, committed, strict=True)]
    return {"p50": percentile(seconds, 50), "p99": percentile(seconds, 99)}


async def _sleepers(client: Child, worker: Child, numbers: tuple[int, int]) -> dict[str, float]:
    asked = {"burst": numbers, "connections": WRITERS}
    began = (await client.ask(asked, seconds_max=TRIAL_SECONDS_MAX))["began"]
    ended = await _finished(worker)
    return {
        "beyond": ended["done"] - began - SLEEP_SECONDS,
        "started": max(ended["started"]) - began,
    }


async def _timers(client: Child, worker: Child, numbers: tuple[int, int]) -> dict[str, float]:
    asked = {"plan": numbers, "seconds": PLAN_SECONDS}
    planned = await client.ask(asked, seconds_max=TRIAL_SECONDS_MAX)
    due: float = planned["due"]
    assert planned["planned"] < due, "enqueuing took longer than the time to the planned instant"
    started = (await _finished(worker))["started"]
    return {"all": max(started) - due, "first": min(started) - due}


async def _burst(client: Child, worker: Child, numbers: tuple[int, int]) -> dict[str, float]:
    asked = {"burst": numbers, "connections": WRITERS}
    enqueued = await client.ask(asked, seconds_max=TRIAL_SECONDS_MAX)
    jobs = numbers[1] - numbers[0]
    done = (await _finished(worker))["done"]
    return {
        "rate": jobs / (done - enqueued["began"]),
        "enqueued": jobs / (enqueued["ended"] - enqueued["began"]),
    }


async def _finished(worker: Child) -> dict[str, Any]:
    """Return the worker's last answer; each job must have run once."""
    said = await worker.answer(seconds_max=TRIAL_SECONDS_MAX)
    assert not said["doubles"], said["doubles"]
    return said


_MEASURES: Final = {
    Kind.LATENCY: _latency,
    Kind.SLEEPERS: _sleepers,
    Kind.TIMERS: _timers,
    Kind.BURST: _burst,
}
