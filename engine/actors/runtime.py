"""Pykka actors on Trio: addresses, awaitable answers, and the runtime that owns their tasks.

Pykka's actor class is made to be given other runtimes. Here a message starts a Trio task that ends
when the inbox is empty, so an idle actor costs its instance and little else. What Pykka does by
blocking is an error; proxies, derived futures and calls from other threads are left out.

Actors are reached by address, a kind and a key, and an address never dies: the instance is made
when a message arrives, replaced when it fails (`supervision`), and leaves memory when others need
the place (`residency`). Without a database the same seed gives the same schedule under Trio's
deterministic hook.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

import attrs
import pykka
import trio

from engine import limits
from engine.actors.answers import BLOCKS, Answer
from engine.actors.postoffice import PostOffice, until_idle
from engine.actors.registry import RefTable
from engine.actors.residency import NOBODY, Actor, Asked, Kind, Residency, Resident
from engine.actors.spawning import Args, Spawner, T
from engine.actors.supervision import Tally
from engine.work import WorkKind, WorkLedger

A = TypeVar("A", bound="TrioActor")


# Pykka keeps its actors in a class attribute and offers no other way to replace the list.
pykka.ActorRegistry._actor_refs = RefTable(pykka.ActorRegistry._actor_refs)  # type: ignore[assignment]  # noqa: SLF001


class Reply(Answer, pykka.Future[Any]):
    """An answer in Pykka's clothes, without what Pykka derives from futures."""

    __slots__ = ()

    def set_exception(self, exc_info: Any = None) -> None:
        """Answer with the error of `exc_info`, or with the one that is being treated."""
        error = (exc_info or sys.exc_info())[1]
        assert error is not None
        self.fail(error)

    def set_get_hook(self, func: object) -> NoReturn:  # noqa: ARG002 - Pykka's signature
        """Refuse: derived futures are left out."""
        raise RuntimeError("derived futures are left out of this runtime")


class Ref(pykka.ActorRef[Any]):
    """The address of an actor: its kind and key, valid as long as the runtime.

    It stays valid when the instance fails, stops or leaves memory: the next message makes a fresh
    one. `kind` and `resident` are the runtime's own. Only for the loop's thread.
    """

    __slots__ = ("_office", "actor_class", "key", "kind", "resident")

    def __init__(
        self, office: PostOffice, actor_class: type[TrioActor], kind: Kind, key: Hashable
    ) -> None:
        self._office = office
        self.actor_class = actor_class
        self.kind = kind
        self.key = key
        self.resident = NOBODY

    @property
    def actor_urn(self) -> str:  # type: ignore[override]  # a string for each would cost too much
        """The address in one string."""
        return f"urn:wakeful:{self.kind.name}:{self.key}"

    def is_alive(self) -> bool:
        """Tell whether the address has an actor in memory; a message reaches it either way."""
        return self.key in self.kind.residents

    def tell(self, message: Any) -> None:
        """Put a message in the inbox.

        Raises:
            WakefulError: `overloaded` when the inbox is full, `stopping` once the runtime stops.
        """
        self._office.send(self, message)

    def ask(self, message: Any, timeout: float | None = None, *, block: bool = False) -> Reply:
        """Put a message in the inbox now and return its answer, to be awaited.

        The answer is what the handler returns or raises; `unanswered` after `timeout` seconds,
        `stopping` when the runtime stopped first, `internal_error` when the actor was given up.

        Raises:
            WakefulError: like `tell`.
        """
        if block:
            raise RuntimeError(BLOCKS)
        task = self.resident.task
        assert task is None or task is not trio.lowlevel.current_task(), "it would wait for itself"
        reply = Reply(timeout)
        self._office.send(self, Asked(message, reply))
        return reply

    def stop(  # type: ignore[override]  # as `ask`
        self, *, block: bool = False, timeout: float | None = None
    ) -> Reply:
        """Stop the instance after what was sent before; the answer tells whether there was one.

        What was sent afterwards goes to a fresh instance.
        """
        if block:
            raise RuntimeError(BLOCKS)
        reply = Reply(timeout)
        self._office.send_stop(self, reply)
        return reply

    def proxy(self) -> NoReturn:
        """Refuse: proxies are left out."""
        raise RuntimeError("proxies are left out of this runtime; tell or ask")


if TYPE_CHECKING:  # Pykka types its hooks as never async, which no subclass may widen
    Base = abc.ABC
else:
    Base = pykka.Actor


class TrioActor(Base):
    """An actor whose hooks may be plain or `async def`; one of them runs at a time.

    A handler that awaits delays the messages behind it: asking in a circle waits for ever, so give
    such asks a timeout. Pykka's `__init__` is left out (it makes a thread event and a URN), and
    the address is known from `on_start` on.
    """

    inbox_max: ClassVar[int] = limits.INBOX_MAX
    _actor_ref: Ref

    def __init__(self) -> None: ...

    def bind(self, ref: Ref) -> None:
        """Let the instance know its address; called by the runtime."""
        self._actor_ref = ref

    @property
    def actor_ref(self) -> Ref:
        """The address of this instance."""
        return self._actor_ref

    @property
    def actor_urn(self) -> str:
        """The address in one string."""
        return self._actor_ref.actor_urn

    @abc.abstractmethod
    def on_receive(self, message: Any) -> Any:
        """Handle one message; what it returns, or its coroutine does, answers an ask.

        An error of a told message, and an AssertionError always, has the actor restarted; any
        other error of an asked message is the answer.
        """

    def on_start(self) -> Awaitable[None] | None:
        """Prepare a fresh instance before its first message; an error counts as a failure."""
        return None

    def on_stop(self) -> Awaitable[None] | None:
        """Say goodbye when passivated or stopped; a failure or a cancellation leaves it out."""
        return None

    def on_failure(
        self,
        exception_type: type[BaseException] | None,  # noqa: ARG002 - for those who override it
        exception_value: BaseException | None,  # noqa: ARG002 - likewise
        traceback: TracebackType | None,  # noqa: ARG002 - likewise
    ) -> Awaitable[None] | None:
        """Clean up after an error that ends this instance; another one follows."""
        return None

    def stop(self) -> None:
        """Stop this instance after the messages that are waiting."""
        self._actor_ref.stop()

    @classmethod
    def start(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: an actor starts with its first message."""
        raise RuntimeError("actors have addresses: Runtime.ref(kind, key).tell(message)")

    def _start_actor_loop(self) -> NoReturn:
        self.start()

    @staticmethod
    def _create_actor_inbox() -> NoReturn:
        raise RuntimeError("the inbox belongs to the address")

    @staticmethod
    def _create_future() -> Reply:
        return Reply()


@attrs.frozen(kw_only=True)
class Statistics:
    """What a runtime has in memory, and what it has seen since it was opened."""

    resident: int
    idle: int
    spawned_failed: int
    tally: Tally


class Runtime:
    """Owns the actors of one loop, their tasks and everything that outlives a caller."""

    def __init__(self, ledger: WorkLedger, nursery: trio.Nursery, max_resident: int) -> None:
        self._ledger = ledger
        self._kinds: dict[type[TrioActor], Kind] = {}
        self._residency = Residency(max_resident)
        self._spawner = Spawner(ledger, nursery)
        self.office = PostOffice(
            ledger,
            nursery,
            self._residency,
            register=_register,
            unregister=_unregister,
            stops_silently=_stops_silently,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        ledger: WorkLedger,
        *,
        max_resident: int = limits.RESIDENT_ACTORS_MAX,
        grace_seconds: float = limits.STOP_GRACE_SECONDS,
    ) -> AsyncIterator[Self]:
        """Run actors inside the block; leaving it drains all work that `ledger` counts (S-077).

        After `grace_seconds`, or when the block raises, what is still running is cancelled: its
        inboxes are dropped and recorded, and pending asks fail with `stopping`. A token that the
        caller itself holds while it leaves the block is waited for like any other.
        """
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            runtime = cls(ledger, nursery, max_resident)
            try:
                yield runtime
                await runtime.office.drain(grace_seconds)
            except Exception as error:  # noqa: BLE001 - raised below, outside of the nursery's group
                failure = error
            finally:
                runtime.office.close()
        if failure is not None:
            raise failure

    def register(self, kind: type[A], factory: Callable[[Any], A]) -> None:
        """Have `factory(key)` make the instances of `kind` whenever a message needs one."""
        assert kind not in self._kinds, kind
        self._kinds[kind] = Kind(kind.__name__, factory, kind.inbox_max)

    def ref(self, kind: type[TrioActor], key: Hashable) -> Ref:
        """Return the address of an actor; the actor itself is made when a message arrives."""
        shelf = self._kinds[kind]
        resident = shelf.residents.get(key)
        return Ref(self.office, kind, shelf, key) if resident is None else resident.ref

    def spawn(
        self,
        fn: Callable[[*Args], Awaitable[object]],
        *args: *Args,
        kind: WorkKind,
        name: str,
    ) -> None:
        """Run `fn(*args)` in a task that outlives the caller and is counted until it ends (S-071).

        An error of it is logged and counted. It is waited for when the runtime stops.

        Raises:
            WakefulError: `stopping`.
        """
        self.office.admit()
        self._spawner.spawn(fn, *args, kind=kind, name=name)

    async def run_sync(
        self,
        fn: Callable[[*Args], T],
        *args: *Args,
        kind: WorkKind = WorkKind.THREAD,
        name: str = "",
        abandon_on_cancel: bool = False,
    ) -> T:
        """Run a blocking `fn(*args)` in a worker thread, counted until it returns (S-069).

        With `abandon_on_cancel` a cancelled caller leaves at once; the work stays counted.
        """
        return await self._spawner.run_sync(
            fn, *args, kind=kind, name=name, abandon_on_cancel=abandon_on_cancel
        )

    async def wait_idle(self) -> None:
        """Wait until nothing that the ledger counts is active, messages included."""
        await until_idle(self._ledger)

    def statistics(self) -> Statistics:
        """Return what is in memory now and what happened so far."""
        return Statistics(
            resident=len(self._residency),
            idle=self._residency.idle_count,
            spawned_failed=self._spawner.failed,
            tally=attrs.evolve(self.office.supervisor.tally),
        )


def _register(resident: Resident, actor: Actor) -> None:
    assert isinstance(actor, TrioActor)
    actor.bind(resident.ref)
    pykka.ActorRegistry.register(resident.ref)


def _unregister(resident: Resident) -> None:
    pykka.ActorRegistry.unregister(resident.ref)


def _stops_silently(actor: Actor) -> bool:
    return type(actor).on_stop is TrioActor.on_stop
