"""Instants come from the database (W-084); this process only measures how much time has passed.

`DatabaseClock` remembers one reading of the database's clock beside Trio's, to know how long to
sleep. Trio's clock stands still while a machine is suspended and nothing tells when somebody sets
the machine's clock, so a sleeper compares three clocks of the host, without SQL, and reads the
database's anew when they jump against each other.
"""

from __future__ import annotations

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
