"""What goes: receipts after seven days (W-068), idempotency keys (W-033) and plans after one.

Uploads that nobody has bound to anything go after a day, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from engine import limits
from engine.storage import queries
from engine.storage.database import Session

_attachments: Final = queries.load("attachments")
_sql: Final = queries.load("engines")
_once: Final = queries.load("once")
_gateway: Final = queries.load("gateway")


@attrs.frozen(kw_only=True)
class Retained:
    """How many receipts went, and when the next of all comes of age; None when there is none.

    It is full when there was more of anything than one call takes: the next is due at once.
    """

    deleted: int
    next_due: datetime | None
    is_full: bool


async def retain(session: Session) -> Retained:
    """Delete processed receipts of more than seven days ago, at most 1000, none that is locked.

    Idempotency keys of more than a day ago go likewise, and at most 100 files that have hung on
    nothing for so long. Locks those rows alone, without waiting.
    Its statements have two seconds each; raises `budget_exceeded` behind them, and then nothing was
    deleted.
    """
    await session.fetchval(_gateway.statement_timeout, str(limits.RETENTION_MS_MAX))
    deleted = await session.execute(_sql.retain, limits.RETENTION_ROWS_MAX, limits.RETENTION_DAYS)
    keys = await session.execute(
        _once.forget, limits.IDEMPOTENCY_SECONDS, limits.RETENTION_ROWS_MAX
    )
    files = await session.execute(
        _attachments.forget_unbound, limits.UNBOUND_SECONDS, limits.UNBOUND_ROWS_MAX
    )
    next_due = await session.fetchval(
        _sql.next_retention,
        limits.RETENTION_DAYS,
        limits.IDEMPOTENCY_SECONDS,
        limits.UNBOUND_SECONDS,
    )
    return Retained(
        deleted=deleted,
        next_due=next_due,
        is_full=max(deleted, keys) >= limits.RETENTION_ROWS_MAX or files >= limits.UNBOUND_ROWS_MAX,
    )


async def forget_plans(session: Session, jobs: Sequence[str]) -> int:
    """Delete the rows of these jobs' plans of more than a day ago, and return how many."""
    return await session.execute(_sql.forget_plans, list(jobs))
