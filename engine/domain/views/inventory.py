"""What the views of all rules of a workspace answer: field names are the wire's (W-150, W-206).

None of them holds an instruction (W-195). Ids and names of agents that the caller may not see are
null (W-194), but not those of the agent to wake.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.inventory import RuleSource
from engine.domain.records import Kind, Mode, PauseReason, RunStatus


@attrs.frozen(kw_only=True)
class ListedRuleView:
    """What a rule waits for and whom it wakes: enough to say it in a line."""

    id: UUID
    issue_id: UUID
    agent_id: UUID
    agent_name: str | None
    source_task_id: UUID | None
    source_agent_id: UUID | None
    source_agent_name: str | None
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
    paused_reason: PauseReason | None
    revision: int
    created_at: datetime


@attrs.frozen(kw_only=True)
class InventoryRunView:
    """The run that tells how a rule stands: its unfinished one, else its latest."""

    id: UUID
    agent_id: UUID
    runtime_id: UUID | None
    issue_id: UUID
    wakeup_id: UUID
    status: RunStatus
    priority: int
    created_at: datetime
    dispatched_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    fire_at: datetime | None


@attrs.frozen(kw_only=True)
class InventoryItemView(ListedRuleView):
    """A rule with its issue, and apart from its configuration what its runs do (W-209).

    `target_type` says what `agent_id` is. `rule`, `system_stage` and `system_remaining` are those
    of a rule of the platform, null for all others. `can_manage` grants no right to invoke.
    `active_runs` are the unfinished ones, `runs_7d` those made within seven days, retries included.
    """

    workspace_id: UUID
    issue_title: str
    issue_identifier: str
    issue_closed: bool
    source: RuleSource
    rule: str | None
    system_stage: int | None
    system_remaining: int | None
    target_type: str
    created_by: UUID
    created_by_name: str | None
    created_by_agent: bool
    can_manage: bool
    parent_comment_id: UUID | None
    disabled_at: datetime | None
    last_task_id: UUID | None
    last_task_status: RunStatus | None
    last_error: str | None
    updated_at: datetime
    active_runs: int
    runs_7d: int
    task: InventoryRunView | None


@attrs.frozen(kw_only=True)
class InventoryCounts:
    """How many rules there are in each class, and in all; the four classes add up to `all`."""

    all: int
    active: int
    paused: int
    disabled: int
    ended: int


@attrs.frozen(kw_only=True)
class AgentChoiceView:
    """An agent that some rule of the workspace wakes, to filter by."""

    id: UUID
    name: str


@attrs.frozen(kw_only=True)
class InventoryView:
    """A page of rules; `total` is the count of the scope. All of it is of one snapshot (W-206).

    `counts` follow every filter but the scope, `agents` follow none.
    """

    items: tuple[InventoryItemView, ...]
    total: int
    counts: InventoryCounts
    agents: tuple[AgentChoiceView, ...]


@attrs.frozen(kw_only=True)
class IssueSummaryView:
    """How many enabled rules an open issue has, how many of them wait for events, and the first.

    `previews` are at most three: the soonest, then those without a time, the oldest first.
    """

    issue_id: UUID
    active_count: int
    event_count: int
    previews: tuple[ListedRuleView, ...]


@attrs.frozen(kw_only=True)
class PausedRuleView:
    """A rule of an open issue that the platform paused, and why: enough for a cue on a card."""

    issue_id: UUID
    id: UUID
    agent_id: UUID
    paused_reason: PauseReason
