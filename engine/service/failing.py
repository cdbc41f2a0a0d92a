"""How runs end in failure, and which of them are tried again (W-110).

A reason that is about the ground under a run (its runtime, its daemon, the line to its provider)
is tried again up to the run's attempts; one that is about the work is not. Wakeup runs are treated
like all others (W-094). What rules are told of it the triggers capture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

import attrs

from engine import limits
from engine.storage.database import Session
from engine.storage.runs import sql


@attrs.frozen(kw_only=True)
class _Policy:
    """How often a run is tried at least, and how much later the last time."""

    attempts_min: int = 0
    last_after_seconds: float = 0.0


_AT_ONCE: Final = _Policy()
_RETRIED: Final[Mapping[str, _Policy]] = MappingProxyType(
    {
        "runtime_offline": _AT_ONCE,
        "runtime_recovery": _AT_ONCE,
        "timeout": _AT_ONCE,
        "codex_semantic_inactivity": _AT_ONCE,
        "skill_bundle_unavailable": _AT_ONCE,
        "agent_error.provider_network": _Policy(
            attempts_min=limits.NETWORK_ATTEMPTS_MAX,
            last_after_seconds=limits.NETWORK_RETRY_SECONDS,
        ),
    }
)


@attrs.frozen(kw_only=True)
class Retry:
    """A run that was queued in the place of a failed one, or deferred until `fire_at`."""

    id: UUID
    runtime_id: UUID | None
    fire_at: datetime | None


def is_retried(reason: str) -> bool:
    """Tell whether a run that failed for this reason may be tried again: then lock its rule."""
    return reason in _RETRIED


async def retry(session: Session, run_ids: Sequence[UUID], reason: str) -> list[Retry]:
    """Queue another attempt of each of these failed runs that `reason` and its attempts allow.

    None beside a pending successor of the same scope, and none that no claim would ever get: its
    rule is off, changed or deleted by now. The runs and their rules are locked, their ends written.
    """
    policy = _RETRIED.get(reason)
    if policy is None or not run_ids:
        return []
    rows = await session.fetch(
        sql.retry, list(run_ids), policy.attempts_min, policy.last_after_seconds
    )
    return [Retry(**dict(row.items())) for row in rows]


async def fail_lost(
    session: Session, run_ids: Sequence[UUID], error: str, reason: str
) -> list[Retry]:
    """End claimed runs that nobody will report on any more; return their retries.

    The runs and their rules are locked; credentials and leases end with the runs.
    """
    if not run_ids:
        return []
    await session.execute(sql.end_claims, list(run_ids))
    await session.execute(sql.fail_many, list(run_ids), error, reason)
    return await retry(session, run_ids, reason)
