"""Runs one use case as one transaction and follows it up with the hints of its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from engine.domain.commands import Command, Query
from engine.domain.principal import Principal
from engine.domain.views.runs import ClaimAttempt, ClaimedRun
from engine.metrics import Metrics
from engine.service.once import carry_out
from engine.service.registry import Work, service_for
from engine.storage.database import CommitUnknown, Database, Identity, Session

After = Callable[[Iterable[UUID], Work], None]


class Executor:
    """Carries out commands and queries; `after` gets the opened issues and the use case's word."""

    def __init__(self, database: Database, after: After, metrics: Metrics) -> None:
        self._database = database
        self._after = after
        self._metrics = metrics

    async def submit(self, caller: Principal, command: Command) -> Any:
        """Carry out a change as `caller`; returning means committed.

        Raises what the use case raises, and `commit_unknown`: the hints are given all the same.
        """
        service = service_for(command)
        work: Work | None = None

        async def unit(session: Session) -> Any:
            nonlocal work
            work = Work(session=session, caller=caller)
            return await carry_out(work, command, service.handler)

        try:
            committed = await self._database.write(
                service.lane,
                unit,
                Identity(
                    actor_type=caller.actor_type,
                    actor_id=caller.actor_id,
                    source_task_id=caller.run_id,
                ),
                lock_timeout_ms=service.lock_timeout_ms,
            )
        except CommitUnknown as error:
            if work is not None:
                self._after(error.opened, work)
            raise
        assert work is not None
        self._after(committed.opened, work)
        self._count(work, committed.result)
        return committed.result

    async def read(self, caller: Principal, query: Query) -> Any:
        """Answer a question from one snapshot; a single statement is one without a transaction."""
        service = service_for(query)

        async def unit(session: Session) -> Any:
            answer = await service.handler(Work(session=session, caller=caller), query)
            assert not service.is_single or session.answered <= 1, type(query)
            return answer

        return await self._database.read(service.lane, unit, snapshot=not service.is_single)

    def _count(self, work: Work, result: object) -> None:
        """Count what a committed claim handed out, and what it refused."""
        match result:
            case ClaimAttempt(runs=runs):
                self._metrics.claimed.inc(len(runs))
            case ClaimedRun():
                self._metrics.claimed.inc()
        for check in work.refusals:
            self._metrics.claim_refusals.labels("wakeup_unavailable", check).inc()
