"""Places of a lane: fairness, bounds, cancellation."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from engine import limits
from engine.errors import WakefulError
from engine.storage.lanes import Lane, LaneLimits, Slots

ONE = LaneLimits(connections=1, statement_ms=1_000)


async def test_places_go_to_the_longest_waiting() -> None:
    """A freed place goes to whoever waits longest; nobody overtakes."""
    slots: Slots[str] = Slots(Lane.API, ONE)
    served: list[int] = []

    async def use(number: int) -> None:
        slot = await slots.acquire()
        served.append(number)
        slots.release(slot)

    held = await slots.acquire()
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(use, number)
            await trio.testing.wait_all_tasks_blocked()
        assert slots.statistics().waiting == 3
        slots.release(held)
    assert served == [0, 1, 2]
    assert (slots.statistics().busy, slots.statistics().units) == (0, 4)


async def test_a_cancelled_waiter_leaves_no_trace() -> None:
    """Cancelling one who waits for a place loses no place and counts no unit."""
    slots: Slots[str] = Slots(Lane.API, ONE)
    held = await slots.acquire()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slots.acquire)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    slots.release(held)
    with trio.CancelScope() as scope:
        scope.cancel()
        await slots.acquire()
    assert scope.cancelled_caught
    assert (slots.statistics().busy, slots.statistics().units) == (0, 1)


async def test_too_many_waiters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound a unit is refused as overload instead of waiting without end."""
    monkeypatch.setattr(limits, "LANE_WAITING_MAX", 1)
    slots: Slots[str] = Slots(Lane.API, ONE)
    await slots.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slots.acquire)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(WakefulError) as refused:
            await slots.acquire()
        assert refused.value.code == "overloaded"
        nursery.cancel_scope.cancel()
