"""Who stays in memory: passivation by count, addresses that outlive it, and what one costs."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable

import pykka
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from engine.actors.runtime import Runtime, TrioActor
from engine.work import WorkLedger

LIFE: list[str] = []


class _Silent(TrioActor):
    """Counts its messages; leaving memory loses the count."""

    def __init__(self, key: object) -> None:
        self.key = key
        self.count = 0

    def on_receive(self, message: object) -> object:
        if isinstance(message, trio.Event):
            return message.wait()
        self.count += 1
        return self.count


class _Polite(_Silent):
    """Says goodbye, which takes as long as its gate is closed."""

    gate: trio.Event

    async def on_start(self) -> None:
        LIFE.append(f"{self.key} starts")

    async def on_stop(self) -> None:
        await self.gate.wait()
        LIFE.append(f"{self.key} stops")


class _Unregistered(_Silent):
    """Has no factory."""


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    LIFE.clear()
    _Polite.gate = trio.Event()
    async with Runtime.open(WorkLedger(), max_resident=2, grace_seconds=1) as runtime:
        runtime.register(_Silent, _Silent)
        runtime.register(_Polite, _Polite)
        yield runtime
        _Polite.gate.set()


def resident(runtime: Runtime, *keys: str) -> list[str]:
    return [key for key in keys if runtime.ref(_Silent, key).is_alive()]


async def test_the_least_recently_used_leaves(runtime: Runtime) -> None:
    """Architecture 2: above the bound the idle actor leaves that was used longest ago."""
    for key in ("a", "b", "a", "c"):
        await runtime.ref(_Silent, key).ask("use")
    assert resident(runtime, "a", "b", "c") == ["a", "c"]
    assert runtime.statistics().tally.passivated == 1
    assert len(pykka.ActorRegistry.get_all()) == 2


async def test_looking_up_an_address_is_no_use(runtime: Runtime) -> None:
    """Architecture 2: a reference alone brings nobody into memory and keeps nobody there."""
    for key in ("a", "b"):
        await runtime.ref(_Silent, key).ask("use")
    runtime.ref(_Silent, "a")
    runtime.ref(_Silent, "nobody")
    await runtime.ref(_Silent, "c").ask("use")
    assert resident(runtime, "a", "b", "c", "nobody") == ["b", "c"]


async def test_references_outlive_passivation(runtime: Runtime) -> None:
    """Architecture 2: a held reference reaches a fresh instance after its actor left memory."""
    held = runtime.ref(_Silent, "a")
    assert [await held.ask("use"), await held.ask("use")] == [1, 2]
    for key in ("b", "c"):
        await runtime.ref(_Silent, key).ask("use")
    assert not held.is_alive()
    assert await held.ask("use") == 1
    assert await runtime.ref(_Silent, "a").ask("use") == 2


async def test_the_busy_stay(runtime: Runtime) -> None:
    """Architecture 2: an actor at work never leaves; the bound is kept as soon as it can be."""
    gates = {key: trio.Event() for key in "abcd"}
    for key, gate in gates.items():
        runtime.ref(_Silent, key).tell(gate)
    await trio.testing.wait_all_tasks_blocked()
    assert runtime.statistics().resident == 4
    assert runtime.statistics().tally.passivated == 0
    for gate in gates.values():
        gate.set()
    await runtime.wait_idle()
    assert runtime.statistics().resident == 2
    assert runtime.statistics().tally.passivated == 2


async def test_a_leaving_actor_says_goodbye_as_counted_work(runtime: Runtime) -> None:
    """S-072: `on_stop` runs when an actor is passivated, and is active until it has ended."""
    for key in ("a", "b", "c"):
        await runtime.ref(_Polite, key).ask("use")
    assert LIFE == ["a starts", "b starts", "c starts"]
    assert runtime._ledger.active == 1
    assert runtime.statistics().tally.passivated == 1
    _Polite.gate.set()
    await runtime.wait_idle()
    assert LIFE[3:] == ["a stops"]
    assert runtime.statistics().resident == 2


async def test_a_message_during_the_goodbye_meets_a_fresh_instance(runtime: Runtime) -> None:
    """Architecture 2: a message to a leaving actor waits for its goodbye and is not lost."""
    refs = [runtime.ref(_Polite, key) for key in ("a", "b", "c")]
    for ref in refs:
        await ref.ask("use")
    late = refs[0].ask("use")
    await trio.testing.wait_all_tasks_blocked()
    assert LIFE[3:] == []
    _Polite.gate.set()
    assert await late == 1
    await runtime.wait_idle()
    assert LIFE[3:] == ["a stops", "a starts", "b stops"]
    assert runtime.statistics().resident == 2


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(0, 4))
def test_the_resident_are_the_last_used(uses: list[int], bound: int) -> None:
    """Architecture 2: used one after the other, the last `max_resident` distinct actors remain."""
    found: list[int] = []

    async def main() -> None:
        async with Runtime.open(WorkLedger(), max_resident=bound) as runtime:
            runtime.register(_Silent, _Silent)
            for key in uses:
                await runtime.ref(_Silent, key).ask("use")
            found.extend(key for key in range(6) if runtime.ref(_Silent, key).is_alive())
            assert runtime.statistics().resident == len(found)

    trio.run(main)
    last_used = list(dict.fromkeys(reversed(uses)))
    assert found == sorted(last_used[:bound])


async def test_an_idle_actor_is_small() -> None:
    """Architecture 2: an idle actor that has worked costs less than 1,500 bytes of memory."""
    count = 2_000
    keys = list(range(count))
    async with Runtime.open(WorkLedger()) as runtime:
        runtime.register(_Silent, _Silent)
        tracemalloc.start()
        try:
            before, _peak = tracemalloc.get_traced_memory()
            for key in keys:
                await runtime.ref(_Silent, key).ask("use")
            after, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert runtime.statistics().idle == count
    assert (after - before) / count < 1_500


async def test_kinds_with_equal_keys_are_different_actors(runtime: Runtime) -> None:
    """Architecture 2: an address is kind and key, so equal keys of two kinds do not meet."""
    _Polite.gate.set()
    assert await runtime.ref(_Silent, "a").ask("use") == 1
    assert await runtime.ref(_Polite, "a").ask("use") == 1
    assert await runtime.ref(_Silent, "a").ask("use") == 2


async def test_a_kind_is_registered_once(runtime: Runtime) -> None:
    """Architecture 2: there is one factory a kind, and an unregistered kind has no addresses."""
    factory: Callable[[object], _Silent] = _Silent
    with pytest.raises(AssertionError):
        runtime.register(_Silent, factory)
    with pytest.raises(KeyError):
        runtime.ref(_Unregistered, "a")
