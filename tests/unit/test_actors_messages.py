"""Messages of actors: order, answers, bounds, what is refused, and the registry."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import pykka
import pytest
import trio
import trio.testing

from engine.actors.registry import RefTable
from engine.actors.runtime import Ref, Reply, Runtime, TrioActor
from engine.errors import WakefulError
from engine.work import WorkLedger


class _Worker(TrioActor):
    """Runs the functions that it is sent, plain or async, and keeps what it has seen."""

    inbox_max: ClassVar[int] = 8

    def __init__(self, key: str) -> None:
        self.key = key
        self.seen: list[str] = []

    async def on_start(self) -> None:
        self.seen.append("start")

    def on_receive(self, message: Any) -> Any:
        return message(self)

    async def on_stop(self) -> None:
        self.seen.append("stop")


class _Plain(TrioActor):
    """Answers with its message, without a coroutine and without hooks."""

    def __init__(self, _key: object) -> None: ...

    def on_receive(self, message: object) -> object:
        return message


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime.open(WorkLedger(), grace_seconds=1) as runtime:
        runtime.register(_Worker, _Worker)
        runtime.register(_Plain, _Plain)
        yield runtime


def note(word: str) -> Callable[[_Worker], list[str]]:
    """Return a message that has the worker remember a word and answer with all of them."""

    def run(worker: _Worker) -> list[str]:
        worker.seen.append(word)
        return list(worker.seen)

    return run


async def test_messages_are_handled_in_the_order_sent(runtime: Runtime) -> None:
    """Architecture 1: an actor handles told and asked messages in the order in which they came."""
    ref = runtime.ref(_Worker, "a")
    ref.tell(note("one"))
    ref.tell(note("two"))
    assert await ref.ask(note("three")) == ["start", "one", "two", "three"]


async def test_one_message_at_a_time(runtime: Runtime) -> None:
    """Architecture 1: while a handler awaits, its actor handles nothing else, and others do."""
    entered, leave = trio.Event(), trio.Event()
    during: list[str] = []

    async def slow(worker: _Worker) -> None:
        entered.set()
        await leave.wait()
        during.extend(worker.seen)

    ref, other = runtime.ref(_Worker, "a"), runtime.ref(_Worker, "b")
    ref.tell(slow)
    ref.tell(note("after"))
    await entered.wait()
    assert await other.ask(note("meanwhile")) == ["start", "meanwhile"]
    leave.set()
    assert await ref.ask(note("end")) == ["start", "after", "end"]
    assert during == ["start"]


async def test_an_ask_is_answered_by_plain_and_async_handlers(runtime: Runtime) -> None:
    """Architecture 2: a handler may be plain or async; the answer is what it returns."""

    async def double(worker: _Worker) -> str:
        await trio.lowlevel.checkpoint()
        return worker.key * 2

    assert await runtime.ref(_Worker, "a").ask(double) == "aa"
    assert await runtime.ref(_Plain, 1).ask("echo") == "echo"
    assert await runtime.ref(_Plain, 1).ask(None) is None


async def test_a_typed_error_of_an_ask_passes_unchanged(runtime: Runtime) -> None:
    """Architecture 2: the asker gets the very error that the handler raised; the actor goes on."""
    error = WakefulError("contention", "the rows stayed locked")

    async def fail(_worker: _Worker) -> None:
        raise error

    ref = runtime.ref(_Worker, "a")
    await ref.ask(note("before"))
    with pytest.raises(WakefulError) as caught:
        await ref.ask(fail)
    assert caught.value is error
    assert await ref.ask(note("after")) == ["start", "before", "after"]
    tally = runtime.statistics().tally
    assert (tally.asks_failed, tally.failed, tally.restarted) == (1, 0, 0)


async def test_an_answer_can_be_awaited_later_and_again(runtime: Runtime) -> None:
    """Architecture 2: an ask is under way before it is awaited, and its answer stays."""
    reply = runtime.ref(_Plain, 1).ask("echo")
    await runtime.wait_idle()
    assert await reply == "echo"
    assert await reply == "echo"
    assert reply.get() == "echo"


async def test_an_answer_is_for_one_task_at_a_time(runtime: Runtime) -> None:
    """Architecture 2: a second task that awaits the same answer is told so instead of lost."""
    leave = trio.Event()
    reply = runtime.ref(_Worker, "a").ask(lambda _worker: leave.wait())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reply._wait)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="another task"):
            await reply
        leave.set()


async def test_a_timeout_says_that_the_work_goes_on(
    runtime: Runtime, autojump_clock: trio.testing.MockClock
) -> None:
    """S-067: an ask that takes too long is `unanswered` to the asker; its handler still ends."""
    leave = trio.Event()

    async def slow(worker: _Worker) -> None:
        await leave.wait()
        worker.seen.append("ended")

    ref = runtime.ref(_Worker, "a")
    with pytest.raises(WakefulError) as caught:
        await ref.ask(slow, timeout=5)
    assert caught.value.code == "unanswered"
    leave.set()
    assert await ref.ask(note("next"), timeout=5) == ["start", "ended", "next"]


async def test_a_full_inbox_is_overload(runtime: Runtime) -> None:
    """Style, bound everything: tell and ask raise `overloaded` at the bound, and count nothing."""
    leave = trio.Event()
    ref = runtime.ref(_Worker, "a")
    for _ in range(_Worker.inbox_max):
        ref.tell(lambda _worker: leave.wait())
    generation = runtime._ledger.generation
    for send in (ref.tell, ref.ask):
        with pytest.raises(WakefulError) as caught:
            send(note("too much"))
        assert caught.value.code == "overloaded"
    assert runtime._ledger.generation == generation
    leave.set()
    await runtime.wait_idle()
    assert await ref.ask(note("room again")) == ["start", "room again"]


async def test_asking_oneself_is_an_error(runtime: Runtime) -> None:
    """Architecture 2: an actor that asks itself would wait for ever; it gets an error at once."""

    async def ask_itself(worker: _Worker) -> None:
        await worker.actor_ref.ask(note("never"))

    with pytest.raises(AssertionError, match="wait for itself"):
        await runtime.ref(_Worker, "a").ask(ask_itself)


async def test_blocking_calls_are_errors_in_the_loop(runtime: Runtime) -> None:
    """Architecture 2: whatever blocks in Pykka raises here instead of stopping the loop."""
    ref = runtime.ref(_Plain, 1)
    reply = ref.ask("x")
    blocking: list[Callable[[], object]] = [
        lambda: ref.ask("x", block=True),
        lambda: ref.stop(block=True),
        lambda: reply.get(timeout=1),
        lambda: pykka.get_all([reply]),
        lambda: reply.map(str).get(),
        ref.proxy,
        _Plain.start,
    ]
    for call in blocking:
        with pytest.raises(RuntimeError):
            call()
    assert await reply == "x"
    with pytest.raises(RuntimeError):
        pykka.ActorRegistry.stop_all()


async def test_parts_of_pykka_that_have_no_place_here_refuse(runtime: Runtime) -> None:
    """Architecture 2: an actor has no loop or inbox of its own; a future takes Pykka's exc_info."""
    actor = _Plain(1)
    for call in (actor._create_actor_inbox, actor._start_actor_loop):
        with pytest.raises(RuntimeError):
            call()
    reply = actor._create_future()
    reply.set_exception((LookupError, LookupError(), None))
    with pytest.raises(LookupError):
        await reply


async def test_other_threads_are_refused(runtime: Runtime) -> None:
    """Architecture 2: no other thread reaches an actor, so that its counts need no lock."""
    refs = [runtime.ref(_Plain, 1), runtime.ref(_Plain, 2)]
    await refs[0].ask("resident")
    errors: list[BaseException] = []

    def intrude() -> None:
        for call in (refs[0].tell, refs[0].ask, refs[1].tell):
            try:
                call("x")
            except RuntimeError as error:
                errors.append(error)

    thread = threading.Thread(target=intrude)  # noqa: TID251 - the intruder
    thread.start()
    thread.join()
    assert len(errors) == 3
    assert runtime._ledger.active == 0


async def test_stop_ends_the_instance_after_what_was_sent_before(runtime: Runtime) -> None:
    """Architecture 2: stop lets earlier messages be handled; later ones meet a fresh instance."""
    ref = runtime.ref(_Worker, "a")
    before = ref.ask(note("before"))
    stopped = ref.stop()
    after = ref.ask(note("after"))
    assert await before == ["start", "before"]
    assert await stopped is True
    assert await after == ["start", "after"]
    assert runtime.statistics().tally.created == 2


async def test_an_actor_can_stop_itself(runtime: Runtime) -> None:
    """Architecture 2: an actor that stops itself says goodbye and leaves memory and registry."""
    seen: list[list[str]] = []

    def leave(worker: _Worker) -> None:
        seen.append(worker.seen)
        worker.stop()

    ref = runtime.ref(_Worker, "a")
    ref.tell(leave)
    await runtime.wait_idle()
    assert seen == [["start", "stop"]]
    assert not ref.is_alive()
    assert await ref.stop() is False
    assert runtime.statistics().resident == 0


async def test_the_registry_knows_who_is_in_memory(runtime: Runtime) -> None:
    """Architecture 2: Pykka's registry finds, broadcasts to and stops the actors in memory."""
    refs = [runtime.ref(_Plain, number) for number in range(3)]
    assert pykka.ActorRegistry.get_all() == []
    for ref in refs:
        await ref.ask("be there")
    assert pykka.ActorRegistry.get_by_class_name("_Plain") == refs
    assert pykka.ActorRegistry.get_by_urn("urn:wakeful:_Plain:1") is refs[1]
    pykka.ActorRegistry.broadcast("hello", "_Plain")
    assert runtime._ledger.active == 3
    for reply in pykka.ActorRegistry.stop_all(block=False):
        assert isinstance(reply, Reply)
        assert await reply is True
    assert pykka.ActorRegistry.get_all() == []


async def test_an_address_is_one_thing_however_it_was_made(runtime: Runtime) -> None:
    """Architecture 2: references to one kind and key, made before or after, reach one instance."""
    early, twin = runtime.ref(_Worker, "a"), runtime.ref(_Worker, "a")
    await early.ask(note("early"))
    await twin.ask(note("twin"))
    late = runtime.ref(_Worker, "a")
    assert await late.ask(note("late")) == ["start", "early", "twin", "late"]
    assert runtime.statistics().resident == 1
    assert str(late) == "_Worker (urn:wakeful:_Worker:a)"


def test_unregistering_does_not_scan() -> None:
    """Architecture 2: the registry's table never compares references, so stopping is linear."""

    class Compared:
        count = 0

        def __eq__(self, other: object) -> bool:
            Compared.count += 1
            return self is other

        __hash__ = object.__hash__

    refs = [Compared() for _ in range(1_000)]
    table = RefTable(refs)
    for ref in reversed(refs):
        assert ref in table
        table.remove(ref)
    assert len(table) == 0
    assert list(table) == table[:] == []
    assert Compared.count <= 10  # two hashes may fall together by chance
    assert isinstance(pykka.ActorRegistry._actor_refs, RefTable)


async def test_who_wakes_an_actor_lends_it_no_context(runtime: Runtime) -> None:
    """Architecture 2: an actor's task runs in the runtime's context, not in a request's."""
    request = contextvars.ContextVar("request", default="none")
    request.set("r-1")
    assert await runtime.ref(_Worker, "a").ask(lambda _worker: request.get()) == "none"


async def test_an_actor_knows_its_address(runtime: Runtime) -> None:
    """Architecture 2: from its first hook on, an actor can hand out its own address."""
    ref = runtime.ref(_Worker, "a")
    own = await ref.ask(lambda worker: (worker.actor_ref, worker.actor_urn))
    assert own == (ref, "urn:wakeful:_Worker:a")
    assert isinstance(own[0], Ref)
