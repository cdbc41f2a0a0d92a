"""The planned jobs of all engines: each plan is carried out by one of them (W-082).

A plan is an instant on the grid of the sweep's seconds. Who takes it writes a row for each job in
`sys_cron_executions`, with a lease that it keeps alive while it works; a lease that has become
stale is taken over. The others hear of the plan's end, and of what comes next, by a notification.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import attrs
import structlog
import trio

from engine import limits
from engine.actors.fleet import Fleet
from engine.actors.runtime import Runtime
from engine.errors import WakefulError
from engine.storage import queries
from engine.storage.database import Database, Lane, Query, Session
from engine.work import WorkKind

_log = structlog.get_logger(__name__)
_sql: Final = queries.load("engines")


class Job(StrEnum):
    """The planned jobs, in the order in which they are carried out."""

    DISPATCH = "issue_wakeup_dispatch"  # the sweep
    RECOVERY = "run_recovery"
    RETENTION = "issue_wakeup_retention"


@attrs.frozen(kw_only=True)
class Lease:
    """The right to carry out one job of a plan, until it becomes stale."""

    job: Job
    id: UUID
    token: UUID


@attrs.frozen(kw_only=True)
class Plan:
    """The latest plan, when the next one begins, and what of it this engine has to do."""

    time: datetime
    next: datetime
    leases: tuple[Lease, ...]


@attrs.frozen(kw_only=True)
class Done:
    """What came of one job: how many rows it touched, and what its row says besides."""

    rows: int
    result: dict[str, Any]


@attrs.frozen(kw_only=True)
class PlanNews:
    """What an engine tells the others of a plan that it has carried out: what comes next, when."""

    plan: datetime
    retention: datetime | None
    recovery: datetime | None

    def to_text(self) -> str:
        """Return what stands behind the word `plan` of a notification."""
        values = attrs.asdict(self)
        return json.dumps({key: at and at.isoformat() for key, at in values.items()})

    @classmethod
    def from_text(cls, text: str) -> PlanNews:
        """Return what `to_text` wrote. Raises ValueError, TypeError or AttributeError."""
        values = json.loads(text)
        return cls(
            **{key: at and datetime.fromisoformat(at).astimezone(UTC) for key, at in values.items()}
        )


class Plans:
    """Takes plans, keeps their leases, and writes down what came of them."""

    def __init__(self, database: Database, runtime: Runtime, fleet: Fleet, seconds: float) -> None:
        """A plan begins every so many seconds, at least once an hour."""
        self._database = database
        self._runtime = runtime
        self._fleet = fleet
        self._seconds = min(seconds, float(limits.PLAN_SECONDS_MAX))

    async def take(self) -> Plan:
        """Take whatever of the latest plan is free, and return it. Raises as `Database.write`."""
        runner = f"{socket.gethostname()}:{os.getpid()}:{self._fleet.backend or 0}"
        jobs = list(Job)

        async def unit(session: Session) -> Plan:
            rows = await session.fetch(
                _sql.take_plan, jobs, self._seconds, runner, float(limits.LEASE_STALE_SECONDS)
            )
            leases = [
                Lease(job=Job(row["job_name"]), id=row["id"], token=row["lease_token"])
                for row in rows
                if row["id"] is not None
            ]
            return Plan(
                time=rows[0]["plan_time"],
                next=rows[0]["next_plan"],
                leases=tuple(sorted(leases, key=lambda lease: jobs.index(lease.job))),
            )

        return (await self._database.write(Lane.BACKGROUND, unit)).result

    async def carry_out(self, lease: Lease, work: Callable[[], Awaitable[Done]]) -> bool:
        """Do the work of a lease within 45 s, and tell whether it was done and written down.

        Raises `stopping`; the lease is left, and becomes stale.
        """
        done, code, text = None, "budget_exceeded", "the job took too long"
        over = trio.Event()
        self._runtime.spawn(self._keep, lease, over, kind=WorkKind.SCHEDULER, name="lease")
        try:
            with trio.move_on_after(limits.JOB_SECONDS_MAX):
                done = await work()
        except WakefulError as error:
            code, text = error.code, str(error)
        finally:
            over.set()
        if done is None:
            _log.warning("plan.job_failed", job=lease.job, code=code)
        outcome = (None, None, code, text) if done is None else (done.rows, done.result, None, None)
        return await self._held(_sql.finish, lease, *outcome) and done is not None

    async def announce(self, news: PlanNews) -> None:
        """Tell the other engines. They look for themselves if they hear nothing."""

        async def unit(session: Session) -> None:
            await session.fetch(_sql.announce_plan, news.to_text())

        try:
            await self._database.write(Lane.BACKGROUND, unit)
        except WakefulError as error:
            _log.warning("plan.not_announced", code=error.code)

    async def _keep(self, lease: Lease, over: trio.Event) -> None:
        """Keep a lease alive until its job is over, on a lane that the job does not use."""
        while True:
            with trio.move_on_after(limits.LEASE_HEARTBEAT_SECONDS):
                await over.wait()
            stale = float(limits.LEASE_STALE_SECONDS)
            if over.is_set() or not await self._held(_sql.heartbeat, lease, stale, lane=Lane.API):
                return

    async def _held(
        self, query: Query, lease: Lease, *args: object, lane: Lane = Lane.BACKGROUND
    ) -> bool:
        """Change the row of a lease that this engine still has, and tell whether it has."""

        async def unit(session: Session) -> int:
            return await session.execute(query, lease.id, lease.token, *args)

        try:
            committed = await self._database.write(lane, unit)
        except WakefulError as error:
            _log.warning("plan.not_written", job=lease.job, code=error.code)
            return False
        if not committed.result:
            _log.warning("plan.lease_lost", job=lease.job)
        return bool(committed.result)
