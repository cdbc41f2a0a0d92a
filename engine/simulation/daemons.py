"""Agents and daemons of a simulated world: runs are carried out by a script, in virtual time.

A daemon looks for work as a real one does: when runs are queued for it, when it comes back, and at
the instant that the last look named. It claims, starts at once, and reports when the virtual time
of the work is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import Command
from engine.domain.commands.runs import (
    ClaimRuns,
    CompleteRun,
    FailRun,
    Heartbeat,
    RegisterDaemon,
    RuntimeDraft,
    StartRun,
)
from engine.domain.commands.tracker import CreateComment
from engine.domain.commands.wakeups import CheckIn, CreateRule
from engine.domain.principal import Principal
from engine.domain.rules import RuleDraft
from engine.domain.views.runs import ClaimAttempt, ClaimedRun
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError

if TYPE_CHECKING:
    from engine.simulation.world import World

_MINUTE: Final = timedelta(minutes=1)
# What a daemon hears whose run was cancelled or handed to somebody else meanwhile.
_OVERTAKEN: Final = ("stale_claim", "not_authenticated", "invalid_transition")


@attrs.frozen(kw_only=True, eq=False)
class RunAtWork:
    """A run in the hands of its agent: what the agent does here, it does as itself."""

    run: ClaimedRun
    principal: Principal
    world: World

    async def submit(self, command: Command) -> Any:
        """Ask the engine for any change (`engine.domain.commands`)."""
        return await self.world.submit(self.principal, command)

    async def comment(self, body: str) -> None:
        """Say something on the issue of the run."""
        await self.submit(CreateComment(issue_id=self.run.issue_id, body=body))

    async def add_rule(self, instruction: str, **fields: Any) -> RuleView:
        """Leave a wakeup rule for oneself on the issue; `fields` are those of `RuleDraft`."""
        draft = RuleDraft(instruction=instruction, **fields)
        view: RuleView = await self.submit(CreateRule(issue_id=self.run.issue_id, draft=draft))
        return view

    async def check_in(self, note: str) -> None:
        """Say that the scheduled check behind this run has nothing to report."""
        assert self.run.wakeup_id is not None, "only the run of a wakeup checks in"
        await self.submit(
            CheckIn(issue_id=self.run.issue_id, rule_id=self.run.wakeup_id, note=note)
        )


@attrs.frozen(kw_only=True)
class Work:
    """What becomes of a claimed run: it takes `takes`, then the agent `does` things, and it ends.

    With an `error` it fails, else it completes with `output`. A run that `is_lost` was claimed, but
    its daemon never saw the answer: nothing is reported, and the engine hands it out again.
    """

    takes: timedelta = attrs.field(default=_MINUTE, validator=attrs.validators.gt(timedelta(0)))
    output: str = ""
    error: str | None = None
    does: Callable[[RunAtWork], Awaitable[object]] | None = None
    is_lost: bool = False


Script: TypeAlias = Callable[[ClaimedRun], Work]


@attrs.frozen(kw_only=True, eq=False)
class Agent:
    """An agent; `script` says what becomes of each of its runs."""

    id: UUID
    name: str
    daemon: Daemon
    script: Script


class Daemon:
    """A daemon with one runtime; `World.daemon` makes one. It is online until it goes offline."""

    def __init__(self, world: World, name: str, principal: Principal) -> None:
        self.name = name
        self.is_online = True
        self.runtime_id: UUID
        self.claimed = 0  # runs that it took up
        self.lost = 0  # runs whose claim was lost
        self.refused: list[tuple[UUID, str]] = []  # runs overtaken by events, and the error's code
        self._world = world
        self._principal = principal
        self._next_look_at: datetime | None = None
        self._is_woken = True
        self._owed: list[Callable[[], Awaitable[object]]] = []  # reports that could not be given

    async def register(self) -> None:
        """Start: bind the name, offer the runtime, have the engine recover what was in flight."""
        self._owed.clear()
        view = await self._submit(
            RegisterDaemon(
                daemon_id=self.name, runtimes=(RuntimeDraft(name="main", provider="simulation"),)
            )
        )
        self.runtime_id = view.runtimes[0].id
        self._is_woken = True

    async def go_offline(self, until: datetime | None = None) -> None:
        """Lose the network, until an instant or until `come_back`.

        What it works on goes on; what ends meanwhile is reported when it is back.
        """
        self.is_online = False
        if until is not None:
            self._world.plan(until, self.come_back)

    async def come_back(self, *, restarted: bool = False) -> None:
        """Reach the engine again; `restarted` as a new process, which has forgotten its runs."""
        self.is_online = True
        if restarted:
            await self.register()
        else:
            await self._submit(Heartbeat(daemon_id=self.name, runtime_ids=(self.runtime_id,)))
            await self.catch_up()

    async def catch_up(self) -> None:
        """Report what ended while there was nobody to report to, and look for work."""
        owed, self._owed = self._owed, []
        for report in owed:
            await report()
        self._is_woken = True

    def wake(self) -> None:
        """Something may have been queued: look at the next opportunity."""
        self._is_woken = True

    @property
    def next_look_at(self) -> datetime | None:
        """When looking can help without an event, as the engine said (W-103)."""
        return self._next_look_at if self.is_online else None

    async def look(self) -> bool:
        """Claim and start what there is, if there is a reason to; tell whether there was any."""
        is_time = self._next_look_at is not None and self._next_look_at <= self._world.now
        if not self.is_online or not (self._is_woken or is_time):
            return False
        self._is_woken = False
        found = False
        while runs := await self._claim():
            found = True
            for run in runs:
                await self._take_up(run)
        return found

    async def _claim(self) -> tuple[ClaimedRun, ...]:
        command = ClaimRuns(
            daemon_id=self.name,
            runtime_ids=(self.runtime_id,),
            max_tasks=limits.CLAIM_TASKS_MAX,
        )
        for _ in range(limits.CLAIM_ROUNDS_MAX):
            try:
                attempt: ClaimAttempt = await self._submit(command)
            except WakefulError as error:
                if error.code != "contention":
                    raise
                continue
            self._next_look_at = attempt.next_look_at
            return attempt.runs
        self._is_woken = True
        return ()

    async def _take_up(self, run: ClaimedRun) -> None:
        work = self._world.script_of(run.agent_id)(run)
        if work.is_lost:
            self.lost += 1
            return
        self.claimed += 1
        assert run.dispatched_at is not None
        await self._submit(StartRun(run_id=run.id, dispatched_at=run.dispatched_at))
        self._world.plan(self._world.now + work.takes, partial(self._end, run, work))

    async def _end(self, run: ClaimedRun, work: Work) -> None:
        """Let the agent act, and report; the engine has the last word on whether it still may."""
        if not self.is_online or not self._world.is_running:
            self._owed.append(partial(self._end, run, work))
            return
        try:
            if work.does is not None:
                principal = await self._world.authenticate(run.token)
                await work.does(RunAtWork(run=run, principal=principal, world=self._world))
            await self._submit(
                CompleteRun(run_id=run.id, output=work.output, dispatched_at=run.dispatched_at)
                if work.error is None
                else FailRun(run_id=run.id, error=work.error, dispatched_at=run.dispatched_at)
            )
        except WakefulError as error:
            if error.code not in _OVERTAKEN:
                raise
            self.refused.append((run.id, error.code))
        self._is_woken = True

    async def _submit(self, command: Command) -> Any:
        return await self._world.submit(self._principal, command)
