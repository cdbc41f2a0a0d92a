"""The engine: opens and closes everything in order, and takes every change and question.

Used by the HTTP server, by a long-running process without one, and by simulations that embed it.
Changes on an issue go through the issue's actor, all others straight to the database; either way
a caller that leaves does not end what has begun.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final, Self
from uuid import UUID

import structlog
import trio

import engine.service.all  # noqa: F401 - registers every use case
from engine import limits
from engine.actors.alarm import Alarm
from engine.actors.claims import ClaimDesk, Heartbeats
from engine.actors.dispatcher import Dispatcher
from engine.actors.executor import Executor
from engine.actors.hints import Hints
from engine.actors.issue import IssueActor
from engine.actors.listener import Listener
from engine.actors.messages import Execute, Sweep, Tick
from engine.actors.runtime import Runtime, TrioActor
from engine.actors.scheduler import JanitorActor, SchedulerActor
from engine.clock import DatabaseClock
from engine.domain.commands import Command, IssueCommand, Query
from engine.domain.commands.runs import ClaimRuns, Heartbeat
from engine.domain.commands.tracker import Authenticate, Bootstrap, FindIssue, FindWorkspace
from engine.domain.principal import NOBODY, Principal
from engine.errors import WakefulError, invalid
from engine.settings import Settings
from engine.storage import migrate, queries
from engine.storage.database import Database, Lane, Session, open_loop
from engine.storage.postgres import Postgres
from engine.work import WorkKind, WorkLedger

_log = structlog.get_logger(__name__)
_gateway: Final = queries.load("gateway")
DATABASE: Final = "wakeful"  # its name in the embedded server
ONLY: Final = ""  # the key of an actor of which there is one

# Long-lived records are many and young garbage is plenty: fewer, larger collections (stack.md 2).
GC_THRESHOLDS: Final = (50_000, 20, 100)


class Engine:
    """One engine process; `Engine.open` is the only way to get one that runs."""

    def __init__(
        self, settings: Settings, database: Database, runtime: Runtime, ledger: WorkLedger
    ) -> None:
        self.ledger = ledger
        self.stop_grace_seconds = _stop_grace(settings)
        self._database = database
        self._runtime = runtime
        self._clock = DatabaseClock()
        self.desk = ClaimDesk()
        self._heartbeats = Heartbeats()
        self._alarm = Alarm(
            self._clock,
            self._tick,
            self._sweep,
            sweep_seconds=settings.sweep_seconds or limits.SWEEP_SECONDS,
            sweep_idle_after=settings.sweep_idle_after,
        )
        self.hints = Hints(runtime, self._alarm, self.desk.wake)
        self.dispatcher = Dispatcher(
            database,
            runtime,
            self.hints.after_dispatch,
            self.hints.look_at,
            self._alarm.sweep_soon,
        )
        self._executor = Executor(database, self.hints.after_use_case)
        self._listener = Listener(
            database,
            look_at=self.hints.look_at,
            tick=self._tick,
            wake=self.desk.wake,
            recover=self._recover,
        )
        self._is_started = False
        self._register()

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Self]:
        """Start the embedded database unless a URL is given, migrate, connect, recover, run.

        Leaving the block drains what is counted within the stop grace, then closes in reverse.
        Call it from the main thread: the embedded database dies with the thread that started it.
        Raises `WakefulError` with what an operator has to change.
        """
        ledger = WorkLedger()
        async with _plain_errors(), AsyncExitStack() as stack:
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
                    Database.open(dsn, begin=_gateway.begin, flush=_gateway.flush)
                )
            services = await stack.enter_async_context(trio.open_nursery())
            runtime = await stack.enter_async_context(
                Runtime.open(
                    ledger,
                    max_resident=settings.max_resident or limits.RESIDENT_ACTORS_MAX,
                    grace_seconds=_stop_grace(settings),
                )
            )
            stack.callback(services.cancel_scope.cancel)  # first of all, nothing new comes in
            engine_ = cls(settings, database, runtime, ledger)
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

    # --- How it is ----------------------------------------------------------------------------

    def health(self) -> dict[str, str]:
        """Return what is known without a look at the database."""
        return {
            "status": "ok",
            "version": version("wakeful"),
            "startup": "complete" if self._is_started else "incomplete",
        }

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Tell whether the parts that everything needs are alive, and the state of each."""
        database = "up"
        with trio.move_on_after(limits.READY_SECONDS_MAX) as scope:
            try:
                await self._database.read(Lane.BACKGROUND, _look_up)
            except WakefulError as error:
                database = error.code
        if scope.cancelled_caught:
            database = "slow"
        listener = "up" if self._database.statistics().listeners_connected else "down"
        due = self._alarm.next_due
        state = {
            "database": database,
            "migrations": "applied",
            "listener": listener,
            "scheduler": "up" if self._is_started else "starting",
            "next_due_at": due,
        }
        return database == "up" and listener == "up" and self._is_started, state

    # --- Inside -------------------------------------------------------------------------------

    def _register(self) -> None:
        runtime, database = self._runtime, self._database
        runtime.register(
            IssueActor,
            lambda issue_id: IssueActor(
                issue_id, self._executor, self.dispatcher, self.hints.taken
            ),
        )
        runtime.register(
            SchedulerActor,
            lambda _: SchedulerActor(database, self._clock, self._alarm, self.hints.look_at),
        )
        runtime.register(
            JanitorActor, lambda _: JanitorActor(database, self._alarm, self.hints.look_at)
        )

    async def _start(self, services: trio.Nursery) -> None:
        """Look at what the last process left behind, then let hints and time in."""
        with self.ledger.begin(WorkKind.STARTUP, "recover"):
            await self._runtime.ref(SchedulerActor, ONLY).ask(Tick())
            await self._runtime.ref(JanitorActor, ONLY).ask(Sweep())
            services.start_soon(self._alarm.run, name="alarm")
            services.start_soon(self._listener.run, name="listener")
        self._is_started = True

    def _tick(self) -> None:
        self._tell(SchedulerActor, Tick())

    def _sweep(self) -> None:
        self._tell(JanitorActor, Sweep())

    def _recover(self) -> None:
        """The listener stands again: whatever was notified meanwhile is looked for (W-073)."""
        self._alarm.stir()
        self._tick()
        self._sweep()
        self.desk.wake_all()

    def _tell(self, kind: type[TrioActor], message: Tick | Sweep) -> None:
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
async def _plain_errors() -> AsyncIterator[None]:
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


async def _look_up(session: Session) -> None:
    await session.fetchval(_gateway.alive)
