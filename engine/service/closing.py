"""The wakeups of an issue that closes or goes: rules off, receipts and unstarted runs withdrawn.

Two halves around the change of the issue itself, because of the lock order: rows first, then the
advisory locks under which receipts are touched, and no row lock after them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from engine.domain.decision import CLOSED
from engine.errors import WakefulError
from engine.storage import queries
from engine.storage.database import Session

_sql: Final = queries.load("closing")
_wakeups: Final = queries.load("wakeups")

CLOSED_RUN: Final = "Cancelled before it started: the issue was closed."
DELETED_RUN: Final = "Cancelled before it started: the issue was deleted."


@attrs.frozen(kw_only=True)
class Withdrawal:
    """What is locked and goes: rules of an issue, and its unstarted runs."""

    issue_id: UUID
    rules: tuple[UUID, ...]
    runs: tuple[UUID, ...]


async def lock_wakeups(session: Session, issue_id: UUID) -> Withdrawal:
    """Lock rules and unstarted wakeup runs of an issue whose row the caller has locked."""
    return await _lock(session, issue_id, wakeups_only=True)


async def lock_everything(session: Session, issue_id: UUID) -> Withdrawal:
    """The same with ordinary runs, for an issue that is deleted."""
    return await _lock(session, issue_id, wakeups_only=False)


async def lock_pending_runs(session: Session, issue_id: UUID, agent_ids: list[UUID]) -> None:
    """Lock the runs that new requests for these agents may join, before the issue changes."""
    if agent_ids:
        await session.execute(_sql.lock_pending, issue_id, agent_ids)


async def switch_off(session: Session, withdrawal: Withdrawal) -> None:
    """Carry out W-186 for an issue that has just been closed: started runs go on.

    Locks the issue's advisory locks; the caller takes no row lock afterwards. Raises `contention`
    when a rule was saved since the rules were locked: trying again finds it.
    """
    rules = list(withdrawal.rules)
    await session.execute(_sql.lock_receipts, withdrawal.issue_id)
    if await session.fetchval(_sql.has_other_rules, withdrawal.issue_id, rules):
        raise WakefulError("contention", "a wakeup was saved while the issue was closed")
    await session.execute(_sql.switch_off, rules, CLOSED)
    await session.execute(_wakeups.cancel_runs, list(withdrawal.runs), CLOSED_RUN)


async def remove(session: Session, withdrawal: Withdrawal) -> None:
    """Carry out W-189 for an issue that is about to be deleted: rules and receipts go with it.

    Runs that have started go on, and end in an issue that is not there any more. Locks as above.
    """
    await session.execute(_sql.lock_receipts, withdrawal.issue_id)
    await session.execute(_sql.delete_receipts, list(withdrawal.rules))
    await session.execute(_sql.delete_rules, list(withdrawal.rules))
    await session.execute(_wakeups.cancel_runs, list(withdrawal.runs), DELETED_RUN)


async def _lock(session: Session, issue_id: UUID, *, wakeups_only: bool) -> Withdrawal:
    rules = await session.fetch(_sql.lock_rules, issue_id)
    runs = await session.fetch(_sql.lock_runs, issue_id, wakeups_only)
    return Withdrawal(
        issue_id=issue_id,
        rules=tuple(row["id"] for row in rules),
        runs=tuple(row["id"] for row in runs),
    )
