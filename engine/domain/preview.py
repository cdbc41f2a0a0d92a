"""What would become of a rule if it were saved now (W-034, W-035).

`judge` lets through what `rules.validate` refuses for a reason that a form wants to show: a
schedule that never fires. Everything else about a body is an error, as it is for a save.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never
from uuid import UUID

import attrs

from engine import limits
from engine.domain.planned import PlannedTime, planned_times
from engine.domain.records import Json, Kind
from engine.domain.rules import RuleDraft, ValidRule, validate
from engine.domain.schedule import At, Cron, Every, next_after, parse_cron
from engine.errors import WakefulError

_EVERY_MINUTE: Final = "* * * * *"


class WarningCode(StrEnum):
    """What a preview warns of; each has a sentence that names the agent or the field."""

    MAY_LOOP = "may_loop"
    AGENT_OFFLINE = "agent_offline"
    CRON_NEVER_FIRES = "cron_never_fires"
    WAKEUP_CAPACITY_EXCEEDED = "wakeup_capacity_exceeded"


@attrs.frozen(kw_only=True)
class PreviewWarning:
    """One warning; with a `blocking` one a save would be refused."""

    code: WarningCode
    text: str
    blocking: bool


@attrs.frozen(kw_only=True)
class Judgement:
    """A configuration that is sound, but for a schedule that may never fire."""

    rule: ValidRule
    never_fires: bool


@attrs.frozen(kw_only=True)
class Surroundings:
    """What a rule would meet. The counts are of enabled rules without the one that is edited.

    `opposite` names an agent that a rule of this issue wakes, and that would wake and be woken by
    this one's agent; None if there is none. `seen_at` is the last sign of life of the daemon.
    """

    now: datetime
    agent_name: str
    seen_at: datetime | None
    on_issue: int
    in_workspace: int
    opposite: str | None


def judge(draft: RuleDraft, now: datetime) -> Judgement:
    """Return what a save would store of a draft. Raises as `validate`, but for the one reason."""
    if not _never_fires(draft, now):
        return Judgement(rule=validate(draft, now), never_fires=False)
    expression = draft.cron_expression
    sound = validate(attrs.evolve(draft, cron_expression=_EVERY_MINUTE), now)
    stored = attrs.evolve(sound, cron_expression=expression, next_fire_at=None)
    return Judgement(rule=stored, never_fires=True)


def next_times(rule: ValidRule, after: datetime) -> tuple[PlannedTime, ...]:
    """Return the first firings after an instant; none of an event rule."""
    schedule: At | Every | Cron
    match rule.kind:
        case Kind.EVENT:
            return ()
        case Kind.AT:
            assert rule.next_fire_at is not None, "at has its time"
            schedule = At(rule.next_fire_at)
        case Kind.EVERY:
            assert rule.interval_seconds is not None, "every has an interval"
            schedule = Every(rule.interval_seconds)
        case Kind.CRON:
            assert rule.cron_expression is not None, "cron has an expression"
            schedule = parse_cron(rule.cron_expression, rule.timezone)
        case _ as never:
            assert_never(never)
    return planned_times(schedule, rule.timezone, after)


def warnings_of(judgement: Judgement, around: Surroundings) -> tuple[PreviewWarning, ...]:
    """Return what to warn of, the blocking ones first."""
    found = []
    if judgement.never_fires:
        years = limits.CRON_HORIZON_YEARS
        text = f"cron_expression has no occurrence in the coming {years} years."
        found.append(PreviewWarning(code=WarningCode.CRON_NEVER_FIRES, text=text, blocking=True))
    if (full := _capacity(around)) is not None:
        found.append(
            PreviewWarning(code=WarningCode.WAKEUP_CAPACITY_EXCEEDED, text=full, blocking=True)
        )
    if around.opposite is not None:
        text = (
            f"A rule of this issue wakes {around.opposite} by what {around.agent_name} does, and"
            f" this one wakes {around.agent_name} by what {around.opposite} does: they may wake"
            " each other in a circle. If it shall wait for a person, filter by a member"
            " (filter_actor_type, filter_actor_id)."
        )
        found.append(PreviewWarning(code=WarningCode.MAY_LOOP, text=text, blocking=False))
    if is_offline(around.seen_at, around.now):
        text = f"{offline_text(around.agent_name, around.seen_at)} Its runs wait until then."
        found.append(PreviewWarning(code=WarningCode.AGENT_OFFLINE, text=text, blocking=False))
    return tuple(found)


def is_offline(seen_at: datetime | None, now: datetime) -> bool:
    """Whether the last sign of life is too long ago for a claim (W-097)."""
    return seen_at is None or (now - seen_at).total_seconds() > limits.RUNTIME_OFFLINE_SECONDS


def offline_text(agent_name: str, seen_at: datetime | None) -> str:
    """Say that no daemon serves an agent, and since when."""
    if seen_at is None:
        return f"No daemon has served {agent_name} yet; start one."
    return f"The daemon of {agent_name} was last seen at {clock_text(seen_at)}; start it again."


def clock_text(at: datetime) -> str:
    """Return an instant as sentences have it: UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def loop_fields(
    rule: ValidRule, issue_id: UUID, agent_id: UUID, source_task_id: UUID | None
) -> Json:
    """Return what `wakeup_match` reads of a rule, as the columns of its row in JSON."""
    ids = {
        "issue_id": issue_id,
        "agent_id": agent_id,
        "filter_agent_id": rule.filter_agent_id,
        "filter_task_id": rule.filter_task_id,
        "filter_actor_id": rule.filter_actor_id,
        "source_task_id": source_task_id,
    }
    return {
        **{name: None if value is None else str(value) for name, value in ids.items()},
        "enabled": True,
        "kind": rule.kind,
        "event_types": rule.event_types,
        "filter_actor_type": rule.filter_actor_type,
    }


def _never_fires(draft: RuleDraft, now: datetime) -> bool:
    """Whether a draft is of kind cron with a readable expression that has no occurrence."""
    if draft.kind != Kind.CRON or draft.cron_expression is None:
        return False
    try:
        cron = parse_cron(draft.cron_expression, draft.timezone or "UTC")
    except WakefulError:
        return False
    return next_after(cron, now) is None


def _capacity(around: Surroundings) -> str | None:
    """Say that one more enabled rule is one too many (W-013, W-014)."""
    if around.on_issue >= limits.RULES_PER_ISSUE_MAX:
        return f"This issue has {around.on_issue} enabled wakeups, which is the most it may have."
    if around.in_workspace >= limits.RULES_PER_WORKSPACE_MAX:
        most = limits.RULES_PER_WORKSPACE_MAX
        return f"The workspace has {most} enabled wakeups, which is the most it may have."
    return None
