"""Rules as callers write them: from a draft to what is stored, without looking anything up.

`validate` covers W-001, W-002, W-004, W-005, W-008 and W-053 to W-057. What only the database can
tell (does this member, agent, run or comment exist here) is listed by `ValidRule.lookups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain.events import parse_event_types
from engine.domain.filters import FilterActor, Filters, parse_filters
from engine.domain.records import Kind, Mode, Rule
from engine.domain.schedule import Every, next_after, parse_cron, parse_zone
from engine.domain.texts import trimmed_text, whole_number
from engine.errors import WakefulError, invalid

_SCHEDULE_FIELDS: Final[Mapping[Kind, frozenset[str]]] = MappingProxyType(
    {
        Kind.EVENT: frozenset[str](),
        Kind.AT: frozenset({"after_seconds", "at"}),
        Kind.EVERY: frozenset({"interval_seconds"}),
        Kind.CRON: frozenset({"cron_expression"}),
    }
)


@attrs.frozen(kw_only=True)
class RuleDraft:
    """The body of a create or replace, with JSON types already parsed; None is "not sent"."""

    agent_id: UUID | None = None
    instruction: str | None = None
    kind: str | None = None
    mode: str | None = None
    event_types: tuple[str, ...] = ()
    filter_agent_id: UUID | None = None
    filter_actor_type: str | None = None
    filter_actor_id: UUID | None = None
    filter_task_id: UUID | None = None
    parent_comment_id: UUID | None = None
    after_seconds: int | None = None
    at: datetime | None = None
    interval_seconds: int | None = None
    cron_expression: str | None = None
    timezone: str | None = None


@attrs.frozen(kw_only=True)
class Lookups:
    """What must be true in the database before the rule may be stored; None asks for nothing.

    `member_user_id` is a user who is a member of the workspace, `agent_id` an agent of the
    workspace, both named by filters (W-055); `task_id` a run of the issue (W-018); `comment_id` a
    live comment of the issue (W-019).
    """

    member_user_id: UUID | None
    agent_id: UUID | None
    task_id: UUID | None
    comment_id: UUID | None


@attrs.frozen(kw_only=True)
class ValidRule:
    """A configuration that may be stored, if its `lookups` hold; fields are the columns'.

    `agent_id` is None if the caller named no agent: an agent that calls means itself, a person
    must name one (W-012). `cron_expression` and `timezone` are as sent (W-116).
    """

    agent_id: UUID | None
    instruction: str
    kind: Kind
    mode: Mode
    event_types: tuple[str, ...]
    filter_agent_id: UUID | None
    filter_actor_type: str | None
    filter_actor_id: UUID | None
    filter_task_id: UUID | None
    parent_comment_id: UUID | None
    interval_seconds: int | None
    cron_expression: str | None
    timezone: str
    next_fire_at: datetime | None

    @property
    def lookups(self) -> Lookups:
        """What the caller must look up, in the transaction that stores the rule."""
        is_member = self.filter_actor_type == FilterActor.MEMBER
        is_agent = self.filter_actor_type == FilterActor.AGENT
        return Lookups(
            member_user_id=self.filter_actor_id if is_member else None,
            agent_id=self.filter_actor_id if is_agent else self.filter_agent_id,
            task_id=self.filter_task_id,
            comment_id=self.parent_comment_id,
        )


def validate(draft: RuleDraft, now: datetime) -> ValidRule:
    """Return the configuration to store, its first due time counted from `now` (aware, W-084).

    Raises `WakefulError` for the first field at fault: `missing_field`, `invalid_input`,
    `invalid_schedule`, `invalid_filter` or `invalid_event_type`. Nothing is dropped silently: a
    field that the kind cannot use is an error (W-008).
    """
    kind = _parse_kind(draft.kind)
    mode = _parse_mode(kind, draft.mode)
    instruction = trimmed_text(
        "instruction", draft.instruction, bytes_max=limits.INSTRUCTION_BYTES_MAX
    )
    timezone = "UTC" if draft.timezone is None else draft.timezone
    parse_zone(timezone)
    _refuse_foreign_schedule(kind, draft)
    filters = Filters(
        agent_id=draft.filter_agent_id,
        task_id=draft.filter_task_id,
        actor_type=draft.filter_actor_type,
        actor_id=draft.filter_actor_id,
    )
    if kind is Kind.EVENT:
        event_types = parse_event_types(draft.event_types)
        filters = parse_filters(filters, event_types)
    else:
        event_types = ()
        _refuse_event_fields(draft, filters)
    return ValidRule(
        agent_id=draft.agent_id,
        instruction=instruction,
        kind=kind,
        mode=mode,
        event_types=event_types,
        filter_agent_id=filters.agent_id,
        filter_actor_type=filters.actor_type,
        filter_actor_id=filters.actor_id,
        filter_task_id=filters.task_id,
        parent_comment_id=draft.parent_comment_id,
        interval_seconds=draft.interval_seconds,
        cron_expression=draft.cron_expression,
        timezone=timezone,
        next_fire_at=_first_fire_at(kind, draft, timezone, now),
    )


def draft_of(rule: Rule, *, at: datetime | None = None) -> RuleDraft:
    """Return the draft that a stored rule amounts to, for enabling it again (W-023, W-024).

    `at` replaces the time of an `at` rule. The caller keeps the stored filters: those of older
    rules must not be rewritten by a mere enable (W-057).
    """
    planned = at or rule.next_fire_at
    return RuleDraft(
        agent_id=rule.agent_id,
        instruction=rule.instruction,
        kind=rule.kind,
        mode=rule.mode,
        event_types=rule.event_types,
        filter_agent_id=rule.filter_agent_id,
        filter_actor_type=rule.filter_actor_type,
        filter_actor_id=rule.filter_actor_id,
        filter_task_id=rule.filter_task_id,
        parent_comment_id=rule.parent_comment_id,
        at=planned if rule.kind is Kind.AT else at,
        interval_seconds=rule.interval_seconds,
        cron_expression=rule.cron_expression,
        timezone=rule.timezone,
    )


def _parse_kind(kind: str | None) -> Kind:
    if kind is None:
        raise invalid("kind", "kind is missing", code="missing_field")
    if kind not in {*Kind}:
        raise invalid("kind", "kind is event, at, every or cron")
    return Kind(kind)


def _parse_mode(kind: Kind, mode: str | None) -> Mode:
    """Return the mode of a rule (W-001): what the kind dictates, or the choice of an event rule."""
    allowed: tuple[Mode, ...]
    match kind:
        case Kind.EVENT:
            allowed = (Mode.ONCE, Mode.CONTINUOUS)
        case Kind.AT:
            allowed = (Mode.ONCE,)
        case Kind.EVERY | Kind.CRON:
            allowed = (Mode.CONTINUOUS,)
    if mode is None:
        return allowed[0]
    if mode not in allowed:
        raise invalid("mode", f"the mode of {kind} is {' or '.join(allowed)}")
    return Mode(mode)


def _refuse_foreign_schedule(kind: Kind, draft: RuleDraft) -> None:
    """Refuse a schedule field that belongs to another kind (W-008)."""
    for owner, fields in _SCHEDULE_FIELDS.items():
        for field in sorted(fields):
            if owner is not kind and getattr(draft, field) is not None:
                raise _bad_schedule(field, f"{field} belongs to kind {owner}")


def _refuse_event_fields(draft: RuleDraft, filters: Filters) -> None:
    """Refuse event types and filters on a timer (W-008)."""
    if draft.event_types:
        raise invalid("event_types", "event_types belongs to kind event")
    for field, value in (
        ("filter_agent_id", filters.agent_id),
        ("filter_task_id", filters.task_id),
        ("filter_actor_type", filters.actor_type),
        ("filter_actor_id", filters.actor_id),
    ):
        if value is not None:
            raise invalid(field, f"{field} belongs to kind event", code="invalid_filter")


def _first_fire_at(kind: Kind, draft: RuleDraft, timezone: str, now: datetime) -> datetime | None:
    """Return when the rule is due first, in UTC; None for an event rule."""
    match kind:
        case Kind.EVENT:
            return None
        case Kind.AT:
            return _planned_time(draft, now)
        case Kind.EVERY:
            return next_after(Every(_interval(draft)), now)
        case Kind.CRON:
            if draft.cron_expression is None:
                raise _bad_schedule("cron_expression", "kind cron needs cron_expression")
            first = next_after(parse_cron(draft.cron_expression, timezone), now)
            if first is None:
                raise _bad_schedule(
                    "cron_expression",
                    "the expression has no occurrence in the coming"
                    f" {limits.CRON_HORIZON_YEARS} years",
                )
            return first


def _planned_time(draft: RuleDraft, now: datetime) -> datetime:
    """Return the time of an `at` rule: exactly one of `after_seconds` and a future `at` (W-005)."""
    if (draft.at is None) == (draft.after_seconds is None):
        raise _bad_schedule("at", "kind at needs exactly one of at and after_seconds")
    if draft.at is None:
        seconds = whole_number(
            "after_seconds",
            draft.after_seconds,
            low=limits.AFTER_SECONDS_MIN,
            high=limits.SCHEDULE_SECONDS_MAX,
            code="invalid_schedule",
        )
        return now.astimezone(UTC) + timedelta(seconds=seconds)
    if draft.at.tzinfo is None:
        raise _bad_schedule("at", "at needs an offset from UTC")
    try:
        planned = draft.at.astimezone(UTC)
    except OverflowError:
        raise _bad_schedule("at", "at lies outside the calendar") from None
    if planned <= now:
        raise _bad_schedule("at", "at must lie in the future")
    return planned


def _interval(draft: RuleDraft) -> int:
    """Return the interval of an `every` rule (W-005)."""
    if draft.interval_seconds is None:
        raise _bad_schedule("interval_seconds", "kind every needs interval_seconds")
    return whole_number(
        "interval_seconds",
        draft.interval_seconds,
        low=limits.INTERVAL_SECONDS_MIN,
        high=limits.SCHEDULE_SECONDS_MAX,
        code="invalid_schedule",
    )


def _bad_schedule(field: str, message: str) -> WakefulError:
    return invalid(field, message, code="invalid_schedule")
