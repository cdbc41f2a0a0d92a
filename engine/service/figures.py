"""The figures of the database for /metrics, in one snapshot and with a budget (W-256, W-258)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

import attrs

from engine import limits
from engine.storage import queries
from engine.storage.database import Record, Session

_sql: Final = queries.load("figures")
_gateway: Final = queries.load("gateway")


@attrs.frozen(kw_only=True)
class Mark:
    """Where a reading stands: what it saw, and when; `xmin` and `xmax` are the snapshot's."""

    snapshot: str
    xmin: int
    xmax: int
    now: datetime


@attrs.frozen(kw_only=True)
class Since:
    """From where on processed receipts are read: a snapshot that saw none of them, and a time."""

    snapshot: str
    processed_at: datetime


@attrs.define(kw_only=True)
class Receipts:
    """Some receipts: how many, how many of them capture wrote, and how many facts those hold."""

    receipts: int = 0
    captured: int = 0
    facts: int = 0

    def add(self, row: Record) -> None:
        """Add the figures of a row."""
        self.receipts += row["receipts"]
        self.captured += row["captured"]
        self.facts += row["facts"]


@attrs.frozen(kw_only=True)
class Figures:
    """One reading. Of what was processed it has what came since; `oldest` times are by workspace.

    Workspaces with nothing waiting are left out, and so are all but those that wait longest.
    """

    mark: Mark
    ignored: Counter[str]
    free: Receipts
    reserved: Receipts
    consumed: Receipts
    discarded: Receipts
    oldest_receipt_seconds: dict[UUID, float]
    oldest_run_seconds: dict[UUID, float]


async def read_figures(session: Session, since: Since | None) -> Figures:
    """Read the figures, in a transaction that reads one snapshot; locks nothing.

    Without `since` nothing is read of what was processed. Each statement has `SCRAPE_MS_MAX`;
    raises `budget_exceeded` behind it.
    """
    await session.fetchval(_gateway.statement_timeout, str(limits.SCRAPE_MS_MAX))
    row = await session.fetchrow(_sql.mark)
    assert row is not None, "it reads no table"
    mark = Mark(**dict(row.items()))
    ignored = Counter({row["reason"]: row["facts"] for row in await session.fetch(_sql.ignored)})
    await session.fetchval(_sql.pin)
    free, reserved, consumed, discarded = (Receipts() for _ in range(4))
    pending = await session.fetch(_sql.pending)
    for row in pending:
        (free if row["is_free"] else reserved).add(row)
    if since is not None:
        for row in await session.fetch(_sql.processed, since.snapshot, since.processed_at):
            (consumed if row["is_consumed"] else discarded).add(row)
    return Figures(
        mark=mark,
        ignored=ignored,
        free=free,
        reserved=reserved,
        consumed=consumed,
        discarded=discarded,
        oldest_receipt_seconds=_ages((row for row in pending if row["is_free"]), mark.now),
        oldest_run_seconds=_ages(await session.fetch(_sql.queued), mark.now),
    )


def _ages(rows: Iterable[Record], now: datetime) -> dict[UUID, float]:
    """Return how long something has waited in each workspace, longest first."""
    ages = {
        row["workspace_id"]: (now - row["since"]).total_seconds()
        for row in rows
        if row["workspace_id"] is not None
    }
    longest = sorted(ages, key=lambda each: ages[each], reverse=True)
    return {each: max(0.0, ages[each]) for each in longest[: limits.SCRAPE_WORKSPACES_MAX]}
