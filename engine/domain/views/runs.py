"""What the use cases around runs answer: field names are the wire's (api.md, Runs)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.records import Json, RunStatus

# --- Runs ---------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class RunView:
    """A run; `priority` is the rank of the issue's priority, urgent 4 to none 0."""

    id: UUID
    issue_id: UUID
    agent_id: UUID
    runtime_id: UUID | None
    status: RunStatus
    priority: int
    attempt: int
    max_attempts: int
    context: Json
    handoff_note: str
    trigger_summary: str
    trigger_comment_id: UUID | None
    originator_user_id: UUID | None
    retry_of_task_id: UUID | None
    rerun_of_task_id: UUID | None
    wakeup_id: UUID | None
    created_at: datetime
    dispatched_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    fire_at: datetime | None
    result: Json | None
    error: str | None
    failure_reason: str | None
    wait_reason: str | None


@attrs.frozen(kw_only=True)
class CreatedRunView(RunView):
    """A run asked for by hand; `created` is false where the request joined a pending run."""

    created: bool


@attrs.frozen(kw_only=True)
class RunMessageView:
    """One line of a transcript; `seq` grows within the run."""

    seq: int
    line: Json
    created_at: datetime


@attrs.frozen(kw_only=True)
class RunStatusView:
    """All that a running daemon needs to know."""

    status: RunStatus


@attrs.frozen(kw_only=True)
class ReportedRun:
    """The outcome of one report among many: the run's status now, or why it was refused."""

    id: UUID
    status: RunStatus | None = None
    code: str | None = None
    message: str | None = None


# --- Daemons and claims -------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class RegisteredRuntimeView:
    """One runtime of a registered daemon."""

    id: UUID
    name: str
    provider: str


@attrs.frozen(kw_only=True)
class RegistrationView:
    """The runtimes of this registration, in the order of the request."""

    runtimes: tuple[RegisteredRuntimeView, ...]


@attrs.frozen(kw_only=True)
class ClaimedAgentView:
    """Who carries out a claimed run."""

    id: UUID
    name: str
    instructions: str


@attrs.frozen(kw_only=True)
class ClaimedIssueView:
    """What a claimed run is about."""

    id: UUID
    identifier: str
    title: str
    description: str
    status: str


@attrs.frozen(kw_only=True)
class ClaimedRun(RunView):
    """A run that was handed out: its generation is `dispatched_at` (W-104).

    `prompt` is the whole text for the agent, `token` the credential of this claim, shown once.
    `wakeup_system_rule` names the platform's rule behind it (W-092), `wakeup_joined` holds the
    notes of the wakeups that joined it; null where there are none.
    """

    prompt: str
    wakeup_system_rule: str | None
    wakeup_joined: str | None
    agent: ClaimedAgentView
    issue: ClaimedIssueView
    token: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class ClaimAttempt:
    """One look at the queue: what was handed out, and when looking again can help by itself.

    `next_look_at` is None while only an event can bring work; `now` is the database's time, by
    which a waiter measures how far away it is. A final attempt is not worth waiting for.
    """

    runs: tuple[ClaimedRun, ...]
    now: datetime
    next_look_at: datetime | None = None
    is_final: bool = False
