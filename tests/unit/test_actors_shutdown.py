"""The end of a runtime: who may still send, what is drained, and what is recorded as dropped."""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from typing import Any

import pykka
import pytest
import structlog.testing
import trio
import trio.lowlevel
import trio.testing

from engine.actors.runtime import Runtime, TrioActor
from engine.errors import WakefulError
from engine.limits import STOP_GRACE_SECONDS
from engine.work import WorkKind, WorkLedger


class _Worker(TrioActor):
    """Runs the functions that it is sent, plain or async; tells a shared list of its end."""

    def __init__(self, key: str, ends: list[str]) -> None:
        self.key = key
        self.ends = ends

    def on_receive(self, message: Any) -> Any:
        return message(self)

    def on_stop(self) -> None:
        self.ends.append(self.key)


def open_workers(runtime: Runtime) -> list[str]:
    """Register the workers and return the list in which their ends appear."""
    ends: list[str] = []
    runtime.register(_Worker, lambda key: _Worker(key, ends))
    return ends


def nothing(_worker: _Worker) -> None:
    """Be a message without effect."""


async def forever(_worker: _Worker) -> None:
    """Be a message whose handler never ends by itself."""
    await trio.sleep_forever()


async def test_accepted_messages_are_handled_before_the_end() -> None:
    """S-077: leaving the block first works through every inbox, then stops every actor."""
    handled: list[str] = []
    async with Runtime.open(WorkLedger()) as runtime:
        ends = open_workers(runtime)
        await runtime.ref(_Worker, "idle").ask(nothing)
        for key in "ab":
            for _ in range(100):
                runtime.ref(_Worker, key).tell(lambda worker: handled.append(worker.key))
    assert sorted(handled) == ["a"] * 100 + ["b"] * 100
    assert sorted(ends) == ["a", "b", "idle"]
    assert pykka.ActorRegistry.get_all() == []


async def test_work_in_the_drain_may_send_and_spawn_and_nobody_else() -> None:
    """S-077: admission ends for everybody but the work that is under way, down to its children."""
    ledger = WorkLedger()
    draining, refused = trio.Event(), trio.Event()
    codes: list[str] = []
    done: list[str] = []

    async def outsider(runtime: Runtime) -> None:
        await draining.wait()
        for send in (
            runtime.ref(_Worker, "b").tell,
            runtime.ref(_Worker, "b").ask,
            lambda work: runtime.spawn(work, kind=WorkKind.DETACHED, name="late"),
        ):
            with pytest.raises(WakefulError) as caught:
                send(nothing)
            codes.append(caught.value.code)
        refused.set()

    async def insider(_worker: _Worker) -> None:
        await trio.lowlevel.checkpoint()
        draining.set()
        await refused.wait()

        async def child() -> None:
            await runtime.ref(_Worker, "b").ask(lambda worker: done.append(worker.key))
            runtime.spawn(aftermath, kind=WorkKind.DETACHED, name="aftermath")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)

    async def aftermath() -> None:
        done.append("aftermath")

    async with trio.open_nursery() as nursery, Runtime.open(ledger) as runtime:
        ends = open_workers(runtime)
        nursery.start_soon(outsider, runtime)
        runtime.ref(_Worker, "a").tell(insider)
    assert codes == ["stopping"] * 3
    assert done == ["b", "aftermath"]
    assert sorted(ends) == ["a", "b"]
    assert ledger.active == 0


async def test_what_outlasts_the_grace_is_named_and_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S-077: at the end of the grace one log line names the kinds still active; the rest is cut."""
    ledger = WorkLedger()
    answers: list[WakefulError] = []
    start = trio.current_time()

    async def ask(runtime: Runtime) -> None:
        with pytest.raises(WakefulError) as caught:
            await runtime.ref(_Worker, "a").ask(nothing)
        answers.append(caught.value)

    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery, Runtime.open(ledger) as runtime:
            open_workers(runtime)
            runtime.ref(_Worker, "a").tell(forever)
            nursery.start_soon(ask, runtime)
            runtime.spawn(trio.sleep_forever, kind=WorkKind.BACKUP, name="dump")
            await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() - start == STOP_GRACE_SECONDS
    assert [(log["event"], log.get("active"), log.get("count")) for log in logs] == [
        ("stop_grace_exceeded", {"backup": 1, "actor": 2}, None),
        ("messages_dropped", None, 2),
    ]
    assert [error.code for error in answers] == ["stopping"]
    assert runtime.statistics().tally.dropped == 2
    assert ledger.active == 0
    assert pykka.ActorRegistry.get_all() == []


async def test_messages_end_as_work_only_after_their_drop_is_recorded() -> None:
    """S-072: when an inbox is dropped, its messages are active until the drop is in the log."""
    ledger, active_when_logged = WorkLedger(), list[int]()

    def watch(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Any:
        if event["event"] == "messages_dropped":
            active_when_logged.append(ledger.active)
        return event

    structlog.configure(processors=[watch, structlog.processors.KeyValueRenderer()])
    try:
        async with Runtime.open(ledger, grace_seconds=0) as runtime:
            open_workers(runtime)
            ref = runtime.ref(_Worker, "a")
            for _ in range(3):
                ref.tell(forever)
    finally:
        structlog.reset_defaults()
    assert len(active_when_logged) == 1
    assert active_when_logged[0] >= 3
    assert ledger.active == 0


async def test_a_token_of_any_sort_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S-077: the end waits for tokens of any sort, also for one that no task holds any more."""
    ledger = WorkLedger()
    token = ledger.begin(WorkKind.OBSERVATION, "refresh")

    async def finish_later() -> None:
        await trio.sleep(20)  # paced: in virtual time
        token.finish()

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        async with Runtime.open(ledger):
            nursery.start_soon(finish_later)
        assert trio.current_time() - start == 20


async def test_a_block_that_raises_leaves_nothing_behind() -> None:
    """Architecture 2: when the block fails, actors are cancelled and forgotten without a drain."""
    ledger = WorkLedger()
    ends: list[str] = []
    error = LookupError()

    async def fail() -> None:
        async with Runtime.open(ledger) as runtime:
            runtime.register(_Worker, lambda key: _Worker(key, ends))
            await runtime.ref(_Worker, "idle").ask(nothing)
            runtime.ref(_Worker, "busy").tell(forever)
            await trio.testing.wait_all_tasks_blocked()
            runtime.ref(_Worker, "fresh").tell(nothing)
            raise error

    with pytest.raises(LookupError) as caught:
        await fail()
    assert caught.value is error
    assert "idle" not in ends
    assert "busy" not in ends
    assert pykka.ActorRegistry.get_all() == []
    assert ledger.active == 0


async def test_a_closed_runtime_refuses_with_stopping() -> None:
    """S-077: after the end every tell, ask and spawn is refused, and nothing counts."""
    ledger = WorkLedger()
    async with Runtime.open(ledger) as runtime:
        open_workers(runtime)
        ref = runtime.ref(_Worker, "a")
        await ref.ask(nothing)
    generation = ledger.generation
    for call in (
        lambda: ref.tell(nothing),
        lambda: ref.ask(nothing),
        ref.stop,
        lambda: runtime.spawn(trio.sleep_forever, kind=WorkKind.DETACHED, name="x"),
    ):
        with pytest.raises(WakefulError) as caught:
            call()
        assert caught.value.code == "stopping"
    assert ledger.generation == generation


async def test_ten_thousand_actors_stop_without_a_deadline() -> None:
    """Architecture 2: stopping visits every actor once; those without `on_stop` need no task."""

    class Silent(TrioActor):
        def on_receive(self, message: object) -> object:
            return message

    ledger = WorkLedger()
    async with Runtime.open(ledger, grace_seconds=math.inf) as runtime:
        runtime.register(Silent, lambda _key: Silent())
        for key in range(10_000):
            runtime.ref(Silent, key).tell("be there")
        await runtime.wait_idle()
        assert len(pykka.ActorRegistry.get_all()) == 10_000
        generation = ledger.generation
    assert pykka.ActorRegistry.get_all() == []
    assert ledger.generation == generation
