"""Inputs of wakeup rules (api.md, Wakeups; W-001 to W-011)."""

from __future__ import annotations

from engine.domain.rules import RuleDraft
from web.schemas.inputs import Id, Input, Instant, Revision, Texts, Whole


class RuleConfiguration(Input):
    """A complete configuration of a rule; a field that is null counts as not sent."""

    agent_id: Id | None = None
    instruction: str | None = None
    kind: str | None = None
    mode: str | None = None
    event_types: Texts | None = None
    filter_agent_id: Id | None = None
    filter_actor_type: str | None = None
    filter_actor_id: Id | None = None
    filter_task_id: Id | None = None
    parent_comment_id: Id | None = None
    after_seconds: Whole | None = None
    at: Instant | None = None
    interval_seconds: Whole | None = None
    cron_expression: str | None = None
    timezone: str | None = None

    def draft(self) -> RuleDraft:
        """Return the configuration as the domain reads it."""
        return RuleDraft(**{**self.sent(), "event_types": self.event_types or ()})


class Enabling(Input):
    """Switch a rule on at the revision that the caller saw."""

    revision: Revision
    rearm: bool = False
    at: Instant | None = None
