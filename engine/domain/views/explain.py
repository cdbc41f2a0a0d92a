"""What previews and explanations answer: field names are the wire's (api.md, Wakeups)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.decision import Outcome
from engine.domain.explain import (
    Code,
    FactOutcome,
    Guard,
    IgnoreReason,
    Obstacle,
    PendingInput,
    State,
    WaitingRun,
)
from engine.domain.planned import PlannedTime
from engine.domain.preview import PreviewWarning
from engine.domain.records import RunStatus


@attrs.frozen(kw_only=True)
class PreviewView:
    """What would become of a configuration: whether it may be saved, its words, its first times."""

    valid: bool
    label: str
    next_times: tuple[PlannedTime, ...]
    warnings: tuple[PreviewWarning, ...]


@attrs.frozen(kw_only=True)
class MatchedFactView:
    """A fact that reached the rule, or several of one type, and what became of it.

    `task_id` is the run that carries it. An agent that the caller may not see is left out.
    """

    event_type: str
    count: int
    occurred_at: datetime
    actor_type: str | None
    actor_id: UUID | None
    outcome: FactOutcome
    task_id: UUID | None
    task_status: RunStatus | None


@attrs.frozen(kw_only=True)
class IgnoredView:
    """Facts of a type that the rule listens to, which did not reach it for one reason.

    The last one is told by its type, by who did it and in which run; an agent that the caller may
    not see is left out, and its run.
    """

    reason: IgnoreReason
    count: int
    last_at: datetime
    event_type: str
    actor_type: str | None
    actor_id: UUID | None
    source_task_id: UUID | None


@attrs.frozen(kw_only=True)
class ExplanationView:
    """Why a rule did not fire, and what it will do (W-213).

    `next_dispatch` is what a dispatch would do at this moment, null if it could not; `next_times`
    are times that are still to come, `pending` inputs that are here; `problems` is everything
    that the next dispatch or claim would meet.
    """

    state: State
    code: Code
    summary: tuple[str, ...]
    next_dispatch: Outcome | None
    last_facts: tuple[MatchedFactView, ...]
    ignored: tuple[IgnoredView, ...]
    next_times: tuple[PlannedTime, ...]
    pending: tuple[PendingInput, ...]
    waiting_run: WaitingRun | None
    problems: tuple[Obstacle, ...]
    guards: tuple[Guard, ...]
