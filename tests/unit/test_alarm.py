"""The alarm: what it is told while somebody looks, what it retries, and when it sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine import limits
from engine.actors.alarm import Alarm, Bell
from engine.clock import DatabaseClock, VirtualClock

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class Rung:
    """Counts what an alarm rings; plans are carried out at once, unless another engine has them."""

    def __init__(self) -> None:
        self.rings: Counter[Bell] = Counter()
        self.is_first = True
        self.clock = DatabaseClock()
        self.clock.learn(NOON)
        self.alarm = Alarm(self.clock, self._rung, sweep_idle_after=600)

    def _rung(self, bell: Bell) -> None:
        self.rings[bell] += 1
        if bell is Bell.PLAN and self.is_first:
            self.alarm.carried_out()


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
        assert rung.rings[Bell.TIMERS] == 0
        await passes(mock_clock, 1)
        assert rung.rings[Bell.TIMERS] == 1


async def test_what_was_armed_before_a_look_is_the_look_s_to_say(mock_clock: MockClock) -> None:
    """W-119: a look that finds nothing due disarms what was armed before it began."""
    async with ringing(mock_clock) as rung:
        rung.alarm.arm(NOON + timedelta(seconds=2))
        rung.alarm.begin_look()
        rung.alarm.rearm(None)
        await passes(mock_clock, 3)
        assert rung.rings[Bell.TIMERS] == 0


async def test_a_failed_look_is_repeated(mock_clock: MockClock) -> None:
    """W-119: when the timers could not be read the next look comes soon, not never."""
    async with ringing(mock_clock) as rung:
        rung.alarm.begin_look()
        rung.alarm.soon(Bell.TIMERS)
        await passes(mock_clock, limits.RING_PAUSE_SECONDS + 0.2)
        assert rung.rings[Bell.TIMERS] == 1
        await passes(mock_clock, 5)
        assert rung.rings[Bell.TIMERS] == 1


async def test_asking_again_does_not_put_a_sweep_off(mock_clock: MockClock) -> None:
    """W-072: however often a sweep is asked for, it comes."""
    async with ringing(mock_clock) as rung:
        for _ in range(20):
            rung.alarm.soon(Bell.SWEEP)
            await passes(mock_clock, 0.5)
        assert rung.rings[Bell.SWEEP] >= 5


async def test_the_sweep_pauses_and_comes_back(mock_clock: MockClock) -> None:
    """W-074: after ten quiet minutes no sweep comes; a sign of life starts them again."""
    async with ringing(mock_clock) as rung:
        await passes(mock_clock, 700)
        before = rung.rings[Bell.PLAN]
        assert before in range(19, 22)
        await passes(mock_clock, 120)
        assert rung.rings[Bell.PLAN] == before
        rung.alarm.stir()
        await passes(mock_clock, 31)
        assert rung.rings[Bell.PLAN] == before + 1


async def test_a_pause_begins_with_a_plan_that_was_carried_out(mock_clock: MockClock) -> None:
    """W-074: while nobody has carried a plan out since the last sign of life there is no pause.

    W-082: it does not matter which engine did; one that hears of it pauses without trying.
    """
    async with ringing(mock_clock) as rung:
        rung.is_first = False
        await passes(mock_clock, 700)
        assert not rung.alarm.is_idle()
        before = rung.rings[Bell.PLAN]
        await passes(mock_clock, 61)
        assert rung.rings[Bell.PLAN] == before + 2
        rung.alarm.carried_out()
        assert rung.alarm.is_idle()
        await passes(mock_clock, 120)
        assert rung.rings[Bell.PLAN] == before + 2


async def test_a_known_instant_ends_a_pause(mock_clock: MockClock) -> None:
    """W-074: retention and recovery ring at the instants that are known, also in a pause.

    W-082: a plan whose instant has come rings until some engine has carried it out.
    """
    async with ringing(mock_clock) as rung:
        await passes(mock_clock, 650)
        before = rung.rings[Bell.PLAN]
        assert rung.alarm.is_idle()
        rung.alarm.set(Bell.PLAN, NOON + timedelta(seconds=700))
        rung.alarm.set(Bell.RECOVERY, NOON + timedelta(seconds=660))
        await passes(mock_clock, 9)
        assert rung.rings[Bell.RECOVERY] == 0
        await passes(mock_clock, 2)
        assert rung.rings[Bell.RECOVERY] == 1
        assert rung.rings[Bell.PLAN] == before
        rung.is_first = False
        await passes(mock_clock, 100)
        assert rung.rings[Bell.PLAN] == before + 3
        rung.is_first = True
        await passes(mock_clock, 120)
        assert rung.rings[Bell.PLAN] == before + 4


async def test_the_last_plan_before_a_pause_comes_in_time(mock_clock: MockClock) -> None:
    """W-074: the plan that a pause begins with does not wait for the sweep's turn."""
    async with ringing(mock_clock) as rung:
        await passes(mock_clock, 45)
        rung.alarm.stir()
        await passes(mock_clock, 600.5)
        assert rung.alarm.is_idle()


async def test_an_alarm_that_nobody_runs_is_noticed(mock_clock: MockClock) -> None:
    """W-258: it is awake while its task looks at the clock, and not any more 15 s after that."""
    async with ringing(mock_clock) as rung:
        assert rung.alarm.is_awake
        await passes(mock_clock, 20)
        assert rung.alarm.is_awake
    mock_clock.jump(limits.ALARM_LATE_SECONDS)
    assert not rung.alarm.is_awake
    assert not Rung().alarm.is_awake


async def test_the_end_of_a_sweep_is_an_instant(mock_clock: MockClock) -> None:
    """W-258: when a sweep ended is told by the database's clock, wherever it was carried out."""
    rung = Rung()
    assert rung.alarm.last_sweep_at is None
    mock_clock.jump(2)
    rung.alarm.swept()
    assert rung.alarm.last_sweep_at == NOON + timedelta(seconds=2)
    mock_clock.jump(2)
    rung.alarm.carried_out()
    assert rung.alarm.last_sweep_at == NOON + timedelta(seconds=4)
    clock = DatabaseClock()
    assert clock.instant() is None
    assert VirtualClock(NOON).instant() == NOON
