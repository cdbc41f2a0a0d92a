"""The records that travel between storage, decisions, use cases and the web.

Frozen, keyword-only, ids as `uuid.UUID`, instants as aware UTC `datetime`. Field names are the
columns' (reference names of the wire), so that a row and its record read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import attrs

Json = Mapping[str, Any]


class Kind(StrEnum):
    """How a rule is set off (W-001)."""

    EVENT = "event"
    AT = "at"
    EVERY = "every"
    CRON = "cron"


class Mode(StrEnum):
    """Whether a rule fires once or again and again (W-001)."""

    ONCE = "once"
    CONTINUOUS = "continuous"


class PauseReason(StrEnum):
    """Why the platform switched a rule off by itself: a closed list (W-145, W-147, W-148)."""

    LOOP = "loop"  # it went in a circle
    RATE = "rate"  # it fired too often within an hour
    MAX_FIRES = "max_fires"  # it has fired as often as it may


class RunStatus(StrEnum):
    """The eight states of a run (W-097)."""

    QUEUED = "queued"
    DEFERRED = "deferred"
    DISPATCHED = "dispatched"
    WAITING = "waiting_local_directory"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@attrs.frozen(kw_only=True)
class Rule:
    """One saved wakeup configuration: a row of `issue_wakeup`."""

    id: UUID
    workspace_id: UUID
    issue_id: UUID
    agent_id: UUID
    created_by: UUID
    source_task_id: UUID | None
    parent_comment_id: UUID | None
    instruction: str
    kind: Kind
    mode: Mode
    event_types: tuple[str, ...]
    filter_agent_id: UUID | None
    filter_task_id: UUID | None
    filter_actor_type: str | None
    filter_actor_id: UUID | None
    interval_seconds: int | None
    cron_expression: str | None
    timezone: str
    next_fire_at: datetime | None
    enabled: bool
    disabled_at: datetime | None
    revision: int
    last_task_id: UUID | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class Receipt:
    """One captured, coalesced input of one rule revision: a row of `issue_wakeup_receipt`.

    `seq` is the key, `id` rotates on every merge (W-063).
    """

    seq: int
    id: UUID
    revision: int
    event_key: str
    event_type: str
    payload: Json
    created_at: datetime


@attrs.frozen(kw_only=True)
class OwnRun:
    """The rule's own pending run: `queued` (open for more facts) or `dispatched` (immutable)."""

    id: UUID
    status: RunStatus
    handoff_note: str
    context: Json
    dispatched_at: datetime | None
    lease_expires_at: datetime | None


@attrs.frozen(kw_only=True)
class Snapshot:
    """Everything that `decide` may know about one rule, read under its locks.

    `may_invoke` is true while the creator is a member of the workspace and may invoke the agent;
    `runtime_id` is the agent's current runtime; `receipts` are free ones, oldest first, at most
    100, of any revision.
    """

    rule: Rule
    issue_exists: bool
    issue_closed: bool
    issue_priority: str
    agent_archived: bool
    runtime_id: UUID | None
    may_invoke: bool
    own_run: OwnRun | None
    receipts: tuple[Receipt, ...]
