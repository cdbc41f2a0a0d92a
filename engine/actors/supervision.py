"""The life of a resident at work: one message at a time, failures restarted, leftovers recorded.

A failure never kills an address. The failed message is gone, the messages behind it stay, and a
fresh instance from the kind's factory takes over after a back-off. Too many failures in a short
time drop the inbox as well, and the address starts afresh with its next message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any

import attrs
import structlog
import trio

from engine import limits
from engine.actors.residency import STOP, Actor, Asked, Residency, Resident, Restarts, is_stop
from engine.errors import WakefulError
from engine.work import WorkLedger

log = structlog.get_logger()


@attrs.define
class Tally:
    """What the supervisor has seen so far."""

    created: int = 0
    failed: int = 0  # handlers, hooks and factories that raised; answered asks are not among them
    restarted: int = 0
    given_up: int = 0
    passivated: int = 0
    asks_failed: int = 0
    dropped: int = 0  # messages that no handler finished


class Supervisor:
    """Works through inboxes; here, and not before, failures of actors end.

    `register` binds a fresh instance to its address, `unregister` undoes that, `start` gives an
    idle resident an inbox and a task, `stops_silently` tells that an instance has no `on_stop`.
    """

    def __init__(
        self,
        ledger: WorkLedger,
        residency: Residency,
        *,
        register: Callable[[Resident, Actor], None],
        unregister: Callable[[Resident], None],
        start: Callable[[Resident], deque[Any]],
        stops_silently: Callable[[Actor], bool],
    ) -> None:
        self._ledger = ledger
        self._residency = residency
        self._register = register
        self._unregister = unregister
        self._start = start
        self._stops_silently = stops_silently
        self.tally = Tally()
        self.is_stopping = False

    # --- The task of a resident -----------------------------------------------------------------

    async def work_through(self, resident: Resident) -> None:
        """Handle the messages of `resident` until there are none; then it is idle or gone.

        A message counts as work until its handler has ended and its answer is out (S-072), and
        until the restart that it has caused. Cancellation drops what is left.
        """
        messages = resident.messages
        assert messages is not None
        resident.task = trio.lowlevel.current_task()
        turn = 0
        try:
            while messages:
                if turn == limits.MESSAGES_PER_TURN:
                    turn = 0
                    await trio.lowlevel.checkpoint()
                turn += 1
                message = messages[0]
                actor = resident.actor
                if actor is None and not is_stop(message):
                    if not await self._create_or_recover(resident):
                        self._give_up(resident)
                    continue
                is_well = True
                try:
                    if message.__class__ is Asked:
                        await self._answer(resident, message)
                    else:
                        assert actor is not None
                        result = actor.on_receive(message)
                        if result.__class__ is CoroutineType:
                            await result
                except Exception as error:  # noqa: BLE001 - the supervisor is where failures end
                    is_well = await self._recover(resident, error)
                self._end_message(resident)
                if not is_well:
                    self._give_up(resident)
        except BaseException:  # cancelled, or the process ends: nobody will handle the rest
            self._drop(resident, WakefulError("stopping", "the actors have stopped"))
            raise
        finally:
            self._rest(resident)
        self.make_room()

    def _end_message(self, resident: Resident) -> None:
        messages = resident.messages
        assert messages
        if self.is_stopping and len(messages) == 1 and resident.actor is not None:
            self._ledger.mailbox_began()
            messages.append(Asked(STOP, None))
        messages.popleft()
        self._ledger.mailbox_finished()

    def _rest(self, resident: Resident) -> None:
        resident.task = None
        resident.messages = None
        if resident.actor is None:
            self._residency.leave(resident)
        else:
            self._residency.mark_idle(resident)

    async def _answer(self, resident: Resident, asked: Asked) -> None:
        """Answer one ask; its error is the asker's, unless it says that an invariant is broken."""
        actor, answer = resident.actor, asked.answer
        if asked.message is STOP:
            await self._stop(resident)
            if answer is not None:
                answer.set(True)
            return
        assert actor is not None
        assert answer is not None
        try:
            result = actor.on_receive(asked.message)
            if result.__class__ is CoroutineType:
                result = await result
        except Exception as error:
            self.tally.asks_failed += 1
            answer.fail(error)
            if isinstance(error, AssertionError):
                raise
            if answer.is_abandoned:
                _log_failure("abandoned_ask_failed", resident, error)
        else:
            answer.set(result)

    # --- Instances come and go ------------------------------------------------------------------

    async def _create(self, resident: Resident) -> None:
        actor = resident.kind.factory(resident.key)
        resident.actor = actor
        self._register(resident, actor)
        self.tally.created += 1
        await _maybe(actor.on_start())

    async def _stop(self, resident: Resident) -> None:
        if resident.actor is not None:
            try:
                await _maybe(resident.actor.on_stop())
            except Exception as error:  # noqa: BLE001 - it stops all the same
                self.tally.failed += 1
                _log_failure("actor_stop_failed", resident, error)
            self._unregister(resident)
            resident.actor = None
        self._residency.stay(resident)

    def dismiss(self, resident: Resident) -> None:
        """Make an idle resident leave: at once, or after its `on_stop` in a task of its own."""
        assert resident.messages is None
        assert resident.actor is not None
        if self._stops_silently(resident.actor):
            self._unregister(resident)
            resident.actor = None
            self._residency.leave(resident)
        else:
            self._residency.mark_leaving(resident)
            messages = self._start(resident)
            self._ledger.mailbox_began()
            messages.append(Asked(STOP, None))

    def make_room(self) -> None:
        """Dismiss idle residents, least recently used first, until the rest fits."""
        while (resident := self._residency.surplus()) is not None:
            self.tally.passivated += 1
            self.dismiss(resident)

    # --- Failure --------------------------------------------------------------------------------

    async def _create_or_recover(self, resident: Resident) -> bool:
        try:
            await self._create(resident)
        except Exception as error:  # noqa: BLE001 - the supervisor is where failures end
            return await self._recover(resident, error)
        return True

    async def _recover(self, resident: Resident, failure: Exception) -> bool:
        """Replace the failed instance after a back-off; False when that happens too often.

        While everything stops there is no back-off, and a fresh instance only for messages that
        are still there.
        """
        while True:
            await self._bury(resident, failure)
            if resident.restarts is None:
                resident.restarts = Restarts()
            backoff = resident.restarts.allow(trio.current_time())
            if backoff is None:
                return False
            self.tally.restarted += 1
            if self.is_stopping:
                return True
            await trio.sleep(backoff)
            try:
                await self._create(resident)
            except Exception as error:  # noqa: BLE001 - the supervisor is where failures end
                failure = error
            else:
                return True

    async def _bury(self, resident: Resident, failure: Exception) -> None:
        """Take the failed instance out, if there is one, and let it know why."""
        self.tally.failed += 1
        _log_failure("actor_failed", resident, failure)
        actor = resident.actor
        if actor is None:
            return
        self._unregister(resident)
        resident.actor = None
        try:
            await _maybe(actor.on_failure(type(failure), failure, failure.__traceback__))
        except Exception as error:  # noqa: BLE001 - it is failing already
            _log_failure("actor_failure_hook_failed", resident, error)

    def _give_up(self, resident: Resident) -> None:
        self.tally.given_up += 1
        log.error("actor_given_up", kind=resident.kind.name, key=str(resident.key))
        self._drop(resident, WakefulError("internal_error", "the actor failed too often"))

    def _drop(self, resident: Resident, error: WakefulError) -> None:
        """Take out instance and messages, which end as work once that is recorded (S-072)."""
        messages = resident.messages
        assert messages is not None
        if resident.actor is not None:
            self._unregister(resident)
            resident.actor = None
        dropped = sum(not is_stop(message) for message in messages)
        if dropped:
            self.tally.dropped += dropped
            log.warning(
                "messages_dropped",
                kind=resident.kind.name,
                key=str(resident.key),
                count=dropped,
                code=error.code,
            )
        for message in messages:
            if message.__class__ is Asked and message.answer is not None:
                if message.message is STOP:
                    message.answer.set(True)
                else:
                    message.answer.fail(error)
        count = len(messages)
        messages.clear()
        self._ledger.mailbox_finished(count)


async def _maybe(result: Awaitable[None] | None) -> None:
    if result is not None:
        await result


def _log_failure(event: str, resident: Resident, error: Exception) -> None:
    log.error(event, kind=resident.kind.name, key=str(resident.key), exc_info=error)
