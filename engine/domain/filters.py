"""Filters of event rules: which may be combined, what must exist, and their words.

Whether a fact passes a filter is decided by one SQL function, `wakeup_match`; nothing here
repeats it.
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

import attrs

from engine.domain.events import EVENTS, Family
from engine.errors import WakefulError, invalid


class FilterActor(StrEnum):
    """Whose changes an actor filter admits (W-055)."""

    MEMBER = "member"
    AGENT = "agent"


@attrs.frozen(kw_only=True)
class Filters:
    """The four filter fields of a rule; None does not restrict.

    A member is named by the id of the user, never by that of the membership row (W-055).
    """

    agent_id: UUID | None = None
    task_id: UUID | None = None
    actor_type: str | None = None
    actor_id: UUID | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is restricted."""
        return self == Filters()


def parse_filters(filters: Filters, event_types: tuple[str, ...]) -> Filters:
    """Return the filters as they are stored for a rule with these valid event types.

    A `filter_agent_id` on changes only becomes the actor pair (W-057). Raises `invalid_filter`
    with the field at fault: half a pair, an unknown actor type, an actor together with a source
    filter, an actor on run events (W-055), a run on anything else (W-054).
    """
    families = {EVENTS[name].family for name in event_types}
    watches_runs = Family.TASK in families
    watches_only_runs = families == {Family.TASK}
    _check_pair(filters)
    if filters.actor_type is not None:
        if filters.agent_id is not None:
            raise _refusal("filter_agent_id", "an actor filter excludes filter_agent_id")
        if filters.task_id is not None:
            raise _refusal("filter_task_id", "an actor filter excludes filter_task_id")
        if watches_runs:
            raise _refusal("filter_actor_type", "run events take no actor filter")
    if filters.task_id is not None and not watches_only_runs:
        raise _refusal("filter_task_id", "filter_task_id works only with run events")
    if filters.agent_id is not None and not watches_runs:
        return Filters(actor_type=FilterActor.AGENT, actor_id=filters.agent_id)
    return filters


def _check_pair(filters: Filters) -> None:
    """Refuse half a pair and actor types other than member and agent."""
    if filters.actor_type is None and filters.actor_id is not None:
        raise _refusal("filter_actor_type", "filter_actor_id needs filter_actor_type")
    if filters.actor_type is not None and filters.actor_id is None:
        raise _refusal("filter_actor_id", "filter_actor_type needs filter_actor_id")
    if filters.actor_type not in {None, *FilterActor}:
        raise _refusal("filter_actor_type", "filter_actor_type is member or agent")


def _refusal(field: str, message: str) -> WakefulError:
    return invalid(field, message, code="invalid_filter")


def actor_words(filters: Filters, name: str | None = None) -> str:
    """Say who acts: the name if the reader may know it, else a generic phrase (W-060)."""
    match filters.actor_type:
        case None if filters.agent_id is None:
            return "someone"
        case FilterActor.MEMBER:
            return name or "the selected member"
        case _:
            return name or "the selected agent"


def run_words(filters: Filters, name: str | None = None) -> str:
    """Say whose run is watched: the agent's name if the reader may know it (W-060, W-222)."""
    if filters.task_id is not None:
        return "the selected run"
    if filters.agent_id is not None:
        return f"{name or 'the selected agent'}'s run"
    return "a run"
