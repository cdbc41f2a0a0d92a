"""The one sleeper: rings when a known instant has come, and for the planned jobs about every 30 s.

With nothing due and nothing going on it sleeps without SQL (W-074): only every few seconds it
compares the host's clocks, because Trio's stands still while a machine is suspended.

Engines that share a database share its plans (W-082). `sweep_idle_after` seconds after the last
sign of life the plans pause, as soon as one more of them has been carried out, by whichever engine:
so a pause begins with the knowledge of everything that comes next. It ends when the instant of a
plan comes that was set, until that plan was carried out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto

import trio

from engine import limits
from engine.clock import DatabaseClock, HostClocks


class Bell(Enum):
    """What the alarm rings for."""

    TIMERS = auto()  # the time of a rule has come, or what is due has to be read anew
    PLAN = auto()  # the planned jobs: sweep, retention, recovery of runs
    SWEEP = auto()  # something was left behind, whatever the plan says
    RECOVERY = auto()  # a run can be recovered


class Alarm:
    """Calls `rung` with what has come; see the module."""

    def __init__(
        self,
        clock: DatabaseClock,
        rung: Callable[[Bell], None],
        *,
        sweep_seconds: float = limits.SWEEP_SECONDS,
        sweep_idle_after: float,
    ) -> None:
        self._clock = clock
        self._rung = rung
        self._sweep_seconds = sweep_seconds
        self._sweep_idle_after = sweep_idle_after
        self._armed_meanwhile: datetime | None = None
        self._at: dict[Bell, datetime] = {}  # by the database's clock
        self._changed = trio.Event()
        now = self._clock.current_time()  # as all of these: seconds of that clock
        self._soon: dict[Bell, float] = {}
        self._last_sign = now
        self._next_plan = now + sweep_seconds
        self._tried = self._carried_out = self._owed = -math.inf
        self._rang_at: float | None = None  # by Trio's clock
        self.last_sweep_at: datetime | None = None

    @property
    def next_due(self) -> datetime | None:
        """When the next timer is due, as far as is known."""
        return self._at.get(Bell.TIMERS)

    # --- Timers -------------------------------------------------------------------------------

    def arm(self, at: datetime) -> None:
        """Ring at `at`, unless it rings before; a time is a sign of life."""
        self.stir()
        if self._armed_meanwhile is None or at < self._armed_meanwhile:
            self._armed_meanwhile = at
        if self.next_due is None or at < self.next_due:
            self.set(Bell.TIMERS, at)

    def begin_look(self) -> None:
        """Somebody begins to ask what is due next: times armed from now on are news."""
        self._armed_meanwhile = None

    def rearm(self, at: datetime | None) -> None:
        """Ring at `at`, which the look brought back, or at a time that was armed meanwhile."""
        if self._armed_meanwhile is not None:
            at = self._armed_meanwhile if at is None else min(at, self._armed_meanwhile)
        self.set(Bell.TIMERS, at)

    # --- Everything else ------------------------------------------------------------------------

    def set(self, bell: Bell, at: datetime | None) -> None:
        """Ring at `at` of the database's clock, instead of what was set before."""
        if at is None:
            self._at.pop(bell, None)
        else:
            self._at[bell] = at
        self._changed.set()

    def soon(self, bell: Bell, *, pause: float = limits.RING_PAUSE_SECONDS) -> None:
        """Ring after a short pause: a look failed, or something was left behind."""
        now = self._clock.current_time()
        self._soon[bell] = min(self._soon.get(bell, math.inf), now + pause)
        self._last_sign = max(self._last_sign, now)
        self._changed.set()

    def stir(self) -> None:
        """Note a sign of life: a notification, a local write, an input that waits."""
        now = self._clock.current_time()
        if self.is_idle():
            self._next_plan = now + self._sweep_seconds
            self._changed.set()
        self._last_sign = now

    def carried_out(self) -> None:
        """Take note that a plan was carried out, here or by another engine."""
        self._carried_out = self._clock.current_time()
        self.swept()

    def swept(self) -> None:
        """Take note that a sweep has ended, here or in another engine."""
        self.last_sweep_at = self._clock.instant()

    def is_idle(self) -> bool:
        """Tell whether the plans pause."""
        return self._carried_out >= max(self._last_sign + self._sweep_idle_after, self._owed)

    # --- Ringing --------------------------------------------------------------------------------

    def ring(self) -> None:
        """Ring for whatever has come by now; also called by who has moved a virtual clock."""
        now = self._clock.current_time()
        due = {bell for bell, at in self._at.items() if self._clock.seconds_until(at) <= 0}
        soon = {bell for bell, at in self._soon.items() if at <= now}
        for bell in due:
            del self._at[bell]
        for bell in soon:
            del self._soon[bell]
        rings = due | soon
        if Bell.PLAN in due:
            self._owed = now
        if now >= self._plan_at():
            rings.add(Bell.PLAN)
        if Bell.PLAN in rings:
            self._next_plan = now + self._sweep_seconds
            self._tried = now
        for bell in rings:
            self._rung(bell)

    def _plan_at(self) -> float:
        """Return when to carry out the next plan: every now and then, and once before a pause."""
        if self.is_idle():
            return math.inf
        pause_at = self._last_sign + self._sweep_idle_after
        return self._next_plan if self._tried >= pause_at else min(self._next_plan, pause_at)

    @property
    def is_due(self) -> bool:
        """Whether a known instant has come and nobody was rung for it yet."""
        return any(self._clock.seconds_until(at) <= 0 for at in self._at.values())

    @property
    def is_awake(self) -> bool:
        """Whether somebody looks at the clock again and again: without that, no timer fires."""
        late = limits.ALARM_LATE_SECONDS
        return self._rang_at is not None and trio.current_time() - self._rang_at < late

    def seconds_until_ring(self) -> float:
        """Return how long it takes until something comes that it rings for, if nothing is told."""
        now = self._clock.current_time()
        return min(
            (
                max(0.0, self._plan_at() - now),
                *(self._clock.seconds_until(at) for at in self._at.values()),
                *(max(0.0, at - now) for at in self._soon.values()),
            )
        )

    async def run(self) -> None:
        """Sleep and ring until cancelled."""
        host = HostClocks()
        while True:
            self._rang_at = trio.current_time()
            self.ring()
            if host.have_jumped():
                self._rung(Bell.TIMERS)
            self._changed = trio.Event()
            seconds = min(self.seconds_until_ring(), limits.CLOCK_CHECK_SECONDS)
            await self._clock.wait(self._changed, self._clock.current_time() + seconds)
