"""What time does to runs: deferred ones come due, lost ones fail, old ones leave the queue.

Nothing here waits in a process. `recover` is called with every sweep and at the instant that it
named last; everything it does it finds by partial indexes in one bounded transaction, which waits
for no row and for nobody who switches listening on, and for the lock of an issue at its commit as
long as its lane allows. All times are the database's (W-084). Whether a runtime is online is told
by its last sign of life alone, so nothing has to be written when it goes offline (W-097).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain.decision import RECOVERY_WAIT
from engine.errors import WakefulError
from engine.service.failing import Retry, fail_lost
from engine.storage import queries
from engine.storage.database import ConstraintViolation, Session
from engine.storage.runs import sql as runs_sql

_sql: Final = queries.load("recovery")
_claims: Final = queries.load("claims")
_PAUSE: Final = timedelta(seconds=limits.RECOVERY_PAUSE_SECONDS)
_MOST: Final = limits.RECOVERED_RUNS_MAX
_LOST: Final = "the run was lost: its daemon neither started it in time nor came back"
_EXPIRED: Final = "the run waited in the queue for too long"
_SUPERSEDED: Final = "Not tried again: a later run of the same scope is waiting."


@attrs.frozen(kw_only=True)
class Recovered:
    """What one call of `recover` did, valid once its transaction is committed.

    `issues` have something to dispatch that capture does not announce; `runtimes` have runs that
    can be claimed now. `next_due` is the earliest instant at which `recover` has work again, by the
    database's clock; a moment from now when a bound or a lock left something behind, None when
    nothing can become due until somebody changes a run.
    """

    issues: frozenset[UUID] = frozenset()
    runtimes: frozenset[UUID] = frozenset()
    next_due: datetime | None = None


@attrs.define
class _Found:
    """The same while it is being found."""

    now: datetime
    issues: set[UUID] = attrs.field(factory=set)
    runtimes: set[UUID] = attrs.field(factory=set)
    is_full: bool = False

    def retried(self, retries: Sequence[Retry]) -> None:
        self.runtimes.update(each.runtime_id for each in retries if each.runtime_id is not None)


async def recover(session: Session) -> Recovered:
    """Mark, fail, retry, expire and promote what is due (W-097, W-100, W-105, W-109, W-110).

    Locks rules, issues (KEY SHARE) and runs without waiting, in this order. Raises `contention`
    when a request takes the slot of a deferred run at this very moment; calling again is safe.
    """
    row = await session.fetchrow(_sql.now)
    assert row is not None, "the query has no FROM"
    found = _Found(row["now"])
    await _mark_rules(session, found)
    await _fail_lost(session, found)
    await _expire(session, found)
    await _promote(session, found)
    return Recovered(
        issues=frozenset(found.issues),
        runtimes=frozenset(found.runtimes),
        next_due=await _next_due(session, found),
    )


async def _mark_rules(session: Session, found: _Found) -> None:
    """Say of rules that they wait for the recovery of a claim, and take it back (W-100)."""
    bounds = (found.now, RECOVERY_WAIT, limits.CLAIM_RECOVERY_SECONDS, _MOST)
    for query in (_sql.mark_waiting, _sql.unmark_recovered):
        found.is_full |= await session.execute(query, *bounds) >= _MOST


async def _fail_lost(session: Session, found: _Found) -> None:
    """End claims that nobody starts and work that nobody does any more, and retry (W-097).

    Their agents are free for other runs, and a rule behind one may have held facts back.
    """
    lost = await session.fetch(
        _sql.lost,
        found.now,
        limits.DISPATCHED_SECONDS_MAX,
        limits.RUNNING_SECONDS_MAX,
        limits.RUNTIME_OFFLINE_SECONDS,
        limits.RECONNECT_GRACE_SECONDS,
        _MOST,
    )
    found.is_full |= len(lost) >= _MOST
    found.retried(await fail_lost(session, [row["id"] for row in lost], _LOST, "timeout"))
    for row in lost:
        if row["runtime_id"] is not None:
            found.runtimes.add(row["runtime_id"])
        if row["wakeup_id"] is not None:
            found.issues.add(row["issue_id"])


async def _expire(session: Session, found: _Found) -> None:
    """End ordinary runs that nobody has claimed for two hours (W-109)."""
    rows = await session.fetch(_sql.expired, found.now, limits.QUEUED_SECONDS_MAX, _MOST)
    found.is_full |= len(rows) >= _MOST
    if rows:
        ids = [row["id"] for row in rows]
        await session.execute(runs_sql.fail_many, ids, _EXPIRED, "queued_expired")


async def _promote(session: Session, found: _Found) -> None:
    """Queue deferred runs whose time has come and that an online runtime can take (W-097)."""
    cancelled = await session.execute(_sql.cancel_superseded, found.now, _SUPERSEDED, _MOST)
    due = await session.fetch(_sql.due, found.now, limits.RUNTIME_OFFLINE_SECONDS, _MOST)
    found.is_full |= cancelled >= _MOST or len(due) >= _MOST
    if not due:
        return
    try:
        promoted = await session.fetch(_claims.promote, [row["id"] for row in due])
    except ConstraintViolation as error:
        if error.constraint != "agent_task_pending_idx":
            raise
        raise WakefulError("contention", "a request took the slot of a deferred run") from None
    found.runtimes.update(row["runtime_id"] for row in promoted)


async def _next_due(session: Session, found: _Found) -> datetime | None:
    due: datetime | None = await session.fetchval(
        _sql.next_due,
        found.now,
        RECOVERY_WAIT,
        limits.CLAIM_RECOVERY_SECONDS,
        limits.DISPATCHED_SECONDS_MAX,
        limits.RUNNING_SECONDS_MAX,
        limits.RUNTIME_OFFLINE_SECONDS,
        limits.RECONNECT_GRACE_SECONDS,
        limits.QUEUED_SECONDS_MAX,
    )
    if found.is_full or (due is not None and due <= found.now):
        return found.now + _PAUSE
    return due
