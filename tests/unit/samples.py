"""Plain records for tests of the pure decisions: one rule, one issue, an event that reached it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from engine.domain.decision import Decision, ReceiptRef, RunDraft, RunRefresh
from engine.domain.records import Json, Kind, Mode, OwnRun, Receipt, Rule, RunStatus, Snapshot

NOW = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)


def an_id(number: int) -> UUID:
    """Return a readable id."""
    return UUID(int=(0x0192 << 112) + number)


RULE, WORKSPACE, ISSUE, AGENT, CREATOR, REGISTRAR, RUNTIME, RUN = (an_id(n) for n in range(1, 9))
MEMBER, OTHER = an_id(20), an_id(21)


def a_rule(**changes: Any) -> Rule:
    """Return a rule that repeats at every comment, changed as said."""
    values: dict[str, Any] = {
        "id": RULE,
        "workspace_id": WORKSPACE,
        "issue_id": ISSUE,
        "agent_id": AGENT,
        "created_by": CREATOR,
        "source_task_id": REGISTRAR,
        "parent_comment_id": None,
        "instruction": "Read the newest comment and answer it.",
        "kind": Kind.EVENT,
        "mode": Mode.CONTINUOUS,
        "event_types": ("comment.created",),
        "filter_agent_id": None,
        "filter_task_id": None,
        "filter_actor_type": None,
        "filter_actor_id": None,
        "interval_seconds": None,
        "cron_expression": None,
        "timezone": "UTC",
        "next_fire_at": None,
        "enabled": True,
        "disabled_at": None,
        "revision": 3,
        "last_task_id": None,
        "last_error": None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Rule(**{**values, **changes})


def an_interval(next_fire_at: datetime, seconds: int = 60, **changes: Any) -> Rule:
    """Return a rule of kind `every`."""
    return a_rule(
        kind=Kind.EVERY,
        event_types=(),
        interval_seconds=seconds,
        next_fire_at=next_fire_at,
        **changes,
    )


def a_cron(next_fire_at: datetime, expression: str, **changes: Any) -> Rule:
    """Return a rule of kind `cron`."""
    return a_rule(
        kind=Kind.CRON,
        event_types=(),
        cron_expression=expression,
        next_fire_at=next_fire_at,
        **changes,
    )


def an_alarm(next_fire_at: datetime, **changes: Any) -> Rule:
    """Return a rule of kind `at`."""
    return a_rule(
        kind=Kind.AT, mode=Mode.ONCE, event_types=(), next_fire_at=next_fire_at, **changes
    )


def a_payload(
    event_type: str = "comment.created",
    number: int = 1,
    *,
    actor: tuple[str, UUID | None] = ("member", MEMBER),
    source: UUID | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return the payload of one freshly captured fact, with the fields of W-040 and W-065."""
    occurred_at = NOW.replace(second=number % 60).isoformat()
    actor_type, actor_id = actor
    actor_text = None if actor_id is None else str(actor_id)
    return {
        "event_id": f"key-{number}",
        "event_type": event_type,
        "version": 1,
        "occurred_at": occurred_at,
        "workspace_id": str(WORKSPACE),
        "issue_id": str(ISSUE),
        "source_task_id": None if source is None else str(source),
        "agent_id": None,
        "actor_type": actor_type,
        "actor_id": actor_text,
        "coalesced_count": 1,
        "first_occurred_at": occurred_at,
        "actors": [{"type": actor_type, "id": actor_text}],
        "source_task_ids": [] if source is None else [str(source)],
        **changes,
    }


def a_receipt(
    seq: int = 1,
    event_type: str = "comment.created",
    *,
    revision: int = 3,
    event_key: str | None = None,
    payload: Json | None = None,
) -> Receipt:
    """Return a free receipt of the rule's revision."""
    payload = a_payload(event_type, seq) if payload is None else payload
    return Receipt(
        seq=seq,
        id=an_id(1_000 + seq),
        revision=revision,
        event_key=f"key-{seq}" if event_key is None else event_key,
        event_type=event_type,
        payload=payload,
        created_at=NOW,
    )


def a_run(
    note: str = "",
    context: Json | None = None,
    *,
    status: RunStatus = RunStatus.QUEUED,
    dispatched_at: datetime | None = None,
    lease_expires_at: datetime | None = None,
) -> OwnRun:
    """Return a pending run of the rule."""
    return OwnRun(
        id=RUN,
        status=status,
        handoff_note=note,
        context={"wakeup_id": str(RULE), "wakeup_revision": 3} if context is None else context,
        dispatched_at=dispatched_at,
        lease_expires_at=lease_expires_at,
    )


def refs(*receipts: Receipt) -> tuple[ReceiptRef, ...]:
    """Return receipts as a decision names them."""
    return tuple(ReceiptRef(seq=r.seq, id=r.id) for r in receipts)


def due_at(decision: Decision) -> datetime:
    """Return the planned instant of a decision's due fact."""
    assert decision.due is not None
    text = decision.due.payload["planned_at"]
    assert text.endswith("000Z")
    return datetime.fromisoformat(text[:-4]).replace(tzinfo=UTC)


def stored_run(made: RunDraft | RunRefresh | None) -> OwnRun:
    """Return the queued run that a decision wrote, as the database gives it back."""
    assert made is not None
    return a_run(made.handoff_note, json.loads(json.dumps(made.context)))


def a_claimed_run(seconds_ago: float = 1, lease_expires_at: datetime | None = None) -> OwnRun:
    """Return the rule's run in the hands of a daemon."""
    return a_run(
        status=RunStatus.DISPATCHED,
        dispatched_at=NOW - timedelta(seconds=seconds_ago),
        lease_expires_at=lease_expires_at,
    )


def a_snapshot(
    rule: Rule | None = None, *, receipts: Sequence[Receipt] = (), **changes: Any
) -> Snapshot:
    """Return what `decide` is shown: an open issue, an agent with a runtime, a lawful creator."""
    values: dict[str, Any] = {
        "rule": a_rule() if rule is None else rule,
        "issue_exists": True,
        "issue_closed": False,
        "issue_priority": "high",
        "agent_archived": False,
        "runtime_id": RUNTIME,
        "may_invoke": True,
        "own_run": None,
        "receipts": tuple(receipts),
    }
    return Snapshot(**{**values, **changes})
