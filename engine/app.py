"""The engine: opens and closes everything in order, and takes every change and question.

Used by the HTTP server, by a long-running process without one, and by simulations that embed it.
Changes on an issue go through the issue's actor, all others straight to the database; either way
a caller that leaves does not end what has begun.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final, Self
from uuid import UUID

import structlog
import trio

import engine.service.all  # noqa: F401 - registers every use case
from engine import limits
from engine.actors.alarm import Alarm, Bell
from engine.actors.claims import ClaimDesk, Heartbeats
from engine.actors.dispatcher import Dispatcher
from engine.actors.executor import Executor
from engine.actors.fleet import Fleet
from engine.actors.hints import Hints
from engine.actors.issue import IssueActor
from engine.actors.listener import Listener
from engine.actors.messages import CarryOut, Execute, Recover, Sweep, Tick
from engine.actors.meter import Meter
from engine.actors.plans import Plans
from engine.actors.reports import Reports, report_all
from engine.actors.runtime import Runtime, TrioActor
from engine.actors.scheduler import JanitorActor, SchedulerActor
from engine.actors.vitals import Vitals
from engine.actors.watch import Watch
from engine.clock import DatabaseClock
from engine.domain.commands import Command, IssueCommand, Query
from engine.domain.commands.runs import ClaimRuns, Heartbeat
from engine.domain.commands.tracker import Authenticate, Bootstrap, FindIssue, FindWorkspace
from engine.domain.principal import NOBODY, Principal
from engine.errors import WakefulError, invalid
from engine.metrics import Metrics
from engine.service.registry import Work
from engine.settings import Settings
from engine.storage import migrate, queries
from engine.storage.database import Database, open_loop
from engine.storage.postgres import Postgres
from engine.work import WorkKind, WorkLedger

_log = structlog.get_logger(__name__)
_gateway: Final = queries.load("gateway")
_engines: Final = queries.load("engines")
DATABASE: Final = "wakeful"  # its name in the embedded server
ONLY: Final = ""  # the key of an actor of which there is one

# Long-lived records are many and young garbage is plenty: fewer, larger collections (stack.md 2).
GC_THRESHOLDS: Final = (50_000, 20, 100)


class Engine:
    """One engine process; `Engine.open` is the only way to get one that runs."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        runtime: Runtime,
        ledger: WorkLedger,
        clock: DatabaseClock,
    ) -> None:
        self.ledger = ledger
        self.stop_grace_seconds = _stop_grace(settings)
        self._database = database
        self._runtime = runtime
        self._clock = clock
        self.desk = ClaimDesk(clock)
        self._heartbeats = Heartbeats(clock)
        self._alarm = Alarm(
            self._clock,
            self._rung,
            sweep_seconds=settings.sweep_seconds or limits.SWEEP_SECONDS,
            sweep_idle_after=settings.sweep_idle_after,
        )
        self.metrics = Metrics()
        watch = Watch(clock, self.metrics)
        self.hints = Hints(runtime, self._alarm, self.desk.wake, watch)
        self.dispatcher = Dispatcher(
            database,
            runtime,
            self.hints.after_dispatch,
            self.hints.look_at,
            self.hints.taken,
            partial(self._alarm.soon, Bell.SWEEP),
            self._clock,
        )
        self.hints.hurry = self.dispatcher.hurry
        self._executor = Executor(database, self._after_use_case, self.metrics)
        self.fleet = Fleet(database, runtime, self.hints.look_at)
        self._plans = Plans(
            database, runtime, self.fleet, settings.sweep_seconds or float(limits.SWEEP_SECONDS)
        )
        self._listener = Listener(
            database,
            fleet=self.fleet,
            alarm=self._alarm,
            watch=watch,
            wake=self.desk.wake,
            recover=self._recover,
        )
        self._vitals = Vitals(
            database=database,
            runtime=runtime,
            ledger=ledger,
            alarm=self._alarm,
            desk=self.desk,
            dispatcher=self.dispatcher,
            metrics=self.metrics,
            meter=Meter(database),
        )
        self._register()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, *, clock: DatabaseClock | None = None
    ) -> AsyncIterator[Self]:
        """Start the embedded database unless a URL is given, migrate, connect, recover, run.

        Leaving the block drains what is counted within the stop grace, then closes in reverse.
        Call it from the main thread: the embedded database dies with the thread that started it.
        A simulation brings the `VirtualClock` of its database (W-260).
        Raises `WakefulError` with what an operator has to change.
        """
        ledger = WorkLedger()
        async with plain_errors(), AsyncExitStack() as stack:
            with ledger.begin(WorkKind.STARTUP, "open"):
                postgres = (
                    _start_postgres(settings, stack) if settings.database_url is None else None
                )
                dsn = postgres.dsn() if postgres is not None else settings.database_url
                assert dsn is not None
                await stack.enter_async_context(open_loop())
                if postgres is not None:
                    keepers = await stack.enter_async_context(trio.open_nursery())
                    stack.callback(keepers.cancel_scope.cancel)
                    keepers.start_soon(postgres.keep_running, name="postgres")
                await migrate.up(dsn)
                database = await stack.enter_async_context(
                    Database.open(
                        dsn, begin=_gateway.begin, flush=_gateway.flush, busy=_engines.busy
                    )
                )
            runtime = await stack.enter_async_context(
                Runtime.open(
                    ledger,
                    max_resident=settings.max_resident or limits.RESIDENT_ACTORS_MAX,
                    grace_seconds=_stop_grace(settings),
                )
            )
            # Inside of the runtime: cancelled first, so that nothing new comes in, and over before
            # the runtime drains, which nobody cancels.
            services = await stack.enter_async_context(trio.open_nursery())
            stack.callback(services.cancel_scope.cancel)
            engine_ = cls(settings, database, runtime, ledger, clock or DatabaseClock())
            await engine_._start(services)
            gc.set_threshold(*GC_THRESHOLDS)
            gc.freeze()
            yield engine_

    # --- What callers ask ----------------------------------------------------------------------

    async def submit(self, caller: Principal, command: Command) -> Any:
        """Carry out a change and return its view; returning means committed.

        A change on an issue waits its turn in the issue's actor. It goes on when the caller
        leaves. Raises the `WakefulError` of the use case, and `overloaded` or `stopping`.
        """
        if isinstance(command, IssueCommand):
            issue = self._runtime.ref(IssueActor, command.issue_id)
            return await issue.ask(Execute(caller, command))
        if isinstance(command, Heartbeat):
            write = partial(self._executor.submit, caller)
            return await self._heartbeats.beat(caller, command, write)
        if isinstance(command, Reports):
            return await report_all(command, partial(self._executor.submit, caller))
        return await self._executor.submit(caller, command)

    async def read(self, caller: Principal, query: Query) -> Any:
        """Answer a question from one snapshot of the database."""
        return await self._executor.read(caller, query)

    async def claim(self, caller: Principal, command: ClaimRuns) -> Any:
        """Claim runs for a daemon, waiting up to `wait_seconds` for the first (W-103)."""

        async def attempt() -> Any:
            return await self._executor.submit(caller, command)

        return await self.desk.claim(attempt, command.runtime_ids, command.wait_seconds)

    async def authenticate(self, token: str) -> Principal:
        """Return who shows this token (api.md, credentials). Raises `not_authenticated`."""
        digest = hashlib.sha256(token.encode()).digest()
        caller: Principal = await self._executor.read(NOBODY, Authenticate(token_hash=digest))
        return caller

    async def bootstrap(self) -> Any:
        """Make the first workspace, owner and tokens; None when there is a workspace already."""
        return await self._executor.submit(NOBODY, Bootstrap())

    async def resolve_workspace(self, caller: Principal, ref: str | None) -> UUID:
        """Return the workspace a call is about: the named one, else the caller's only one."""
        if ref is not None:
            found: UUID = await self._executor.read(caller, FindWorkspace(ref=ref))
            return found
        if len(caller.workspace_ids) != 1:
            raise invalid("X-Workspace-ID", "name a workspace", code="missing_field")
        return next(iter(caller.workspace_ids))

    async def resolve_issue(self, caller: Principal, workspace_id: UUID, ref: str) -> UUID:
        """Return the id of an issue named by its id or its identifier. Raises `not_found`."""
        try:
            return UUID(ref)
        except ValueError:
            query = FindIssue(workspace_id=workspace_id, ref=ref)
            found: UUID = await self._executor.read(caller, query)
            return found

    @property
    def alarm(self) -> Alarm:
        """What sleeps until the next due time; whoever moves a virtual clock rings it (W-260)."""
        return self._alarm

    # --- How it is ----------------------------------------------------------------------------

    def health(self) -> dict[str, str]:
        """Return what is known without a look at the database."""
        return {
            "status": "ok",
            "version": version("wakeful"),
            "startup": "complete" if self._vitals.is_started else "incomplete",
        }

    async def ready(self) -> tuple[bool, Mapping[str, Any]]:
        """Tell whether the parts that everything needs are alive, and the state of each."""
        return await self._vitals.ready()

    async def exposition(self) -> bytes:
        """Return the metrics of this engine and its database as Prometheus text (W-256)."""
        return await self._vitals.exposition()

    # --- Inside -------------------------------------------------------------------------------

    def _register(self) -> None:
        runtime, database = self._runtime, self._database
        runtime.register(
            IssueActor,
            lambda issue_id: IssueActor(issue_id, self._executor, self.dispatcher),
        )
        runtime.register(
            SchedulerActor,
            lambda _: SchedulerActor(
                database, self._clock, self._alarm, self.hints, self.fleet, self.dispatcher.room
            ),
        )
        runtime.register(
            JanitorActor,
            lambda _: JanitorActor(database, self._alarm, self.hints, self._plans, self.desk.wake),
        )

    async def _start(self, services: trio.Nursery) -> None:
        """Look at what the last process left behind, then let hints and time in."""
        with self.ledger.begin(WorkKind.STARTUP, "recover"):
            await self.dispatcher.prepare()
            await self._runtime.ref(SchedulerActor, ONLY).ask(Tick())
            await self._runtime.ref(JanitorActor, ONLY).ask(Sweep())
            await self._runtime.ref(JanitorActor, ONLY).ask(Recover())
            services.start_soon(self._alarm.run, name="alarm")
            services.start_soon(self._listener.run, name="listener")
        self._vitals.is_started = True

    def _after_use_case(self, opened: Iterable[UUID], work: Work) -> None:
        """Follow up a committed use case: hints, and the time at which a run is to be queued."""
        self.hints.after_use_case(opened, work)
        for at in work.promotions:
            self._alarm.soon(Bell.RECOVERY, pause=self._clock.seconds_until(at))

    def _rung(self, bell: Bell) -> None:
        """Tell whoever does what the alarm rings for."""
        match bell:
            case Bell.TIMERS:
                self._tell(SchedulerActor, Tick())
            case Bell.PLAN:
                self._tell(JanitorActor, CarryOut())
            case Bell.SWEEP:
                self._tell(JanitorActor, Sweep())
            case Bell.RECOVERY:
                self._tell(JanitorActor, Recover())

    def _recover(self) -> None:
        """The listener stands again: whatever was notified meanwhile is looked for (W-073)."""
        self._alarm.stir()
        for bell in (Bell.TIMERS, Bell.SWEEP, Bell.RECOVERY):
            self._rung(bell)
        self.desk.wake_all()

    def _tell(self, kind: type[TrioActor], message: object) -> None:
        try:
            self._runtime.ref(kind, ONLY).tell(message)
        except WakefulError as error:  # it is stopping, or has plenty of them already
            _log.info("message.refused", kind=kind.__name__, code=error.code)


def _start_postgres(settings: Settings, stack: AsyncExitStack) -> Postgres:
    """Start the embedded server in the data directory, to be stopped with the stack."""
    postgres = Postgres(settings.data_dir)
    postgres.start()
    stack.callback(postgres.stop)
    postgres.create_database(DATABASE)
    return postgres


def _stop_grace(settings: Settings) -> float:
    """Return how long stopping waits for what is under way (S-077)."""
    given = settings.stop_grace_seconds
    return limits.STOP_GRACE_SECONDS if given is None else given


@asynccontextmanager
async def plain_errors() -> AsyncIterator[None]:
    """Let an error out as itself, without the groups of the nurseries that it came through."""
    try:
        yield
    except BaseExceptionGroup as group:
        only: BaseException = group
        while isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
            only = only.exceptions[0]
        if only is group:
            raise
        raise only from only.__cause__
