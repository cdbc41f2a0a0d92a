"""A world in virtual time: the real engine, a real database, and a clock that is told to pass.

The world stops at every instant at which something is due: a timer, a sweep or a retry of the
engine's, the end of a run, something planned. There it first does what was planned, in the order
in which it was planned, and lets runs end; then it rings the engine's alarm and waits until the
engine has no work left; then daemons look for work. It goes on when nothing more comes of that.
The wait is for the engine's work ledger, never for a while.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from engine import limits
from engine.actors.alarm import Bell
from engine.app import Engine, plain_errors
from engine.clock import VirtualClock
from engine.domain.commands import Command, Query
from engine.domain.commands.runs import ListRuns
from engine.domain.commands.tracker import AddMember, CreateAgent, CreateToken, ListTimeline
from engine.domain.commands.wakeups import GetRule
from engine.domain.principal import Principal
from engine.domain.views.runs import RunView
from engine.domain.views.tracker import ActivityView
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from engine.settings import Settings
from engine.simulation.agenda import Action, Agenda
from engine.simulation.daemons import Agent, Daemon, Script, Work
from engine.simulation.people import Person
from engine.simulation.place import prepare, temporary_server
from engine.storage import queries
from engine.storage.database import Database, Lane, LaneLimits, Session, open_loop

_sql: Final = queries.load("simulation")
_LANES: Final = {Lane.BACKGROUND: LaneLimits(connections=1, statement_ms=limits.BACKGROUND_MS_MAX)}
_MICROSECOND: Final = timedelta(microseconds=1)
_HOUR: Final = timedelta(hours=1)


@attrs.frozen(kw_only=True)
class Firing:
    """One firing of a timer rule: when it was planned, when it came, and the run that took it in.

    `run_id` is None where it had to wait for a run that was claimed already.
    """

    planned_at: datetime
    fired_at: datetime
    run_id: UUID | None


class World:
    """A workspace in virtual time; open one with `World.open`, from the main thread."""

    def __init__(
        self, url: str, clock: VirtualClock, database: Database, services: trio.Nursery
    ) -> None:
        self.database_url = url
        self.workspace_id: UUID
        self.owner: Person
        self._clock = clock
        self._database = database
        self._services = services
        self._settings = Settings(database_url=url)
        self._engine: Engine | None = None
        self._stop: Callable[[], Awaitable[None]] | None = None
        self._listens = trio.Event()
        self._agenda = Agenda()
        self._daemons: list[Daemon] = []
        self._agents: dict[UUID, Agent] = {}
        self.stops = 0  # instants at which the world stopped

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        start: datetime,
        database_url: str | None = None,
        sweep_every: timedelta = _HOUR,
    ) -> AsyncIterator[World]:
        """Make a world that begins at `start`, with an engine that runs and one person, its owner.

        It lives in an empty database of a PostgreSQL of yours, else in an embedded server that
        goes with it. The engine sweeps for lost hints every `sweep_every` of virtual time, less
        often than in production: here nothing gets lost by itself. Raises `conflict` for a
        database that is in use.
        """
        async with plain_errors(), AsyncExitStack() as stack:
            url = database_url or stack.enter_context(temporary_server())
            await stack.enter_async_context(open_loop())
            clock = VirtualClock(await prepare(url, start.astimezone(UTC)))
            database = await stack.enter_async_context(Database.open(url, lanes=_LANES))
            services = await stack.enter_async_context(trio.open_nursery())
            world = cls(url, clock, database, services)
            world._settings = Settings(
                database_url=url,
                sweep_seconds=sweep_every.total_seconds(),
                sweep_idle_after=sweep_every.total_seconds(),
            )
            await world.start_engine()
            await world._settle_down()
            yield world
            await world.stop_engine()
            services.cancel_scope.cancel()

    # --- Who is there ---------------------------------------------------------------------------

    async def person(self, name: str, *, role: str = "member") -> Person:
        """Add a person to the workspace."""
        added = await self.submit(
            self.owner.principal,
            AddMember(
                workspace_id=self.workspace_id,
                email=f"{name.lower()}@example.com",
                name=name,
                role=role,
            ),
        )
        return Person(name=name, principal=await self.authenticate(added.token), world=self)

    async def daemon(self, name: str) -> Daemon:
        """Start a daemon with one runtime."""
        token = await self.submit(
            self.owner.principal,
            CreateToken(workspace_id=self.workspace_id, name=name, kind="daemon"),
        )
        daemon = Daemon(self, name, await self.authenticate(token.token))
        await daemon.register()
        self._daemons.append(daemon)
        return daemon

    async def agent(
        self, name: str, daemon: Daemon, script: Script | Work | None = None, **fields: Any
    ) -> Agent:
        """Add an agent of the owner that runs on a daemon; `fields` are those of `CreateAgent`.

        `script` says what becomes of each run, by default a minute of work without output.
        """
        work = Work() if script is None else script
        view = await self.submit(
            self.owner.principal,
            CreateAgent(
                workspace_id=self.workspace_id, name=name, runtime_id=daemon.runtime_id, **fields
            ),
        )
        follow = (lambda _: work) if isinstance(work, Work) else work
        agent = Agent(id=view.id, name=name, daemon=daemon, script=follow)
        self._agents[agent.id] = agent
        return agent

    def script_of(self, agent_id: UUID) -> Script:
        """Return what an agent's runs become; of an agent that the world did not make, nothing."""
        agent = self._agents.get(agent_id)
        return (lambda _: Work()) if agent is None else agent.script

    # --- Time -----------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The virtual time, in UTC."""
        return self._clock.now

    def plan(self, at: datetime, action: Action) -> None:
        """Have something done at an instant: any asynchronous function without arguments."""
        self._agenda.plan(at.astimezone(UTC), action)

    async def advance(self, to: datetime | timedelta) -> None:
        """Let time pass to an instant or by a span, stopping wherever something is due.

        What foreign writers of the database have done before is found first.
        """
        target = self.now + to if isinstance(to, timedelta) else to.astimezone(UTC)
        if target < self.now:
            raise ValueError("time passes forwards: `step_to` sets the clock back")
        self._look_around()
        await self._settle_down()
        while (at := self._next_stop()) is not None and at < target:
            await self._stop_at(at)
        await self._stop_at(target)

    async def step_to(self, at: datetime) -> None:
        """Set the clock to an instant at one go, as if it had been wrong: back or far ahead.

        The engine notices as it does in production, where it compares the host's clocks.
        """
        await self._move_clock(at.astimezone(UTC))
        self._look_around()
        await self._settle_down()

    def _look_around(self) -> None:
        """Have the engine look at everything at the next ring, and the daemons, too."""
        if self._engine is not None:
            for bell in (Bell.TIMERS, Bell.SWEEP, Bell.RECOVERY):
                self._engine.alarm.soon(bell, pause=0.0)
        for daemon in self._daemons:
            daemon.wake()

    def _next_stop(self) -> datetime | None:
        times = [self._agenda.next_at, *(each.next_look_at for each in self._daemons)]
        if self._engine is not None:
            times.append(self._next_ring(self._engine))
        return min((max(at, self.now) for at in times if at is not None), default=None)

    def _next_ring(self, engine: Engine) -> datetime | None:
        """Return when the alarm rings next by itself, None when it does not."""
        seconds = engine.alarm.seconds_until_ring()
        due = engine.alarm.next_due
        if due is not None and self._clock.seconds_until(due) <= seconds:
            return due
        if math.isinf(seconds):
            return None
        span = timedelta(seconds=seconds)
        return self.now + (span if span or not seconds else _MICROSECOND)

    async def _stop_at(self, at: datetime) -> None:
        self.stops += 1
        await self._move_clock(at)
        await self._settle_down()

    async def _move_clock(self, at: datetime) -> None:
        online = [each.runtime_id for each in self._daemons if each.is_online]

        async def move(session: Session) -> None:
            await session.execute(_sql.move_clock, at, online)

        await self._database.read(Lane.BACKGROUND, move)  # one statement, one transaction
        self._clock.learn(at)

    async def _settle_down(self) -> None:
        """Do what is to be done now, until nothing more comes of it."""
        while True:
            while (action := self._agenda.take(self.now)) is not None:
                await action()
            if self._engine is None:
                return
            await self._quiet(self._engine)
            if not any([await each.look() for each in self._daemons]):
                return

    async def _quiet(self, engine: Engine) -> None:
        """Ring for what has come, and wait until the engine has no work left."""
        with trio.move_on_after(limits.SIMULATION_QUIET_SECONDS_MAX) as scope:
            while True:
                engine.alarm.ring()
                if not engine.ledger.active:
                    return
                idle = trio.Event()
                engine.ledger.call_when_idle(idle.set)
                try:
                    if engine.ledger.active:
                        await idle.wait()
                finally:
                    engine.ledger.forget(idle.set)
        if scope.cancelled_caught:
            raise WakefulError("internal_error", f"still busy: {engine.ledger.open_tokens()}")

    def _wake(self, runtime_ids: Iterable[UUID] | None) -> None:
        """Tell the daemons of these runtimes, None for all, what waiting claims would be told."""
        if runtime_ids is None:  # the engine listens to the database (again), and has looked around
            self._listens.set()
        woken = None if runtime_ids is None else set(runtime_ids)
        for daemon in self._daemons:
            if woken is None or daemon.runtime_id in woken:
                daemon.wake()

    # --- The engine -----------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether the engine runs."""
        return self._engine is not None

    @property
    def engine(self) -> Engine:
        """The engine. Raises `stopping` while it is stopped."""
        if self._engine is None:
            raise WakefulError("stopping", "the engine of this world is stopped")
        return self._engine

    async def start_engine(self) -> None:
        """Start the engine again, on the same database; daemons report what they could not."""
        assert self._engine is None, "the engine runs"
        self._listens = trio.Event()
        engine = self._engine = await self._services.start(self._run_engine)
        engine.desk.overhear(self._wake)
        if engine.fleet.backend is None:
            await self._listens.wait()
        made = await self.engine.bootstrap()
        if made is not None:
            self.workspace_id = made.workspace_id
            principal = await self.authenticate(made.member_token)
            self.owner = Person(name="Owner", principal=principal, world=self)
        for daemon in self._daemons:
            if daemon.is_online:
                await daemon.catch_up()

    async def stop_engine(self) -> None:
        """Stop the engine; time may pass without it, for people, daemons and timers in vain."""
        if self._stop is not None:
            await self._stop()

    async def restart_engine(self) -> None:
        """Stop the engine and start it again at the same instant."""
        await self.stop_engine()
        await self.start_engine()

    async def _run_engine(
        self, task_status: trio.TaskStatus[Engine] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the engine in a task of its own, so that a script can stop it wherever it is."""
        leave, gone = trio.Event(), trio.Event()

        async def stop() -> None:
            leave.set()
            await gone.wait()

        self._stop = stop
        try:
            async with Engine.open(self._settings, clock=self._clock) as engine:
                task_status.started(engine)
                await leave.wait()
        finally:
            self._engine = self._stop = None
            gone.set()

    async def submit(self, caller: Principal, command: Command) -> Any:
        """Carry a change out as anybody, and what follows of it: a queued run, for instance.

        Daemons look for work at the next stop.
        """
        result = await self.engine.submit(caller, command)
        await self._quiet(self.engine)
        return result

    async def read(self, query: Query) -> Any:
        """Answer a question, as the owner may see it."""
        return await self.engine.read(self.owner.principal, query)

    async def authenticate(self, token: str) -> Principal:
        """Return who shows this token."""
        return await self.engine.authenticate(token)

    # --- What has happened ----------------------------------------------------------------------

    async def rule(self, rule: RuleView) -> RuleView:
        """Return a rule as it is now."""
        view: RuleView = await self.read(GetRule(issue_id=rule.issue_id, rule_id=rule.id))
        return view

    async def runs(self, issue_id: UUID, *, rule: RuleView | None = None) -> list[RunView]:
        """Return the runs of an issue, those of one rule if it is named, oldest first."""
        runs: list[RunView] = await self._all(partial(ListRuns, issue_id=issue_id))
        return [each for each in reversed(runs) if rule is None or each.wakeup_id == rule.id]

    async def timeline(self, issue_id: UUID) -> list[ActivityView]:
        """Return the timeline of an issue, oldest entry first."""
        entries: list[ActivityView] = await self._all(partial(ListTimeline, issue_id=issue_id))
        return entries[::-1]

    async def firings(self, rule: RuleView) -> list[Firing]:
        """Return what a timer rule has done, in order; also while the engine is stopped."""

        async def look(session: Session) -> list[Firing]:
            return [
                Firing(planned_at=row["planned_at"], fired_at=row["fired_at"], run_id=row["run_id"])
                for row in await session.fetch(_sql.firings, rule.id)
            ]

        return await self._database.read(Lane.BACKGROUND, look)

    async def _all(self, page: Callable[..., Query]) -> list[Any]:
        items: list[Any] = []
        while True:
            found = await self.read(page(limit=limits.PAGE_MAX, offset=len(items)))
            items.extend(found.items)
            if not found.items or len(items) >= found.total:
                return items
