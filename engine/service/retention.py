"""What goes: receipts after seven days (W-068), idempotency keys (W-033) and plans after one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from engine import limits
from engine.storage import queries
from engine.storage.database import Session

_sql: Final = queries.load("engines")
_once: Final = queries.load("once")
_gateway: Final = queries.load("gateway")


@attrs.frozen(kw_only=True)
class Retained:
    """How many receipts went, and when the next of all comes of age; None when there is none."""

    deleted: int
    next_due: datetime | None


async def retain(session: Session) -> Retained:
    """Delete processed receipts of more than seven days ago, at most 1000, none that is locked.

    Idempotency keys of more than a day ago go likewise. Locks those rows alone, without waiting.
    Its statements have two seconds each; raises `budget_exceeded` behind them, and then nothing was
    deleted.
    """
    await session.fetchval(_gateway.statement_timeout, str(limits.RETENTION_MS_MAX))
    deleted = await session.execute(_sql.retain, limits.RETENTION_ROWS_MAX, limits.RETENTION_DAYS)
    await session.execute(_once.forget, limits.IDEMPOTENCY_SECONDS, limits.RETENTION_ROWS_MAX)
    next_due = await session.fetchval(
        _sql.next_retention, limits.RETENTION_DAYS, limits.IDEMPOTENCY_SECONDS
    )
    return Retained(deleted=deleted, next_due=next_due)


async def forget_plans(session: Session, jobs: Sequence[str]) -> int:
    """Delete the rows of these jobs' plans of more than a day ago, and return how many."""
    return await session.execute(_sql.forget_plans, list(jobs))
