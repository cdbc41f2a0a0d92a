"""The daemon: claims the runs of its runtime, several at a time, and carries them out.

It outlives the server: while that is away it tries again, commands that run go on, and what came
of them is reported when the server is back. Back again, the daemon registers anew, which gives it
the runs whose claims were answered to nobody; with runs in hand it waits for their ends first,
because a registration ends what the server thinks is under way (W-110). So it also ends a run of
which the server could take no report at all.

Stopping has three steps: nothing is claimed any more and what runs goes on for a while; then it is
ended and reported as lost, to be tried again; `abandon` leaves everything as it is at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import structlog
import trio

from client import limits
from client.claimed_run import ClaimedRun, Mind, Stop
from client.daemon_api import Claim, DaemonApi
from client.errors import ApiError
from client.execution import Outcome, execute
from client.patience import Pauses
from client.transcript import Transcript

Register: TypeAlias = Callable[[], Awaitable[str]]
"""Registers the daemon and returns the id of its runtime."""

_log = structlog.get_logger(__name__)


class CommandMind:
    """Carries out a claim with a shell command, which acts as the agent through its environment."""

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = dict(environment)
        self._hurry = trio.Event()

    async def __call__(self, claim: Claim, transcript: Transcript) -> Outcome:
        """Hand the prompt to the command; `WAKEFUL_TOKEN` is the credential of the run."""
        acting = {
            "WAKEFUL_TOKEN": claim.token,
            "WAKEFUL_ISSUE": claim.issue,
            "WAKEFUL_RUN": claim.run_id,
            "WAKEFUL_AGENT": claim.agent,
        }
        return await execute(
            self._command,
            prompt=claim.prompt,
            environment=self._environment | acting,
            hear=transcript.write,
            hurry=self._hurry,
        )

    def hurry(self) -> None:
        """From now on a command that is cancelled is killed at once."""
        self._hurry.set()


class Daemon:
    """One registered daemon with one runtime, which may serve many agents."""

    def __init__(
        self,
        api: DaemonApi,
        register: Register,
        mind: Mind,
        *,
        runtime_id: str | None = None,
        max_concurrent: int = limits.CONCURRENT_RUNS,
        grace_seconds: float = limits.GRACE_SECONDS,
    ) -> None:
        """Without a `runtime_id` the daemon registers before its first claim."""
        self._api = api
        self._register = register
        self._mind = mind
        self._runtime_id = runtime_id
        self._owes_registration = runtime_id is None
        self._max_concurrent = max_concurrent
        self._grace_seconds = grace_seconds
        self._in_hand: dict[str, ClaimedRun] = {}
        self._ended: dict[str, trio.Event] = {}
        self._changed = trio.Event()
        self._stop = Stop()
        self._everything = trio.CancelScope()
        self._claiming = trio.CancelScope()
        self.failed_run: str | None = None
        """The id of the latest run whose work ended badly, or whose output was not taken."""
        self.abandoned = 0
        """How many runs were in hand when everything was ended at once."""

    @property
    def is_stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._stop.asked.is_set()

    @property
    def in_hand(self) -> int:
        """How many runs are claimed and not yet reported."""
        return len(self._in_hand)

    async def run(self, *, once: bool = False) -> None:
        """Claim and carry out until `stop`, or with `once` until one run has ended.

        Raises the `ApiError` of a claim that no waiting can mend, such as a revoked token; before
        that all work is ended, and reported as lost where the server still takes that.
        """
        refusal = None
        with self._everything:
            async with trio.open_nursery() as services:
                services.start_soon(self._beat)
                services.start_soon(self._end_after_grace)
                async with trio.open_nursery() as runs:
                    with self._claiming:
                        try:
                            await self._claim_all(runs, once=once)
                        except ApiError as error:
                            refusal = error
                            self._stop.asked.set()
                            self._stop.grace_over.set()
                services.cancel_scope.cancel()
        if refusal is not None:
            raise refusal

    def stop(self) -> None:
        """End soon: claim nothing more, give what runs its grace, report what has ended."""
        self._stop.asked.set()
        self._claiming.cancel()

    def abandon(self) -> None:
        """End at once; the next registration gives back what was under way (W-110)."""
        self.stop()
        self.abandoned = self.in_hand
        self._everything.cancel()

    async def _end_after_grace(self) -> None:
        await self._stop.asked.wait()
        await trio.sleep(self._grace_seconds)
        self._stop.grace_over.set()

    # --- Claiming -----------------------------------------------------------------------------

    async def _claim_all(self, runs: trio.Nursery, *, once: bool) -> None:
        """Fill free slots for ever, with `once` a single one."""
        while True:
            while self.in_hand >= self._max_concurrent:
                await self._changed.wait()
            free = self._max_concurrent - self.in_hand
            claims = await self._next_claims(1 if once else free)
            for claim in claims:
                self._take(claim, runs)
            if claims and once:
                return
            if not claims:  # an answer of nothing may come at once
                await trio.sleep(limits.PAUSE_SECONDS_MIN)

    async def _next_claims(self, most: int) -> Sequence[Claim]:
        """Make one claim, however long the server is away.

        A claim whose answer is lost may have been given runs: a registration is owed. Raises the
        `ApiError` that no waiting can mend.
        """
        pauses = Pauses()
        while True:
            try:
                runtimes = await self._known_runtimes()
                return await self._api.claim(
                    runtimes, max_tasks=most, wait_seconds=self._wait_seconds()
                )
            except ApiError as error:
                if not error.is_passing:
                    raise
                failure = error
            self._owes_registration = True
            await pauses.pause(failure)

    async def _known_runtimes(self) -> Sequence[str]:
        """Return the runtime, registered and alive for a server that was away meanwhile."""
        if self._owes_registration and not self._in_hand:
            before, self._runtime_id = self._runtime_id, await self._register()
            self._owes_registration = False
            _log.info("daemon_registered", runtime=self._runtime_id, before=before)
        assert self._runtime_id is not None, "nothing is in hand before the first registration"
        if self._owes_registration:
            await self._api.heartbeat([self._runtime_id])
        return [self._runtime_id]

    def _wait_seconds(self) -> int:
        if self._owes_registration:
            return limits.CLAIM_WAIT_SECONDS_OWING
        return limits.CLAIM_WAIT_SECONDS

    # --- Carrying out -------------------------------------------------------------------------

    def _take(self, claim: Claim, runs: trio.Nursery) -> None:
        """Begin with a claim; one of a run that is in hand already replaces the older claim."""
        run_id = claim.run_id
        held = ClaimedRun(
            self._api,
            claim,
            self._mind,
            stop=self._stop,
            seconds_between_looks=self._seconds_between_looks,
        )
        older, older_ended = self._in_hand.get(run_id), self._ended.get(run_id)
        if older is not None:
            older.lose()
        self._in_hand[run_id], self._ended[run_id] = held, trio.Event()
        runs.start_soon(self._carry_out, held, self._ended[run_id], older_ended)

    async def _carry_out(
        self, held: ClaimedRun, ended: trio.Event, older_ended: trio.Event | None
    ) -> None:
        """Carry out a claim, after an older one of the same run has ended: never both at once."""
        run_id = held.claim.run_id
        try:
            if older_ended is not None:
                await older_ended.wait()
            await held.carry_out()
            if held.has_failed:
                self.failed_run = run_id
            if held.is_left_behind:
                self._owes_registration = True
        finally:
            ended.set()
            if self._in_hand[run_id] is held:
                del self._in_hand[run_id], self._ended[run_id]
            self._changed.set()
            self._changed = trio.Event()

    def _seconds_between_looks(self) -> float:
        """Return how long each run waits between two questions: many runs ask less often."""
        return max(limits.STATUS_SECONDS, self.in_hand / limits.STATUS_CALLS_PER_SECOND_MAX)

    async def _beat(self) -> None:
        """Say that the daemon is alive, for as long as it is."""
        while True:
            await trio.sleep(limits.HEARTBEAT_SECONDS)
            if self._runtime_id is None:
                continue
            try:
                await self._api.heartbeat([self._runtime_id])
            except ApiError as error:
                _log.warning("heartbeat_failed", code=error.code)
