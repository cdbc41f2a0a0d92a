"""The wakeups of an issue that goes, and what a change of an issue must lock before it.

Closing is the database's work: whoever moves an issue into a closed category, its rules go off, and
receipts and unstarted runs with them (`wakeup_close` in migrations/0009, W-186). Removing is ours,
in two halves around the removal of the rest, because of the lock order: rows first, then the
advisory locks under which receipts are touched, and no row lock after them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from engine.storage import queries
from engine.storage.database import Session

_sql: Final = queries.load("closing")
_wakeups: Final = queries.load("wakeups")

DELETED_RUN: Final = "Cancelled before it started: the issue was deleted."


@attrs.frozen(kw_only=True)
class Withdrawal:
    """What is locked and goes: rules of an issue, and its unstarted runs."""

    issue_id: UUID
    rules: tuple[UUID, ...]
    runs: tuple[UUID, ...]


async def lock_everything(session: Session, issue_id: UUID) -> Withdrawal:
    """Lock rules and unstarted runs of an issue whose row the caller has locked, to delete it."""
    rules = await session.fetch(_sql.lock_rules, issue_id)
    runs = await session.fetch(_sql.lock_runs, issue_id)
    return Withdrawal(
        issue_id=issue_id,
        rules=tuple(row["id"] for row in rules),
        runs=tuple(row["id"] for row in runs),
    )


async def lock_pending_runs(session: Session, issue_id: UUID, agent_ids: list[UUID]) -> None:
    """Lock the runs that new requests for these agents may join, before the issue changes."""
    if agent_ids:
        await session.execute(_sql.lock_pending, issue_id, agent_ids)


async def remove(session: Session, withdrawal: Withdrawal) -> None:
    """Carry out W-189 for an issue that is about to be deleted: rules and receipts go with it.

    Runs that have started go on, and end in an issue that is not there any more. Locks the
    advisory locks of this issue and of every issue that the transaction has touched so far; the
    caller takes no row lock afterwards.
    """
    await session.execute(_sql.share_listening, withdrawal.issue_id)
    await session.execute(_sql.lock_inputs, withdrawal.issue_id)
    await session.execute(_sql.delete_receipts, list(withdrawal.rules))
    await session.execute(_sql.delete_rules, list(withdrawal.rules))
    await session.execute(_wakeups.cancel_runs, list(withdrawal.runs), DELETED_RUN)
