"""One claimed run, from its start to its report.

The server decides, this follows: a start that is refused runs nothing, a run that is stopped there
ends its work here, and what came of the work is reported until the server has it (W-113), however
long it is away. Only the word of the server itself ends work; a report that it cannot take, for
whatever reason, becomes a plain failure, so that the run does not stay running.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial
from typing import Final, TypeAlias

import attrs
import structlog
import trio

from client import limits
from client.daemon_api import RUNNING, Claim, DaemonApi
from client.errors import INTERNAL, ApiError
from client.execution import Outcome
from client.patience import Pauses, jittered, patiently
from client.transcript import Transcript

Mind: TypeAlias = Callable[[Claim, Transcript], Awaitable[Outcome]]
"""Carries out a claim and returns how that ended; cancelling it stops what it does."""

_log = structlog.get_logger(__name__)
_FAILED: Final = "agent_error"
_STOPPED: Final = "runtime_recovery"  # tried again, as what a killed daemon leaves behind (W-110)
_UNDELIVERABLE: Final = frozenset(
    ("invalid_input", "body_too_large", "payload_too_large", INTERNAL)
)


@attrs.define(kw_only=True)
class Stop:
    """How far a daemon has got with stopping.

    `asked`: nothing new is begun. `grace_over`: work that still goes on is ended and reported.
    """

    asked: trio.Event = attrs.field(factory=trio.Event)
    grace_over: trio.Event = attrs.field(factory=trio.Event)


class _Left(Enum):
    """Why work was ended before it had ended by itself."""

    WITHDRAWN = auto()  # the run is not ours any more, or was stopped: nothing to report
    STOPPED = auto()  # the daemon stops
    UNWATCHED = auto()  # the server refuses to say whether the run still runs


_LEFT_TEXTS: Final = {
    _Left.STOPPED: "the daemon was stopped while it worked on this run",
    _Left.UNWATCHED: "the daemon was refused the status of this run and ended its work",
}


class ClaimedRun:
    """A claim in hand. `outcome` is how the work ended, None as long as it has not.

    `is_left_behind` once the server could take no report of it: the run stays as it is there, until
    the daemon registers anew (W-110).
    """

    def __init__(
        self,
        api: DaemonApi,
        claim: Claim,
        mind: Mind,
        *,
        stop: Stop,
        seconds_between_looks: Callable[[], float],
    ) -> None:
        """`seconds_between_looks` paces the questions whether the run still runs."""
        self.claim = claim
        self.outcome: Outcome | None = None
        self.is_left_behind = False
        self._is_undelivered = False
        self._api = api
        self._mind = mind
        self._stop = stop
        self._seconds_between_looks = seconds_between_looks
        self._lost = trio.Event()
        self._left: _Left | None = None
        self._log = _log.bind(run=claim.run_id, issue=claim.identifier, wakeup=claim.wakeup_id)

    @property
    def has_failed(self) -> bool:
        """Whether its work ended badly, or what came of it could not be delivered."""
        is_bad = self.outcome is not None and self.outcome.exit_code != 0
        return is_bad or self._is_undelivered

    def lose(self) -> None:
        """End the work and report nothing: the run was handed out again."""
        self._lost.set()

    async def carry_out(self) -> None:
        """Start the run, work, report; a claim that is ours no more is dropped."""
        self._log.info("run_claimed")
        try:
            if not await self._reported(partial(self._api.start, self.claim), keep_lease=True):
                self._log.info("run_left")
                return
            await self._work()
        except ApiError as error:
            self._log.warning("run_dropped", code=error.code)
            self.is_left_behind = error.code == INTERNAL

    async def _work(self) -> None:
        """Do the work of a started run, send its transcript meanwhile, and report.

        The last lines go before the report, unless that takes long; then they follow it.
        """
        transcript = Transcript()
        sent = trio.Event()
        async with trio.open_nursery() as sending:
            sending.start_soon(self._send_transcript, transcript, sent)
            await self._watched(transcript)
            transcript.close()
            with trio.move_on_after(limits.FLUSH_SECONDS_MAX):
                await sent.wait()
            refusal = None
            try:
                await self._report()
            except ApiError as error:
                refusal = error
            sending.cancel_scope.deadline = trio.current_time() + limits.FLUSH_SECONDS_MAX
        if refusal is not None:
            raise refusal

    async def _send_transcript(self, transcript: Transcript, sent: trio.Event) -> None:
        await transcript.send_all(partial(self._api.append, self.claim.run_id))
        sent.set()

    # --- Working ------------------------------------------------------------------------------

    async def _watched(self, transcript: Transcript) -> None:
        """Have the mind work until it ends, or until there is a reason to end it."""
        async with trio.open_nursery() as nursery:
            leave = partial(self._leave, nursery.cancel_scope)
            nursery.start_soon(self._watch, leave)
            nursery.start_soon(_after, self._lost.wait, partial(leave, _Left.WITHDRAWN))
            nursery.start_soon(_after, self._stop.grace_over.wait, partial(leave, _Left.STOPPED))
            self.outcome = await self._executed(transcript)
            nursery.cancel_scope.cancel()

    def _leave(self, work: trio.CancelScope, why: _Left) -> None:
        if self._left is None:
            self._left = why
        work.cancel()

    async def _executed(self, transcript: Transcript) -> Outcome:
        try:
            return await self._mind(self.claim, transcript)
        except OSError as error:
            return Outcome(exit_code=-1, output="", errors=f"the command did not start: {error}")

    async def _watch(self, leave: Callable[[_Left], None]) -> None:
        """Ask whether the run still runs; a server that is away is asked in growing pauses."""
        pauses = Pauses()
        while True:
            await trio.sleep(jittered(self._seconds_between_looks()))
            try:
                status = await self._api.status(self.claim.run_id)
            except ApiError as error:
                if error.is_passing:
                    await pauses.pause(error)
                    continue
                self._log.warning("run_unwatched", code=error.code)
                leave(_Left.UNWATCHED)
                return
            pauses.begin_anew()
            if status != RUNNING:
                leave(_Left.WITHDRAWN)
                return

    # --- Reporting ----------------------------------------------------------------------------

    async def _report(self) -> None:
        """Report how the work ended. Raises the `ApiError` of a refusal."""
        if self.outcome is None and self._left is _Left.WITHDRAWN:
            self._log.info("run_withdrawn")
            return
        try:
            is_answered = await self._reported(self._send_report)
        except ApiError as error:
            if error.code not in _UNDELIVERABLE:
                raise
            self._log.warning("report_undeliverable", code=error.code)
            self._is_undelivered = True
            is_answered = await self._reported(partial(self._send_failure, error))
        if not is_answered:
            self._log.warning("run_unreported")
            return
        if self.outcome is None:
            self._log.info("run_stopped")
        else:
            self._log.info("run_ended", exit_code=self.outcome.exit_code)

    async def _send_report(self) -> None:
        if self.outcome is None:
            assert self._left is not None, "work ends by itself or for a reason"
            await self._api.fail(self.claim, _LEFT_TEXTS[self._left], _STOPPED)
        elif self.outcome.exit_code != 0:
            error = self.outcome.errors.strip()
            error = error or f"the command ended with {self.outcome.exit_code}"
            await self._api.fail(self.claim, error, _FAILED)
        else:
            await self._api.complete(self.claim, self.outcome.output)

    async def _send_failure(self, refusal: ApiError) -> None:
        """Report, in place of what the server could not take, that it could not."""
        text = f"what came of this run could not be delivered: {refusal.message}"
        await self._api.fail(self.claim, text, _STOPPED if self.outcome is None else _FAILED)

    async def _reported(
        self, call: Callable[[], Awaitable[None]], *, keep_lease: bool = False
    ) -> bool:
        """Make a call until the server has answered; False when a stop ended that before.

        Its lease is kept meanwhile for a claim that is not started (W-105). Raises the `ApiError`
        of a refusal.
        """
        is_answered, refusal = False, None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._limit_once_stopping, nursery.cancel_scope)
            if keep_lease:
                nursery.start_soon(self._keep_lease)
            try:
                await patiently(call)
                is_answered = True
            except ApiError as error:
                refusal = error
            nursery.cancel_scope.cancel()
        if refusal is not None:
            raise refusal
        return is_answered

    async def _keep_lease(self) -> None:
        while True:
            await trio.sleep(limits.LEASE_RENEW_SECONDS)
            try:
                await self._api.renew_lease(self.claim.run_id)
            except ApiError as error:  # starting will tell whether the claim is lost
                self._log.info("lease_not_renewed", code=error.code)

    async def _limit_once_stopping(self, scope: trio.CancelScope) -> None:
        await self._stop.asked.wait()
        scope.deadline = trio.current_time() + limits.REPORT_SECONDS_MAX


async def _after(wait: Callable[[], Awaitable[object]], call: Callable[[], None]) -> None:
    await wait()
    call()
