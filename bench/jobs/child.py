"""The far side of a measurement: a process that installs, enqueues or works, as it is told.

`python -m bench.jobs.child SYSTEM ROLE DSN URL` reads one JSON object a line and answers each with
one; instants are those of the monotonic clock, which is one for all processes of a machine.

`install`   answers once the tables are there, and ends.
`client`    `{"paced": [first, last], "pause": seconds}`: one job after the other; answers when each
            was committed. `{"burst": [first, last], "connections": n}`: all at full speed; answers
            when the first call began and the last one ended. `{"plan": [first, last], "seconds":
            s}`: jobs that are due at one instant; answers that instant and when they were there.
`worker`    first `{"concurrency": c, "sleepers": [first, last], "seconds": s}`: works from then on;
            the jobs in that range take so long, all others nothing. Then each `{"expect": [first,
            last]}`: answers once these jobs, and all with lower numbers, are durably done, with
            when each of them started and when that was seen.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bench.jobs.contract import Place, Queue

SYSTEMS: Final = {
    "wakeful": "Wakeful",
    "pgqueuer": "PgQueuer",
    "oban": "Oban",
    "procrastinate": "Procrastinate",
    "dbos": "Dbos",
}
LOOK_SECONDS: Final = 0.005  # between two looks whether all is done, once all has run


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


async def _line() -> dict[str, Any] | None:
    """Return the next question; None once there are no more."""
    line = await asyncio.to_thread(sys.stdin.readline)
    question: dict[str, Any] | None = json.loads(line) if line else None
    return question


# --- The client ---------------------------------------------------------------------------------


async def _enqueue_paced(queue: Queue, numbers: range, pause: float) -> list[float]:
    committed = []
    async with queue.enqueuing(1) as enqueue:
        for number in numbers:
            await enqueue(number)
            committed.append(time.monotonic())
            await asyncio.sleep(pause)
    return committed


async def _enqueue_burst(queue: Queue, numbers: range, connections: int) -> tuple[float, float]:
    waiting = iter(numbers)
    async with queue.enqueuing(connections) as enqueue:

        async def enqueue_all() -> None:
            for number in waiting:
                await enqueue(number)

        began = time.monotonic()
        await asyncio.gather(*(enqueue_all() for _ in range(connections)))
        return began, time.monotonic()


async def _serve_client(queue: Queue) -> None:
    _say({"ready": True})
    while question := await _line():
        match question:
            case {"paced": [first, last], "pause": pause}:
                _say({"committed": await _enqueue_paced(queue, range(first, last), pause)})
            case {"burst": [first, last], "connections": connections}:
                began, ended = await _enqueue_burst(queue, range(first, last), connections)
                _say({"began": began, "ended": ended})
            case {"plan": [first, last], "seconds": seconds}:
                due = await queue.plan(range(first, last), seconds)
                _say({"due": due, "planned": time.monotonic()})
            case other:
                raise AssertionError(other)


# --- The worker ---------------------------------------------------------------------------------


class _Tally:
    """What has run so far."""

    def __init__(self, sleepers: range, seconds: float) -> None:
        self.started: dict[int, float] = {}
        self.doubles = 0
        self._sleepers = sleepers
        self._seconds = seconds
        self._ended = 0
        self._expected = 0
        self._has_run = asyncio.Event()

    async def run(self, number: int) -> None:
        """Do one job."""
        self.doubles += number in self.started
        self.started[number] = time.monotonic()
        if number in self._sleepers:
            await asyncio.sleep(self._seconds)
        self._ended += 1
        if self._ended == self._expected:
            self._has_run.set()

    async def wait_ended(self, count: int) -> None:
        """Return once so many jobs have run."""
        self._expected = count
        self._has_run.clear()
        if self._ended < count:
            await self._has_run.wait()


async def _until_done(queue: Queue) -> None:
    while await queue.unfinished():  # noqa: ASYNC110 - a row tells nobody
        await asyncio.sleep(LOOK_SECONDS)


async def _serve_worker(queue: Queue) -> None:
    asked = await _line()
    assert asked is not None
    tally = _Tally(range(*asked["sleepers"]), asked["seconds"])
    async with queue.working(asked["concurrency"], tally.run):
        _say({"ready": True})
        while question := await _line():
            first, last = question["expect"]
            await tally.wait_ended(last)
            await _until_done(queue)
            done = time.monotonic()
            started = [tally.started[number] for number in range(first, last)]
            _say({"started": started, "done": done, "doubles": tally.doubles})


async def _install(queue: Queue) -> None:
    await queue.install()
    _say({"ready": True})


_ROLES: Final[dict[str, Callable[[Queue], Coroutine[Any, Any, None]]]] = {
    "install": _install,
    "client": _serve_client,
    "worker": _serve_worker,
}


def main() -> None:
    """Be what the arguments say."""
    system, role, dsn, url = sys.argv[1:]
    module = importlib.import_module(f"bench.jobs.{system}")
    queue: Queue = getattr(module, SYSTEMS[system])(Place(dsn=dsn, url=url))
    asyncio.run(_ROLES[role](queue))


if __name__ == "__main__":
    main()
