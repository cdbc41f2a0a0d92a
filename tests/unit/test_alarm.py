"""The alarm: what it is told while somebody looks, what it retries, and when it sweeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine import limits
from engine.actors.alarm import Alarm
from engine.clock import DatabaseClock

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Rung:
    """Counts what an alarm rings."""

    def __init__(self) -> None:
        self.ticks = 0
        self.sweeps = 0
        self.clock = DatabaseClock()
        self.clock.learn(NOON)
        self.alarm = Alarm(self.clock, self._tick, self._sweep, sweep_idle_after=600)

    def _tick(self) -> None:
        self.ticks += 1

    def _sweep(self) -> None:
        self.sweeps += 1


@asynccontextmanager
async def ringing(mock_clock: MockClock) -> AsyncIterator[Rung]:
    rung = Rung()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rung.alarm.run)
        await wait_all_tasks_blocked()
        yield rung
        nursery.cancel_scope.cancel()


async def passes(mock_clock: MockClock, seconds: float) -> None:
    """Let so much time pass, in steps in which everybody may act."""
    for _ in range(int(seconds * 10)):
        mock_clock.jump(0.1)
        await wait_all_tasks_blocked()


async def test_what_is_armed_during_a_look_is_kept(mock_clock: MockClock) -> None:
    """W-119: a rule that commits while the timers are being read outlives the answer."""
    async with ringing(mock_clock) as rung:
        rung.alarm.begin_look()
        rung.alarm.arm(NOON + timedelta(seconds=2))
        rung.alarm.rearm(NOON + timedelta(hours=1))
        await passes(mock_clock, 1.5)
        assert rung.ticks == 0
        await passes(mock_clock, 1)
        assert rung.ticks == 1


async def test_what_was_armed_before_a_look_is_the_look_s_to_say(mock_clock: MockClock) -> None:
    """W-119: a look that finds nothing due disarms what was armed before it began."""
    async with ringing(mock_clock) as rung:
        rung.alarm.arm(NOON + timedelta(seconds=2))
        rung.alarm.begin_look()
        rung.alarm.rearm(None)
        await passes(mock_clock, 3)
        assert rung.ticks == 0


async def test_a_failed_look_is_repeated(mock_clock: MockClock) -> None:
    """W-119: when the timers could not be read the next look comes soon, not never."""
    async with ringing(mock_clock) as rung:
        rung.alarm.begin_look()
        rung.alarm.tick_soon()
        await passes(mock_clock, limits.TICK_PAUSE_SECONDS + 0.2)
        assert rung.ticks == 1
        await passes(mock_clock, 5)
        assert rung.ticks == 1


async def test_asking_again_does_not_put_a_sweep_off(mock_clock: MockClock) -> None:
    """W-072: however often a sweep is asked for, it comes."""
    async with ringing(mock_clock) as rung:
        for _ in range(20):
            rung.alarm.sweep_soon()
            await passes(mock_clock, 0.5)
        assert rung.sweeps >= 5


async def test_the_sweep_pauses_and_comes_back(mock_clock: MockClock) -> None:
    """W-074: after ten quiet minutes no sweep comes; a sign of life starts them again."""
    async with ringing(mock_clock) as rung:
        await passes(mock_clock, 700)
        before = rung.sweeps
        assert before in range(19, 22)
        await passes(mock_clock, 120)
        assert rung.sweeps == before
        rung.alarm.stir()
        await passes(mock_clock, 31)
        assert rung.sweeps == before + 1
