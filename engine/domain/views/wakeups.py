"""What the use cases of wakeup rules answer: field names are the wire's (api.md, Wakeups)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.records import Kind, Mode, PauseReason, RunStatus


@attrs.frozen(kw_only=True)
class RuleView:
    """A rule with the names a page shows.

    Ids and names of agents that the caller may not see are null (W-194), but not those of the
    agent to wake (W-195). `created_by_agent` tells that an agent's run registered the rule,
    `paused_reason` why the platform switched it off.
    """

    id: UUID
    workspace_id: UUID
    issue_id: UUID
    agent_id: UUID
    agent_name: str | None
    created_by: UUID
    created_by_name: str | None
    created_by_agent: bool
    source_task_id: UUID | None
    source_agent_id: UUID | None
    source_agent_name: str | None
    parent_comment_id: UUID | None
    instruction: str
    kind: Kind
    mode: Mode
    event_types: tuple[str, ...]
    filter_actor_type: str | None
    filter_actor_id: UUID | None
    filter_actor_name: str | None
    filter_agent_id: UUID | None
    filter_agent_name: str | None
    filter_task_id: UUID | None
    interval_seconds: int | None
    cron_expression: str | None
    timezone: str
    next_fire_at: datetime | None
    enabled: bool
    disabled_at: datetime | None
    paused_reason: PauseReason | None
    revision: int
    last_task_id: UUID | None
    last_task_status: RunStatus | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class RuleRunView:
    """One run of a rule. `triggers` are the types of its facts, each once, in order.

    `checkin_note` is what it checked in with, and `commented` tells that it wrote a comment.
    """

    id: UUID
    status: RunStatus
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    checkin_note: str | None
    triggers: tuple[str, ...]
    commented: bool
