"""Who is in memory: residents by address, the idle ones in the order of their last use.

An address is a kind and a key. A resident is what an address has in memory: an instance of its
actor and, while there is something to handle, an inbox. 100,000 of them shall fit beside the rest,
so an idle resident holds no inbox, no task, no timer and no deadline.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol

import attrs
import trio

from engine import limits
from engine.actors.answers import Answer


class Actor(Protocol):
    """What the runtime asks of an actor; `runtime.TrioActor` says what each hook means."""

    def on_start(self) -> Awaitable[None] | None: ...  # noqa: D102 - see TrioActor
    def on_receive(self, message: Any, /) -> Any: ...  # noqa: D102 - see TrioActor
    def on_stop(self) -> Awaitable[None] | None: ...  # noqa: D102 - see TrioActor
    def on_failure(  # noqa: D102 - see TrioActor
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Awaitable[None] | None: ...


STOP: Final = object()  # asked of an actor, it ends the instance after what was sent before


class Asked:
    """A message in an inbox that wants an answer; a told message stands there as it is."""

    __slots__ = ("answer", "message")

    def __init__(self, message: Any, answer: Answer | None) -> None:
        self.message = message
        self.answer = answer


def is_stop(message: Any) -> bool:
    """Tell whether a message in an inbox asks the instance to stop."""
    return message.__class__ is Asked and message.message is STOP


@attrs.define(eq=False)
class Kind:
    """One registered class of actors and its residents by key."""

    name: str
    factory: Callable[[Any], Actor]
    inbox_max: int
    residents: dict[Hashable, Resident] = attrs.field(factory=dict, init=False)


class Restarts:
    """The recent restarts of one actor: how long to back off, and when to give up."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=limits.RESTARTS_MAX)

    def allow(self, now: float) -> float | None:
        """Record one more restart at `now` and return its back-off in seconds.

        The back-off doubles with every restart inside the window. None means that the window is
        full: give up.
        """
        while self._times and self._times[0] <= now - limits.RESTART_WINDOW_SECONDS:
            self._times.popleft()
        recent = len(self._times)
        if recent == limits.RESTARTS_MAX:
            return None
        self._times.append(now)
        return float(limits.RESTART_BACKOFF_SECONDS_MIN * 2**recent)


class Resident:
    """One address in memory.

    `messages` is None exactly while it is idle. The message under way stays at its head until it
    has been handled. `actor` is None before the first message and between failure and restart.
    """

    __slots__ = (
        "actor",
        "is_gone",
        "is_leaving",
        "key",
        "kind",
        "messages",
        "ref",
        "restarts",
        "task",
    )

    def __init__(self, kind: Kind, key: Hashable, ref: Any) -> None:
        self.kind = kind
        self.key = key
        self.ref = ref
        self.actor: Actor | None = None
        self.messages: deque[Any] | None = None
        self.task: trio.lowlevel.Task | None = None
        self.restarts: Restarts | None = None
        self.is_leaving = False
        self.is_gone = False


def _no_factory(_key: Any) -> NoReturn:
    raise AssertionError("nobody lives here")


# What an address points to before its first message.
NOBODY: Final = Resident(Kind("nobody", _no_factory, inbox_max=0), None, None)
NOBODY.is_gone = True


class Residency:
    """The residents of one runtime, and which of them leaves next.

    Passivation is by count, never by time: above `resident_max` the least recently used idle
    resident leaves. Busy ones stay, so the bound can be exceeded by as many as are at work.
    """

    def __init__(self, resident_max: int) -> None:
        assert resident_max >= 0
        self._resident_max = resident_max
        self._idle: OrderedDict[Resident, None] = OrderedDict()
        self._count = 0
        self._leaving = 0

    def __len__(self) -> int:
        return self._count

    @property
    def idle_count(self) -> int:
        """Residents without a task."""
        return len(self._idle)

    def enter(self, kind: Kind, key: Hashable, ref: Any) -> Resident:
        """Give the address a resident, busy from the start."""
        assert key not in kind.residents
        kind.residents[key] = resident = Resident(kind, key, ref)
        self._count += 1
        return resident

    def leave(self, resident: Resident) -> None:
        """Forget a resident that has no instance and no messages any more."""
        assert not resident.is_gone
        assert resident.actor is None
        self.stay(resident)
        resident.is_gone = True
        del resident.kind.residents[resident.key]
        self._idle.pop(resident, None)
        self._count -= 1

    def mark_busy(self, resident: Resident) -> None:
        """Take a resident out of the order of idle ones; its task starts now."""
        self._idle.pop(resident, None)

    def mark_idle(self, resident: Resident) -> None:
        """Make a resident the most recently used of the idle ones; its task has ended."""
        self._idle[resident] = None

    def mark_leaving(self, resident: Resident) -> None:
        """Count a resident as gone although its `on_stop` has yet to run."""
        assert not resident.is_leaving
        resident.is_leaving = True
        self._leaving += 1

    def stay(self, resident: Resident) -> None:
        """Undo `mark_leaving`: the instance has stopped, what comes next is another one."""
        if resident.is_leaving:
            resident.is_leaving = False
            self._leaving -= 1

    def surplus(self) -> Resident | None:
        """Return the idle resident that has to leave now, if there is one."""
        if self._count - self._leaving <= self._resident_max:
            return None
        return next(iter(self._idle), None)

    def newest_idle(self) -> Resident | None:
        """Return the idle resident that was used last, if there is one."""
        return next(reversed(self._idle), None)
