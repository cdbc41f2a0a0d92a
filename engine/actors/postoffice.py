"""From an address to its inbox: who may send, which task handles, and how all of it ends."""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import get_ident
from typing import Any, Final, Protocol

import structlog
import trio

from engine import limits
from engine.actors.answers import Answer
from engine.actors.residency import STOP, Actor, Asked, Kind, Residency, Resident
from engine.actors.supervision import Supervisor
from engine.errors import WakefulError
from engine.work import WorkLedger

log = structlog.get_logger()

NO_THREAD: Final = 0  # no thread has this ident


class Address(Protocol):
    """Where a message goes; `resident` may be an outdated one and is brought up to date here."""

    kind: Kind
    key: Hashable
    resident: Resident


class PostOffice:
    """Puts messages into inboxes and gives every inbox the task that works through it.

    Used by one thread, the loop's. `register` and `unregister` bind instances to addresses,
    `stops_silently` tells that an instance has no `on_stop`.
    """

    def __init__(
        self,
        ledger: WorkLedger,
        nursery: trio.Nursery,
        residency: Residency,
        *,
        register: Callable[[Resident, Actor], None],
        unregister: Callable[[Resident], None],
        stops_silently: Callable[[Actor], bool],
    ) -> None:
        self._ledger = ledger
        self._nursery = nursery
        self._residency = residency
        self._unregister = unregister
        self.supervisor = Supervisor(
            ledger,
            residency,
            register=register,
            unregister=unregister,
            start=self._start,
            stops_silently=stops_silently,
        )
        self._thread = get_ident()
        self._open_in = self._thread  # whoever may send without a closer look: all, then nobody
        self._is_draining = False
        # Tasks start from here: whoever woke an actor lends it none of its own context.
        self._context = contextvars.copy_context()

    # --- Sending --------------------------------------------------------------------------------

    def send(self, address: Address, message: Any) -> None:
        """Count the message, put it in the inbox, and start the task if there is none.

        Raises:
            WakefulError: `overloaded` when the inbox is full, or as `admit`.
        """
        if get_ident() != self._open_in:
            self.admit()
        messages = address.resident.messages
        if messages is None:
            messages = self._inbox(address)
        if len(messages) >= address.kind.inbox_max:
            raise WakefulError("overloaded", f"the inbox of {address.kind.name} is full")
        self._ledger.mailbox_began()
        messages.append(message)

    def send_stop(self, address: Address, answer: Answer) -> None:
        """Have the instance stop after what is in its inbox; answers False if there is none."""
        self.admit()
        if address.key not in address.kind.residents:
            answer.set(False)
            return
        messages = self._inbox(address)
        self._ledger.mailbox_began()
        messages.append(Asked(STOP, answer))

    def admit(self) -> None:
        """Return if the caller may start work: everybody, and during the drain the work itself.

        Raises:
            WakefulError: `stopping`.
            RuntimeError: the caller is in another thread.
        """
        if get_ident() != self._thread:
            raise RuntimeError("actors and spawn are for the loop's own thread")
        if self._open_in == self._thread or (self._is_draining and self._is_own_work()):
            return
        raise WakefulError("stopping", "the actors are stopping")

    def _is_own_work(self) -> bool:
        nursery = trio.lowlevel.current_task().parent_nursery
        while nursery is not None:
            if nursery is self._nursery:
                return True
            nursery = nursery.parent_task.parent_nursery
        return False

    def _inbox(self, address: Address) -> deque[Any]:
        resident = address.resident
        if resident.is_gone:
            known = address.kind.residents.get(address.key)
            resident = known or self._residency.enter(address.kind, address.key, address)
            address.resident = resident
        messages = resident.messages
        if messages is None:
            messages = self._start(resident)
            self.supervisor.make_room()
        return messages

    def _start(self, resident: Resident) -> deque[Any]:
        self._context.run(self._start_task, resident)
        self._residency.mark_busy(resident)
        resident.messages = messages = deque[Any]()
        return messages

    def _start_task(self, resident: Resident) -> None:
        self._nursery.start_soon(self.supervisor.work_through, resident, name=resident.kind.name)

    # --- Ending ---------------------------------------------------------------------------------

    async def drain(self, grace_seconds: float) -> None:
        """Let accepted work end, and every actor stop, for at most `grace_seconds` (S-077).

        From now on only the work itself may send and spawn. What is active after the grace is
        named in one log line, and is not reported as finished.
        """
        self._open_in = NO_THREAD
        self._is_draining = True
        self.supervisor.is_stopping = True
        with trio.move_on_after(grace_seconds) as grace:
            dismissed = 0
            while (resident := self._residency.newest_idle()) is not None:
                self.supervisor.dismiss(resident)
                dismissed += 1
                if dismissed % limits.MESSAGES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
            await until_idle(self._ledger)
        if grace.cancelled_caught:
            counts = self._ledger.active_by_kind().items()
            active = {kind.value: count for kind, count in counts if count}
            log.warning("stop_grace_exceeded", grace_seconds=grace_seconds, active=active)

    def close(self) -> None:
        """Cancel the tasks, which drops their inboxes, and forget idle actors without a goodbye."""
        self._open_in = NO_THREAD
        self._is_draining = False
        self.supervisor.is_stopping = True  # a task that meets no checkpoint ends its actor itself
        self._nursery.cancel_scope.cancel()
        while (resident := self._residency.newest_idle()) is not None:
            self._unregister(resident)
            resident.actor = None
            self._residency.leave(resident)


async def until_idle(ledger: WorkLedger) -> None:
    """Wait until nothing that `ledger` counts is active; the caller must hold no token itself."""
    thread = get_ident()
    loop = trio.lowlevel.current_trio_token()
    idle = trio.Event()

    def wake() -> None:
        if get_ident() == thread:
            idle.set()
        else:
            with suppress(trio.RunFinishedError):
                loop.run_sync_soon(idle.set)

    ledger.call_when_idle(wake)
    try:
        await trio.lowlevel.checkpoint()
        while ledger.active:
            idle = trio.Event()
            if ledger.active:
                await idle.wait()
    finally:
        ledger.forget(wake)
