"""What counts as work while actors, spawned tasks and worker threads run."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from engine import limits
from engine.actors.runtime import Runtime, TrioActor
from engine.actors.spawning import Spawner
from engine.work import LedgerSnapshot, Token, WorkKind, WorkLedger


class _Gate(TrioActor):
    """Holds every message until its gate is open; counts what it has let through."""

    def __init__(self, gate: trio.Event) -> None:
        self.gate = gate
        self.passed = 0

    async def on_receive(self, message: Any) -> int:
        if isinstance(message, trio.Event):
            message.set()
        await self.gate.wait()
        self.passed += 1
        return self.passed


@pytest.fixture
def ledger() -> WorkLedger:
    return WorkLedger()


@pytest.fixture
async def runtime(ledger: WorkLedger) -> AsyncIterator[Runtime]:
    async with Runtime.open(ledger, grace_seconds=1) as runtime:
        runtime.register(_Gate, _Gate)
        yield runtime


# --- Messages -----------------------------------------------------------------------------------


async def test_messages_of_a_paused_actor_are_active(runtime: Runtime, ledger: WorkLedger) -> None:
    """S-072: pause an actor, send 3 messages: active is 3 from the sending on, until handled."""
    gate = trio.Event()
    ref = runtime.ref(_Gate, gate)
    for _ in range(3):
        ref.tell("work")
    assert ledger.active == ledger.active_by_kind()[WorkKind.ACTOR] == 3
    await trio.testing.wait_all_tasks_blocked()
    assert ledger.active == 3
    gate.set()
    await runtime.wait_idle()
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=6)


async def test_idle_actors_hold_nothing(runtime: Runtime, ledger: WorkLedger) -> None:
    """S-072: 50 idle actors: active 0, no task, and no deadline registered in the loop."""
    before = trio.lowlevel.current_statistics()
    for _ in range(50):
        gate = trio.Event()
        gate.set()
        await runtime.ref(_Gate, gate).ask("work")
    await trio.testing.wait_all_tasks_blocked()
    after = trio.lowlevel.current_statistics()
    assert runtime.statistics().resident == runtime.statistics().idle == 50
    assert ledger.active == 0
    assert after.tasks_living == before.tasks_living
    assert after.seconds_to_next_deadline == math.inf


async def test_a_cancelled_asker_ends_no_work(runtime: Runtime, ledger: WorkLedger) -> None:
    """S-067, G-08: the handler of a cancelled ask runs to its end and stays counted until then."""
    gate, entered = trio.Event(), trio.Event()
    ref = runtime.ref(_Gate, gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask(entered)._wait)
        await entered.wait()
        nursery.cancel_scope.cancel()
    assert ledger.active == 1
    gate.set()
    await runtime.wait_idle()
    assert ledger.active == 0
    assert await ref.ask("how many") == 2


async def test_the_answer_is_out_before_the_work_ends(runtime: Runtime, ledger: WorkLedger) -> None:
    """S-072: a message is active until its answer is set, so no moment of quiet lies between."""
    gate = trio.Event()
    ref = runtime.ref(_Gate, gate)
    replies = [ref.ask("work") for _ in range(3)]
    done: list[bool] = []
    ledger.call_when_idle(lambda: done.extend(reply._is_done for reply in replies))
    gate.set()
    await runtime.wait_idle()
    assert done == [True, True, True]


async def test_waiting_for_quiet_sees_work_that_begins_meanwhile(
    runtime: Runtime, ledger: WorkLedger
) -> None:
    """S-077: who waits for quiet goes on waiting when new work begins as the last one ends."""
    first = ledger.begin(WorkKind.DETACHED)
    later: list[Token] = []
    quiet = trio.Event()

    def follow_up() -> None:
        if not later:
            later.append(ledger.begin(WorkKind.CLEANUP_CAPTURE))

    ledger.call_when_idle(follow_up)

    async def wait() -> None:
        await runtime.wait_idle()
        quiet.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        first.finish()
        await trio.testing.wait_all_tasks_blocked()
        assert not quiet.is_set()
        assert ledger.active == 1
        later[0].finish()
    assert quiet.is_set()


# --- Spawned tasks ------------------------------------------------------------------------------


async def test_spawned_work_outlives_a_caller_that_raises(
    runtime: Runtime, ledger: WorkLedger
) -> None:
    """S-071: the token begins at once; the task runs and counts although its caller died."""
    leave, ended = trio.Event(), trio.Event()

    async def detached(result: trio.Event) -> None:
        await leave.wait()
        result.set()

    def caller() -> None:
        runtime.spawn(detached, ended, kind=WorkKind.DETACHED, name="observe")
        assert ledger.active_by_kind()[WorkKind.DETACHED] == 1
        raise LookupError

    with pytest.raises(LookupError):
        caller()
    await trio.testing.wait_all_tasks_blocked()
    assert [token.name for token in ledger.open_tokens()] == ["observe"]
    leave.set()
    await ended.wait()
    await runtime.wait_idle()
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=2)


async def test_a_failing_spawned_task_is_counted_and_harms_nobody(
    runtime: Runtime, ledger: WorkLedger
) -> None:
    """S-071: an error of a spawned task is logged and counted, and everything else goes on."""

    async def fail() -> None:
        raise LookupError("lost")

    with structlog.testing.capture_logs() as logs:
        runtime.spawn(fail, kind=WorkKind.USAGE_CAPTURE, name="usage")
        await runtime.wait_idle()
    assert [(log["event"], log["kind"], log["name"]) for log in logs] == [
        ("spawned_task_failed", "usage_capture", "usage")
    ]
    assert runtime.statistics().spawned_failed == 1
    assert ledger.active == 0


async def test_spawning_an_undeclared_kind_starts_nothing(
    runtime: Runtime, ledger: WorkLedger
) -> None:
    """S-068: a spawn of an undeclared kind raises in the caller and no task starts."""
    before = trio.lowlevel.current_statistics().tasks_living
    with pytest.raises(ValueError, match="gardening"):
        runtime.spawn(trio.sleep_forever, kind="gardening", name="x")  # type: ignore[arg-type]  # the fault
    assert trio.lowlevel.current_statistics().tasks_living == before
    assert ledger.generation == 0


async def test_a_spawn_that_cannot_start_leaves_no_count(ledger: WorkLedger) -> None:
    """S-071: when the nursery is closed already, the spawn raises and its token has ended."""
    async with trio.open_nursery() as nursery:
        pass
    with pytest.raises(RuntimeError):
        Spawner(ledger, nursery).spawn(trio.sleep_forever, kind=WorkKind.DETACHED, name="late")
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=2)


# --- Worker threads -----------------------------------------------------------------------------


async def test_a_thread_returns_and_raises_to_its_caller(
    runtime: Runtime, ledger: WorkLedger
) -> None:
    """S-069: a blocking call gives back its result or its error, counted while it ran."""

    def counted(number: int) -> tuple[int, int]:
        return number, ledger.active_by_kind()[WorkKind.BACKUP]

    assert await runtime.run_sync(counted, 7, kind=WorkKind.BACKUP) == (7, 1)
    with pytest.raises(ZeroDivisionError):
        await runtime.run_sync(divmod, 1, 0)
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=4)


async def test_an_abandoned_thread_stays_counted(runtime: Runtime, ledger: WorkLedger) -> None:
    """S-069: a blocking call that nobody waits for any more is active until it has returned."""
    entered, leave = trio.Event(), threading.Event()

    def block() -> None:
        trio.from_thread.run_sync(entered.set)
        leave.wait()

    async with trio.open_nursery() as nursery:

        async def call() -> None:
            await runtime.run_sync(block, abandon_on_cancel=True)

        nursery.start_soon(call)
        await entered.wait()
        nursery.cancel_scope.cancel()
    assert ledger.active_by_kind()[WorkKind.THREAD] == 1
    leave.set()
    await runtime.wait_idle()
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=2)


async def test_a_wait_for_a_free_thread_counts_and_can_be_cancelled(
    ledger: WorkLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-069: a call that waits for a free thread is active; cancelled there, it runs nothing."""
    monkeypatch.setattr(limits, "WORKER_THREADS_MAX", 1)
    entered, leave, ran = trio.Event(), threading.Event(), list[str]()

    def block() -> None:
        trio.from_thread.run_sync(entered.set)
        leave.wait()

    async with Runtime.open(ledger) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(runtime.run_sync, block)
        await entered.wait()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(runtime.run_sync, ran.append, "never")
                await trio.testing.wait_all_tasks_blocked()
                assert ledger.active == 2
                scope.cancel()
        assert ledger.active == 1
        leave.set()
    assert ran == []
    assert ledger.active == 0
