"""What actors cost: bytes of an idle one, CPU of a told message, time of an ask.

`python bench/actors.py` prints a table and, as its last line, JSON. The comparison is Pykka's own
ThreadingActor: told from the main thread, and asked from a Trio task through a thread, as a program
on Trio would have to. Ratios matter; the absolute figures are the machine's.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
import pykka
import trio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engine.actors.runtime import Runtime, TrioActor
from engine.work import WorkLedger

RESIDENT: Final = 100_000
BATCH: Final = 500  # messages sent before the loop gets its turn, well below the inbox bound
TELLS: Final = 200_000
ASKS: Final = 5_000
ROUNDS: Final = 5  # of each the median


class _Counter(TrioActor):
    """Counts messages, as an actor of one issue would keep its little state."""

    def __init__(self, key: object) -> None:
        self.key = key
        self.count = 0

    async def on_receive(self, _message: object) -> int:
        self.count += 1
        return self.count


class _ThreadCounter(pykka.ThreadingActor):
    """The same on Pykka's threads."""

    def __init__(self, done: threading.Event) -> None:
        super().__init__()
        self.done = done
        self.count = 0

    def on_receive(self, _message: object) -> int:
        self.count += 1
        if self.count % TELLS == 0:
            self.done.set()
        return self.count


@attrs.frozen
class Percentiles:
    """Of one series of times, in microseconds."""

    p50: float
    p99: float


def resident_bytes() -> int:
    """Return the memory of this process that is in use now (RSS)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def percentiles(seconds: list[float]) -> Percentiles:
    """Return the middle and the tail of a series of times in seconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return Percentiles(round(cuts[49] * 1e6, 1), round(cuts[98] * 1e6, 1))


def median(measure_once: Callable[[], float]) -> float:
    """Return the median of some rounds of one measurement."""
    return statistics.median(measure_once() for _ in range(ROUNDS))


async def measure_resident() -> dict[str, float]:
    """Bring many actors into memory, keys included, with one handled message each; stop all."""
    async with Runtime.open(WorkLedger()) as runtime:
        runtime.register(_Counter, _Counter)
        await runtime.ref(_Counter, UUID(int=RESIDENT)).ask("warm up")
        gc.collect()
        before, start = resident_bytes(), time.perf_counter()
        for number in range(RESIDENT):
            runtime.ref(_Counter, UUID(int=number)).tell("be there")
            if number % BATCH == 0:
                await runtime.wait_idle()
        await runtime.wait_idle()
        created = time.perf_counter() - start
        each = (resident_bytes() - before) / RESIDENT
        assert runtime.statistics().resident == RESIDENT
        collected = collection_seconds()
        gc.freeze()
        collected_frozen = collection_seconds()
        start = time.perf_counter()
    stopped = time.perf_counter() - start
    gc.unfreeze()
    return {
        "resident_actors": RESIDENT,
        "resident_bytes_each": round(each),
        "create_and_handle_per_second": round(RESIDENT / created),
        "gc_full_ms": round(collected * 1e3, 3),
        "gc_full_frozen_ms": round(collected_frozen * 1e3, 3),
        "stop_all_seconds": round(stopped, 2),
    }


def collection_seconds() -> float:
    """Return how long one full garbage collection stops everything."""
    start = time.perf_counter()
    gc.collect()
    return time.perf_counter() - start


async def measure_tell() -> float:
    """Return the CPU seconds of one told and counted message, sender and handler."""
    async with Runtime.open(WorkLedger()) as runtime:
        runtime.register(_Counter, _Counter)
        ref = runtime.ref(_Counter, 1)
        start = time.process_time()
        for _ in range(TELLS // BATCH):
            for number in range(BATCH):
                ref.tell(number)
            await runtime.wait_idle()
        spent = time.process_time() - start
        assert await ref.ask("last") == TELLS // BATCH * BATCH + 1
    return spent / TELLS


def measure_thread_tell() -> float:
    """Return the same for Pykka's ThreadingActor."""
    done = threading.Event()
    ref = _ThreadCounter.start(done)
    start = time.process_time()
    for number in range(TELLS):
        ref.tell(number)
    done.wait()
    spent = time.process_time() - start
    ref.stop()
    return spent / TELLS


async def measure_ask() -> Percentiles:
    """Return the round trip of an ask between two tasks."""
    async with Runtime.open(WorkLedger()) as runtime:
        runtime.register(_Counter, _Counter)
        ref = runtime.ref(_Counter, 1)
        return await _asked(lambda: ref.ask("x"))


async def measure_thread_ask() -> Percentiles:
    """Return the round trip of an ask from a Trio task to a ThreadingActor."""
    ref = _ThreadCounter.start(threading.Event())
    try:
        return await _asked(lambda: trio.to_thread.run_sync(ref.ask, "x"))
    finally:
        ref.stop()


async def _asked(ask: Callable[[], Any]) -> Percentiles:
    times = []
    for _ in range(ASKS):
        start = time.perf_counter()
        await ask()
        times.append(time.perf_counter() - start)
    return percentiles(times)


def measure() -> dict[str, object]:
    """Run everything and return the figures by name."""
    figures: dict[str, object] = dict(trio.run(measure_resident))
    tell = median(lambda: trio.run(measure_tell))
    thread_tell = median(measure_thread_tell)
    ask = min((trio.run(measure_ask) for _ in range(ROUNDS)), key=lambda each: each.p50)
    thread_ask = min(
        (trio.run(measure_thread_ask) for _ in range(ROUNDS)), key=lambda each: each.p50
    )
    return figures | {
        "tell_cpu_us": round(tell * 1e6, 2),
        "tell_cpu_us_threading": round(thread_tell * 1e6, 2),
        "tell_cpu_ratio": round(tell / thread_tell, 2),
        "ask_us_p50": ask.p50,
        "ask_us_p99": ask.p99,
        "ask_us_p50_threading": thread_ask.p50,
        "ask_us_p99_threading": thread_ask.p99,
        "ask_ratio": round(ask.p50 / thread_ask.p50, 2),
    }


def main() -> None:
    """Print the figures, one a line, and all of them as JSON on the last line."""
    figures = measure()
    for name, figure in figures.items():
        print(f"{name:32} {figure:>12}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
