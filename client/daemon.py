"""The daemon: claims the runs of its runtime and carries each out with a command.

It outlives the server: while that is away it tries again, a command that runs goes on, and what
came of it is reported when the server is back. A daemon that is stopped ends its commands and
leaves their runs in flight: registering it again gives them back (W-110).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeAlias, TypeVar

import structlog
import trio

from client import limits
from client.daemon_api import Claim, DaemonApi
from client.errors import ApiError
from client.execution import Outcome, execute

T = TypeVar("T")
Mind: TypeAlias = Callable[[Claim], Awaitable[Outcome]]
"""Carries out a claim and returns how that ended; cancelling it stops what it does."""

_log = structlog.get_logger(__name__)
_RUNNING: Final = "running"
_FAILED: Final = "agent_error"


class CommandMind:
    """Carries out a claim with a shell command, which acts as the agent through its environment."""

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = dict(environment)

    async def __call__(self, claim: Claim) -> Outcome:
        """Hand the prompt to the command; `WAKEFUL_TOKEN` is the credential of the run."""
        acting = {"WAKEFUL_TOKEN": claim.token, "WAKEFUL_ISSUE": claim.issue}
        return await execute(
            self._command, prompt=claim.prompt, environment=self._environment | acting
        )


class Daemon:
    """One registered daemon with one runtime."""

    def __init__(
        self, api: DaemonApi, runtime_id: str, mind: Mind, *, max_concurrent: int = 1
    ) -> None:
        self._api = api
        self._runtimes = [runtime_id]
        self._mind = mind
        self._max_concurrent = max_concurrent
        self._scope = trio.CancelScope()
        self._stopping = trio.Event()
        self._refusal: ApiError | None = None
        self.failed_run: str | None = None
        """The id of the latest run that ended with another exit code than 0."""

    async def run(self, *, once: bool = False) -> None:
        """Claim and carry out until `stop`, or with `once` until one run has ended.

        Raises the `ApiError` of a claim that no waiting can mend, such as a revoked token.
        """
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                await self._claim_all(once=once)
                nursery.cancel_scope.cancel()
        if self._refusal is not None:
            raise self._refusal

    def stop(self) -> None:
        """End soon: claim nothing more, end what runs, report what has ended."""
        self._stopping.set()
        self._scope.cancel()

    async def _beat(self) -> None:
        """Say that the daemon is alive, for as long as it is."""
        while True:
            await trio.sleep(limits.HEARTBEAT_SECONDS)
            try:
                await self._api.heartbeat(self._runtimes)
            except ApiError as error:
                _log.warning("heartbeat_failed", code=error.code)

    async def _claim_all(self, *, once: bool) -> None:
        slots = trio.Semaphore(self._max_concurrent)
        async with trio.open_nursery() as runs:
            while True:
                await slots.acquire()
                claim = await self._next_claim()
                if claim is None:
                    self.stop()
                    return
                runs.start_soon(self._carry_out, claim, slots)
                if once:
                    return

    async def _next_claim(self) -> Claim | None:
        """Wait for a run, however long the server is away; None when it refuses us for good."""
        claim_one = partial(
            self._api.claim, self._runtimes, max_tasks=1, wait_seconds=limits.CLAIM_WAIT_SECONDS
        )
        while True:
            try:
                claims = await patiently(claim_one)
            except ApiError as error:
                self._refusal = error
                return None
            if claims:
                return claims[0]
            await trio.sleep(limits.PAUSE_SECONDS_MIN)  # an answer of nothing may come at once

    async def _carry_out(self, claim: Claim, slots: trio.Semaphore) -> None:
        """Start a claimed run, carry it out, report; a claim that is ours no more is dropped."""
        log = _log.bind(run=claim.run_id, issue=claim.identifier, wakeup=claim.wakeup_id)
        log.info("run_claimed")
        try:
            await self._start(claim)
            outcome = await self._watched(claim)
            if outcome is None:
                log.info("run_withdrawn")
                return
            await self._report(claim, outcome)
            if outcome.exit_code != 0:
                self.failed_run = claim.run_id
            log.info("run_ended", exit_code=outcome.exit_code)
        except ApiError as error:
            log.warning("run_dropped", code=error.code)
        finally:
            slots.release()

    async def _start(self, claim: Claim) -> None:
        """Start the run, with its lease renewed while that takes (W-105)."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_lease, claim)
            refusal = None
            try:
                await patiently(partial(self._api.start, claim))
            except ApiError as error:
                refusal = error
            nursery.cancel_scope.cancel()
        if refusal is not None:
            raise refusal

    async def _keep_lease(self, claim: Claim) -> None:
        while True:
            await trio.sleep(limits.LEASE_RENEW_SECONDS)
            try:
                await self._api.renew_lease(claim.run_id)
            except ApiError as error:  # starting will tell whether the claim is lost
                _log.info("lease_not_renewed", run=claim.run_id, code=error.code)

    async def _watched(self, claim: Claim) -> Outcome | None:
        """Carry out a started run; None when it was stopped from outside, which ends it here."""
        outcome = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, claim, nursery.cancel_scope)
            outcome = await self._executed(claim)
            nursery.cancel_scope.cancel()
        return outcome

    async def _executed(self, claim: Claim) -> Outcome:
        try:
            return await self._mind(claim)
        except OSError as error:
            return Outcome(exit_code=-1, output="", errors=f"the command did not start: {error}")

    async def _watch(self, claim: Claim, work: trio.CancelScope) -> None:
        """Cancel the work once the run is not running any more."""
        while True:
            await trio.sleep(limits.STATUS_SECONDS)
            try:
                status = await self._api.status(claim.run_id)
            except ApiError as error:
                if error.is_passing:
                    continue
                status = error.code
            if status != _RUNNING:
                work.cancel()
                return

    async def _report(self, claim: Claim, outcome: Outcome) -> None:
        """Report how a run ended; a daemon that is stopped takes a little more time for it."""
        with trio.CancelScope(shield=True) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._limit_once_stopping, scope)
                refusal = None
                try:
                    await patiently(partial(self._send_report, claim, outcome))
                except ApiError as error:
                    refusal = error
                nursery.cancel_scope.cancel()
        if refusal is not None:
            raise refusal

    async def _limit_once_stopping(self, scope: trio.CancelScope) -> None:
        await self._stopping.wait()
        scope.deadline = trio.current_time() + limits.REPORT_SECONDS_MAX

    async def _send_report(self, claim: Claim, outcome: Outcome) -> None:
        if outcome.exit_code == 0:
            await self._api.complete(claim, outcome.output)
        else:
            error = outcome.errors.strip() or f"the command ended with {outcome.exit_code}"
            await self._api.fail(claim, error, _FAILED)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while the server is away or busy, with growing pauses; it must be repeatable.

    Raises the `ApiError` that no waiting can mend.
    """
    pause = limits.PAUSE_SECONDS_MIN
    while True:
        try:
            return await call()
        except ApiError as error:
            if not error.is_passing:
                raise
            _log.info("server_away", code=error.code)
        await trio.sleep(pause)
        pause = min(2 * pause, limits.PAUSE_SECONDS_MAX)
