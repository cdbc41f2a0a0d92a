"""The one sleeper: rings the scheduler at the earliest due time and the janitor for its sweeps.

With nothing due and nothing going on it sleeps without SQL (W-074): only every few seconds it
compares the host's clocks, because Trio's stands still while a machine is suspended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime

import trio

from engine import limits
from engine.clock import DatabaseClock, HostClocks


class Alarm:
    """Calls `tick` when the armed time has come and `sweep` about every 30 s while in use.

    `sweep_idle_after` seconds after the last sign of life the sweep pauses until the next one.
    """

    def __init__(
        self,
        clock: DatabaseClock,
        tick: Callable[[], None],
        sweep: Callable[[], None],
        *,
        sweep_seconds: float = limits.SWEEP_SECONDS,
        sweep_idle_after: float,
    ) -> None:
        self._clock = clock
        self._tick = tick
        self._sweep = sweep
        self._sweep_seconds = sweep_seconds
        self._sweep_idle_after = sweep_idle_after
        self._due: datetime | None = None
        self._armed_meanwhile: datetime | None = None
        self._tick_at = math.inf  # by Trio's clock
        self._changed = trio.Event()
        self._last_sign = trio.current_time()
        self._next_sweep = trio.current_time() + sweep_seconds
        self.next_due: datetime | None = None

    def arm(self, at: datetime) -> None:
        """Ring at `at`, unless it rings before; a time is a sign of life."""
        self.stir()
        if self._armed_meanwhile is None or at < self._armed_meanwhile:
            self._armed_meanwhile = at
        if self._due is None or at < self._due:
            self._set(at)

    def begin_look(self) -> None:
        """Somebody begins to ask what is due next: times armed from now on are news."""
        self._armed_meanwhile = None

    def rearm(self, at: datetime | None) -> None:
        """Ring at `at`, which the look brought back, or at a time that was armed meanwhile."""
        if self._armed_meanwhile is not None:
            at = self._armed_meanwhile if at is None else min(at, self._armed_meanwhile)
        self._set(at)

    def tick_soon(self) -> None:
        """Tick again after a short pause, because the last look failed."""
        self._tick_at = trio.current_time() + limits.TICK_PAUSE_SECONDS
        self._changed.set()

    def sweep_soon(self) -> None:
        """Sweep after a short pause: something was left behind."""
        soon = trio.current_time() + limits.SWEEP_PAUSE_SECONDS
        self._next_sweep = min(self._next_sweep, soon)
        self._last_sign = max(self._last_sign, trio.current_time())
        self._changed.set()

    def _set(self, at: datetime | None) -> None:
        self._due = self.next_due = at
        self._changed.set()

    def stir(self) -> None:
        """Note a sign of life: a notification, a local write, an input that waits."""
        now = trio.current_time()
        if self.is_idle():
            self._next_sweep = now + self._sweep_seconds
            self._changed.set()
        self._last_sign = now

    def is_idle(self) -> bool:
        """Tell whether the sweep pauses."""
        return trio.current_time() - self._last_sign > self._sweep_idle_after

    async def run(self) -> None:
        """Sleep and ring until cancelled."""
        host = HostClocks()
        while True:
            now = trio.current_time()
            is_due = self._due is not None and self._clock.seconds_until(self._due) <= 0
            if is_due or now >= self._tick_at:
                self._due = None if is_due else self._due
                self._tick_at = math.inf
                self._tick()
            if not self.is_idle() and now >= self._next_sweep:
                self._next_sweep = now + self._sweep_seconds
                self._sweep()
            if host.have_jumped():
                self._tick()
            self._changed = trio.Event()
            with trio.move_on_after(self._seconds_to_sleep(now)):
                await self._changed.wait()

    def _seconds_to_sleep(self, now: float) -> float:
        due = math.inf if self._due is None else self._clock.seconds_until(self._due)
        sweep = math.inf if self.is_idle() else max(0.0, self._next_sweep - now)
        retry = max(0.0, self._tick_at - now)
        return min(due, sweep, retry, limits.CLOCK_CHECK_SECONDS)
