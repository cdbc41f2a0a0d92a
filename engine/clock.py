"""Instants come from the database (W-084); this process only measures how much time has passed.

`DatabaseClock` remembers one reading of the database's clock beside Trio's, to know how long to
sleep. Trio's clock stands still while a machine is suspended and nothing tells when somebody sets
the machine's clock, so a sleeper compares three clocks of the host, without SQL, and reads the
database's anew when they jump against each other.

`VirtualClock` is for a simulation database, whose time stands in a row (W-260): it passes when it
is told and never by itself. Whatever the engine measures in the life of rules and runs (the alarm,
its sweeps, waiting claims, signs of life, barred rules) it measures with the clock that it was
opened with. What guards the process itself (connections, statements, stopping, the short pauses
between retries of a lock) stays on Trio's clock: a real server takes real time.
"""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta
from typing import Final

import trio

JUMP_SECONDS: Final = 0.1  # more than this between two clocks is not drift


class DatabaseClock:
    """What the database's clock shows by now, as far as this process can tell."""

    def __init__(self) -> None:
        self._read_at: float | None = None
        self._now: datetime | None = None

    def learn(self, now: datetime) -> None:
        """Remember a fresh reading of the database's clock."""
        self._now = now
        self._read_at = trio.current_time()

    def seconds_until(self, at: datetime) -> float:
        """Return how long to sleep until `at`, 0 when it has come or nothing was read yet."""
        if self._now is None or self._read_at is None:
            return 0.0
        passed = timedelta(seconds=trio.current_time() - self._read_at)
        return max(0.0, (at - self._now - passed).total_seconds())

    def instant(self) -> datetime | None:
        """Return what the database's clock shows by now, None when nothing was read yet."""
        if self._now is None or self._read_at is None:
            return None
        return self._now + timedelta(seconds=trio.current_time() - self._read_at)

    def current_time(self) -> float:
        """Return seconds that never go back; they compare with each other alone."""
        return trio.current_time()

    async def wait(self, event: trio.Event, until: float) -> None:
        """Wait for `event`, at most until `current_time()` has come to `until`."""
        with trio.move_on_at(until):
            await event.wait()


class VirtualClock(DatabaseClock):
    """A clock that stands still between two readings; for an engine on a simulation database.

    Whoever moves the row of that database calls `learn`, and then `Alarm.ring` of each engine that
    was opened with this clock. A step backwards moves `now`, never `current_time()`.
    """

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._passed = 0.0
        self._waiting: dict[trio.CancelScope, float] = {}

    def learn(self, now: datetime) -> None:
        """Let time be `now`, and end the waits that it ends."""
        self._passed += max(0.0, (now - self.now).total_seconds())
        self.now = now
        for scope, until in self._waiting.items():
            if until <= self._passed:
                scope.cancel()

    def seconds_until(self, at: datetime) -> float:
        """Return the virtual seconds until `at`, 0 when it has come."""
        return max(0.0, (at - self.now).total_seconds())

    def instant(self) -> datetime:
        """Return the virtual instant."""
        return self.now

    def current_time(self) -> float:
        """Return the virtual seconds that have passed so far."""
        return self._passed

    async def wait(self, event: trio.Event, until: float) -> None:
        """Wait for `event`, at most until `learn` has let so much virtual time pass."""
        with trio.CancelScope() as scope:
            if until <= self._passed:
                scope.cancel()
            elif until < math.inf:
                self._waiting[scope] = until
            try:
                await event.wait()
            finally:
                self._waiting.pop(scope, None)


class HostClocks:
    """Notices that the host was suspended or that its clock was set (architecture 7)."""

    def __init__(self) -> None:
        self._last = self._read()

    def have_jumped(self) -> bool:
        """Tell whether the host's clocks went apart since the last call."""
        now, last = self._read(), self._last
        self._last = now
        monotonic = now[0] - last[0]
        return any(
            abs((reading - before) - monotonic) > JUMP_SECONDS
            for reading, before in zip(now[1:], last[1:], strict=True)
        )

    @staticmethod
    def _read() -> tuple[float, float, float]:
        return (
            time.monotonic(),
            time.clock_gettime(time.CLOCK_BOOTTIME),
            time.clock_gettime(time.CLOCK_REALTIME),
        )
