"""Actors that fail: restarts, back-off, the limit, and that no message or count is lost by it."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Never

import pykka
import pytest
import structlog.testing
import trio
import trio.testing
from trio.testing import MockClock

from engine.actors.runtime import Runtime, TrioActor
from engine.errors import WakefulError
from engine.limits import RESTART_BACKOFF_SECONDS_MIN, RESTART_WINDOW_SECONDS, RESTARTS_MAX
from engine.work import WorkKind, WorkLedger

BACKOFFS = [RESTART_BACKOFF_SECONDS_MIN * 2**number for number in range(RESTARTS_MAX)]


class BoomError(Exception):
    """The fault."""


class _Fragile(TrioActor):
    """Runs the functions that it is sent; what fails in it is kept on the class, as is its life."""

    faults: int
    broken_hooks: set[str]
    life: list[str]

    def __init__(self, key: str) -> None:
        self.fail_in("factory")
        self.key = key
        self.handled: list[str] = []

    @classmethod
    def fail_in(cls, place: str) -> None:
        """Raise the fault if `place` is broken."""
        cls.life.append(place)
        if place in cls.broken_hooks:
            cls.faults += 1
            raise BoomError(place)

    async def on_start(self) -> None:
        self.fail_in("on_start")

    async def on_stop(self) -> None:
        self.fail_in("on_stop")

    async def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert exception_type is type(exception_value)
        assert traceback is not None
        self.fail_in("on_failure")

    def on_receive(self, message: Any) -> Any:
        return message(self)


def fault(actor: _Fragile) -> Never:
    """Be a message whose handler fails."""
    actor.life.append("fault")
    type(actor).faults += 1
    raise BoomError


def hello(actor: _Fragile) -> list[str]:
    """Be a message that is handled, and answer with what this instance has handled."""
    actor.handled.append("hello")
    return list(actor.handled)


@pytest.fixture
def ledger() -> WorkLedger:
    return WorkLedger()


@pytest.fixture
async def runtime(ledger: WorkLedger) -> AsyncIterator[Runtime]:
    _Fragile.faults, _Fragile.broken_hooks, _Fragile.life = 0, set(), []
    with structlog.testing.capture_logs():
        async with Runtime.open(ledger, grace_seconds=5) as runtime:
            runtime.register(_Fragile, _Fragile)
            yield runtime
    assert ledger.active == 0
    assert pykka.ActorRegistry.get_all() == []


async def test_a_failed_tell_restarts_the_actor_and_keeps_its_inbox(
    runtime: Runtime, autojump_clock: MockClock
) -> None:
    """Architecture 2: after a fault a fresh instance goes on with the waiting messages."""
    ref = runtime.ref(_Fragile, "a")
    assert await ref.ask(hello) == ["hello"]
    ref.tell(fault)
    replies = [ref.ask(hello) for _ in range(3)]
    assert [len(await reply) for reply in replies] == [1, 2, 3]
    assert _Fragile.faults == 1
    assert _Fragile.life == ["factory", "on_start", "fault", "on_failure", "factory", "on_start"]
    tally = runtime.statistics().tally
    assert (tally.failed, tally.restarted, tally.created, tally.dropped) == (1, 1, 2, 0)


async def test_the_restart_is_eager_and_counted_as_work(
    runtime: Runtime, autojump_clock: MockClock, ledger: WorkLedger
) -> None:
    """S-072: an actor comes back without being asked, and is active until it has."""
    ref = runtime.ref(_Fragile, "a")
    ref.tell(fault)
    await trio.testing.wait_all_tasks_blocked()
    assert _Fragile.faults == 1
    assert ledger.active_by_kind()[WorkKind.ACTOR] == 1
    await runtime.wait_idle()
    assert _Fragile.life[-2:] == ["factory", "on_start"]
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == math.inf
    assert pykka.ActorRegistry.get_all() == [ref]


async def test_the_back_off_doubles(runtime: Runtime, autojump_clock: MockClock) -> None:
    """Architecture 2: between a fault and the next instance lies a back-off that doubles."""
    ref = runtime.ref(_Fragile, "a")
    start = trio.current_time()
    waited = []
    for _ in range(RESTARTS_MAX):
        before = trio.current_time()
        ref.tell(fault)
        await runtime.wait_idle()
        waited.append(trio.current_time() - before)
    assert waited == pytest.approx(BACKOFFS)
    assert trio.current_time() - start == pytest.approx(sum(BACKOFFS))
    assert _Fragile.faults == RESTARTS_MAX


async def test_too_many_faults_drop_the_inbox_and_answer_its_askers(
    runtime: Runtime, autojump_clock: MockClock, ledger: WorkLedger
) -> None:
    """Architecture 2: past the limit the actor stops and askers are told; then it starts afresh."""
    ref = runtime.ref(_Fragile, "a")
    for _ in range(RESTARTS_MAX + 1):
        ref.tell(fault)
    reply = ref.ask(hello)
    ref.tell(hello)
    with pytest.raises(WakefulError) as caught:
        await reply
    assert caught.value.code == "internal_error"
    assert _Fragile.faults == RESTARTS_MAX + 1
    assert not ref.is_alive()
    assert ledger.active == 0
    tally = runtime.statistics().tally
    assert (tally.restarted, tally.given_up, tally.dropped) == (RESTARTS_MAX, 1, 2)
    assert pykka.ActorRegistry.get_all() == []
    assert await runtime.ref(_Fragile, "a").ask(hello) == ["hello"]
    assert await ref.ask(hello) == ["hello", "hello"]


async def test_old_faults_are_forgiven(runtime: Runtime, autojump_clock: MockClock) -> None:
    """Architecture 2: only restarts inside the window count towards the limit and the back-off."""
    ref = runtime.ref(_Fragile, "a")
    for _ in range(3 * RESTARTS_MAX):
        before = trio.current_time()
        ref.tell(fault)
        await runtime.wait_idle()
        assert trio.current_time() - before == pytest.approx(BACKOFFS[0])
        await trio.sleep(RESTART_WINDOW_SECONDS)  # paced: in virtual time
    assert _Fragile.faults == 3 * RESTARTS_MAX
    assert runtime.statistics().tally.given_up == 0


async def test_a_failed_ask_restarts_nothing(runtime: Runtime, autojump_clock: MockClock) -> None:
    """Architecture 2: an operating error of an asked message is the asker's alone."""
    ref = runtime.ref(_Fragile, "a")
    await ref.ask(hello)
    with pytest.raises(BoomError):
        await ref.ask(fault)
    assert _Fragile.faults == 1
    assert await ref.ask(hello) == ["hello", "hello"]
    assert runtime.statistics().tally.restarted == 0


async def test_a_broken_invariant_restarts_also_when_asked(
    runtime: Runtime, autojump_clock: MockClock
) -> None:
    """Architecture 2: an AssertionError reaches the asker and has the actor restarted as well."""
    ref = runtime.ref(_Fragile, "a")
    await ref.ask(hello)

    def break_invariant(_actor: _Fragile) -> None:
        raise AssertionError("two claims")

    with pytest.raises(AssertionError, match="two claims"):
        await ref.ask(break_invariant)
    assert await ref.ask(hello) == ["hello"]
    assert runtime.statistics().tally.restarted == 1


async def test_the_error_of_an_abandoned_ask_is_logged(
    runtime: Runtime, autojump_clock: MockClock
) -> None:
    """S-067: when the asker has gone, the error of its handler is not lost without a trace."""
    leave = trio.Event()

    async def fail_late(_actor: _Fragile) -> None:
        await leave.wait()
        _Fragile.faults += 1
        raise BoomError

    with structlog.testing.capture_logs() as logs:
        with trio.move_on_after(1):
            await runtime.ref(_Fragile, "a").ask(fail_late)
        leave.set()
        await runtime.wait_idle()
    assert _Fragile.faults == 1
    assert [log["event"] for log in logs] == ["abandoned_ask_failed"]


@pytest.mark.parametrize("place", ["factory", "on_start"])
async def test_an_actor_that_cannot_start_keeps_its_messages_until_it_can(
    runtime: Runtime, autojump_clock: MockClock, place: str
) -> None:
    """Architecture 2: a factory or on_start that fails is retried like a restart; messages wait."""
    _Fragile.broken_hooks = {place}
    ref = runtime.ref(_Fragile, "a")
    reply = ref.ask(hello)
    await trio.sleep(sum(BACKOFFS[:2]) + 0.01)  # paced: in virtual time
    assert _Fragile.faults == 3
    _Fragile.broken_hooks = set()
    assert await reply == ["hello"]
    assert runtime.statistics().tally.restarted == 3


@pytest.mark.parametrize("place", ["factory", "on_start"])
async def test_an_actor_that_never_starts_is_given_up(
    runtime: Runtime, autojump_clock: MockClock, place: str
) -> None:
    """Architecture 2: past the limit of failed starts the askers are told."""
    _Fragile.broken_hooks = {place}
    with pytest.raises(WakefulError) as caught:
        await runtime.ref(_Fragile, "a").ask(hello)
    assert caught.value.code == "internal_error"
    assert _Fragile.faults == RESTARTS_MAX + 1
    assert runtime.statistics().resident == 0


async def test_a_failing_goodbye_stops_all_the_same(
    runtime: Runtime, autojump_clock: MockClock
) -> None:
    """Architecture 2: an error in on_stop is counted, and the actor is gone."""
    _Fragile.broken_hooks = {"on_stop"}
    ref = runtime.ref(_Fragile, "a")
    await ref.ask(hello)
    assert await ref.stop() is True
    assert _Fragile.faults == 1
    assert not ref.is_alive()
    assert runtime.statistics().tally.failed == 1
    _Fragile.broken_hooks = set()


async def test_a_failing_failure_hook_does_not_prevent_the_restart(
    runtime: Runtime, autojump_clock: MockClock
) -> None:
    """Architecture 2: an error in on_failure is logged, and a fresh instance goes on."""
    _Fragile.broken_hooks = {"on_failure"}
    ref = runtime.ref(_Fragile, "a")
    ref.tell(fault)
    assert await ref.ask(hello) == ["hello"]
    assert _Fragile.faults == 2
    assert runtime.statistics().tally.restarted == 1


async def test_a_crash_loop_ends_with_the_runtime(ledger: WorkLedger) -> None:
    """S-077: while everything stops, a failing actor does not back off or come back idly."""
    _Fragile.faults, _Fragile.broken_hooks, _Fragile.life = 0, set(), []
    with structlog.testing.capture_logs():
        async with Runtime.open(ledger, grace_seconds=math.inf) as runtime:
            runtime.register(_Fragile, _Fragile)
            for _ in range(3):
                runtime.ref(_Fragile, "a").tell(fault)
    assert _Fragile.faults == 3
    assert _Fragile.life.count("factory") == 3
    assert ledger.active == 0


@pytest.mark.parametrize("grace_seconds", [0, math.inf])
async def test_a_stop_is_answered_also_when_the_end_overtakes_it(
    ledger: WorkLedger, grace_seconds: float
) -> None:
    """S-077: who stops an actor that just failed, or is cut at the end, hears that it is gone."""
    _Fragile.faults, _Fragile.broken_hooks, _Fragile.life = 0, set(), []

    async def last(actor: _Fragile) -> None:
        await trio.sleep_forever() if grace_seconds == 0 else fault(actor)

    with structlog.testing.capture_logs():
        async with Runtime.open(ledger, grace_seconds=grace_seconds) as runtime:
            runtime.register(_Fragile, _Fragile)
            ref = runtime.ref(_Fragile, "a")
            ref.tell(last)
            reply = ref.stop()
    assert await reply is True
    assert runtime.statistics().tally.dropped == (grace_seconds == 0)
    assert _Fragile.faults == (grace_seconds != 0)
    assert ledger.active == 0


async def test_a_storm_of_faults_and_cancellations_loses_no_count(
    runtime: Runtime, autojump_clock: MockClock
) -> None:
    """S-066, S-067: after 2,000 asks, a third of them failing and a third given up, active is 0."""
    chance = random.Random(20261130)
    outcomes: dict[str, int] = dict.fromkeys(("answered", "failed", "cancelled", "dropped"), 0)

    async def yielding(actor: _Fragile) -> None:
        for _ in range(chance.randrange(4)):
            await trio.lowlevel.checkpoint()
        hello(actor)

    async def one(key: str, message: Any, patience: float) -> None:
        with trio.move_on_after(patience) as scope:
            try:
                await runtime.ref(_Fragile, key).ask(message)
                outcomes["answered"] += 1
            except BoomError:
                outcomes["failed"] += 1
            except WakefulError:
                outcomes["dropped"] += 1
        outcomes["cancelled"] += scope.cancelled_caught

    async with trio.open_nursery() as nursery:
        for _ in range(2_000):
            message = chance.choice((yielding, hello, fault))
            nursery.start_soon(
                one, chance.choice("abcdefgh"), message, chance.choice((0, math.inf))
            )
            if chance.random() < 0.02:
                runtime.ref(_Fragile, chance.choice("abcdefgh")).tell(fault)
    await runtime.wait_idle()
    assert min(outcomes["answered"], outcomes["failed"], outcomes["cancelled"]) > 100
    assert sum(outcomes.values()) == 2_000
    assert runtime.statistics().idle == runtime.statistics().resident
    assert runtime._ledger.active == 0


async def test_a_storm_of_abandoned_threads_loses_no_count() -> None:
    """S-069: however a hand-over to a thread is cut, its token ends and fn runs at most once."""
    ledger, chance = WorkLedger(), random.Random(1)
    runs: list[int] = []
    cancelled = 0

    async def call(runtime: Runtime, number: int) -> None:
        await runtime.run_sync(runs.append, number, abandon_on_cancel=True)

    async with Runtime.open(ledger) as runtime:
        for number in range(500):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call, runtime, number)
                    for _ in range(chance.randrange(4)):
                        await trio.lowlevel.checkpoint()
                    if number % 2:
                        scope.cancel()
            cancelled += scope.cancelled_caught
        await runtime.wait_idle()
    assert cancelled > 0
    assert len(set(runs)) == len(runs) >= 250
    assert ledger.active == 0
    assert ledger.generation % 2 == 0
