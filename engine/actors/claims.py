"""The desk where daemons wait for runs, and the book of their signs of life. In memory only.

A waiting claim is an event in a line for each of its runtimes: no task of its own, no connection,
no transaction (W-103). It stands in line before it looks at the queue, so a wake cannot fall
between look and wait.

One wake wakes one claim of a runtime's line; the claim that got work wakes the next, because there
may be more. Whoever is woken and leaves without having looked hands the wake on. So a run that is
queued for a runtime with 200 waiting claims costs two looks, not 200.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Final
from uuid import UUID

import attrs
import trio

from engine import limits
from engine.clock import DatabaseClock
from engine.domain.commands.runs import Heartbeat
from engine.domain.principal import Principal
from engine.domain.views.runs import ClaimAttempt, ClaimedRun
from engine.errors import WakefulError

Attempt = Callable[[], Awaitable[ClaimAttempt]]
_NEVER: Final = float("-inf")


class _State(Enum):
    LOOKING = auto()
    WAITING = auto()
    WOKEN = auto()


class _Waiter:
    """One claim; `owes` tells that it was given a wake and has not looked in vain since."""

    __slots__ = ("_event", "owes", "runtime_ids", "state")

    def __init__(self, runtime_ids: Iterable[UUID]) -> None:
        self.runtime_ids = tuple(dict.fromkeys(runtime_ids))
        self.state = _State.LOOKING
        self.owes = False
        self._event = trio.Event()

    def wake(self) -> None:
        self.owes = True
        self.state = _State.WOKEN
        self._event.set()

    def look(self) -> None:
        """A look begins: a wake from now on asks for another one."""
        self.state = _State.LOOKING
        self._event = trio.Event()

    def looked_in_vain(self) -> None:
        """Nothing was there; a wake that came during the look is still owed."""
        self.owes = self.state is _State.WOKEN

    async def wait(self, clock: DatabaseClock, until: float) -> None:
        if self.state is _State.LOOKING:
            self.state = _State.WAITING
        await clock.wait(self._event, until)


class ClaimDesk:
    """Where claims wait for work; one an engine."""

    def __init__(self, clock: DatabaseClock | None = None) -> None:
        self._clock = clock or DatabaseClock()
        self._lines: dict[UUID, dict[_Waiter, None]] = {}
        self._waiters: set[_Waiter] = set()
        self._overhear: Callable[[Iterable[UUID] | None], None] | None = None

    @property
    def waiting(self) -> int:
        """How many claims are at the desk, looking or waiting."""
        return len(self._waiters)

    async def claim(
        self, attempt: Attempt, runtime_ids: Iterable[UUID], wait_seconds: float
    ) -> tuple[ClaimedRun, ...]:
        """Return what `attempt` hands out, trying anew at each wake, at most `wait_seconds` long.

        `attempt` is one transaction; it is tried at once, also when there is no time to wait, and
        again when it met contention. Cancelling a wait leaves nothing behind. Raises what `attempt`
        raises, and `overloaded`.
        """
        if len(self._waiters) >= limits.WAITING_CLAIMS_MAX:
            raise WakefulError("overloaded", "too many claims are waiting")
        deadline = self._clock.current_time() + wait_seconds
        waiter = _Waiter(runtime_ids)
        self._stand_in_line(waiter)
        try:
            while True:
                waiter.look()
                found = await _try(attempt)
                if found.runs:
                    return found.runs
                waiter.looked_in_vain()
                now = self._clock.current_time()
                if found.is_final or now >= deadline:
                    return ()
                await waiter.wait(self._clock, min(deadline, now + _seconds_until_look(found)))
                if self._clock.current_time() >= deadline:
                    return ()
        finally:
            self._leave(waiter)
            if waiter.owes:
                self.wake(waiter.runtime_ids)

    def wake(self, runtime_ids: Iterable[UUID]) -> None:
        """Runs of these runtimes can be claimed now: one waiting claim of each looks again.

        Called after the commit. A claim that is looking right now is asked only if no other waits.
        """
        runtime_ids = tuple(runtime_ids)
        if self._overhear is not None:
            self._overhear(runtime_ids)
        for runtime_id in runtime_ids:
            line = self._lines.get(runtime_id, {})
            chosen = next((each for each in line if each.state is not _State.LOOKING), None)
            chosen = chosen or next(iter(line), None)
            if chosen is not None:
                chosen.wake()

    def overhear(self, call: Callable[[Iterable[UUID] | None], None]) -> None:
        """Have `call` told of every wake, None for all: for daemons that do not wait here."""
        self._overhear = call

    def wake_all(self) -> None:
        """Anything may have been missed: every claim looks again."""
        if self._overhear is not None:
            self._overhear(None)
        for waiter in self._waiters:
            waiter.wake()

    def _stand_in_line(self, waiter: _Waiter) -> None:
        self._waiters.add(waiter)
        for runtime_id in waiter.runtime_ids:
            self._lines.setdefault(runtime_id, {})[waiter] = None

    def _leave(self, waiter: _Waiter) -> None:
        self._waiters.discard(waiter)
        for runtime_id in waiter.runtime_ids:
            line = self._lines[runtime_id]
            del line[waiter]
            if not line:
                del self._lines[runtime_id]


async def _try(attempt: Attempt) -> ClaimAttempt:
    """Run one attempt, and again at once when others held or took what it was about (W-071)."""
    for _ in range(limits.CLAIM_ROUNDS_MAX):
        try:
            found = await attempt()
        except WakefulError as error:
            if error.code != "contention":
                raise
            continue
        if found.runs or found.next_look_at is None or found.next_look_at > found.now:
            return found
    return await attempt()


def _seconds_until_look(found: ClaimAttempt) -> float:
    if found.next_look_at is None:
        return float("inf")
    seconds = (found.next_look_at - found.now).total_seconds()
    return max(seconds, limits.CLAIM_PAUSE_SECONDS_MIN)


@attrs.frozen
class _Sign:
    """Whose sign of life: a token's, for a daemon, of one runtime."""

    token_id: UUID | None
    daemon_id: str
    runtime_id: UUID


class Heartbeats:
    """Keeps signs of life in memory and passes each runtime's on at most once a minute (api.md)."""

    def __init__(self, clock: DatabaseClock | None = None) -> None:
        self._clock = clock or DatabaseClock()
        self._written: dict[_Sign, float] = {}  # in the order of their times

    async def beat(
        self,
        caller: Principal,
        command: Heartbeat,
        write: Callable[[Heartbeat], Awaitable[object]],
    ) -> None:
        """Call `write` with those runtimes of `command` that were not written for a minute, if any.

        What `write` raises passes, and the next sign of life is written again.
        """
        now = self._clock.current_time()
        due = [
            sign
            for sign in (
                _Sign(caller.token_id, command.daemon_id, each) for each in command.runtime_ids
            )
            if now - self._written.get(sign, _NEVER) >= limits.HEARTBEAT_WRITE_SECONDS
        ]
        if command.runtime_ids and not due:
            return
        await write(attrs.evolve(command, runtime_ids=tuple(sign.runtime_id for sign in due)))
        self._forget_before(now - limits.HEARTBEAT_WRITE_SECONDS)
        for sign in due:
            self._written.pop(sign, None)
            self._written[sign] = now

    def _forget_before(self, time: float) -> None:
        while self._written:
            oldest = next(iter(self._written))
            if self._written[oldest] > time:
                return
            del self._written[oldest]
