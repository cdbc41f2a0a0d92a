"""What callers may ask about the wakeup rules of one issue (api.md, Wakeups).

`rule_id` is the id in the path. Every one of these asks for a member of the issue's workspace, or
an agent that runs there; a daemon is refused.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.commands import IssueCommand, Query
from engine.domain.rules import RuleDraft


@attrs.frozen(kw_only=True)
class ListRules(Query):
    """The rules of an issue by `created_at`, `id`: a tuple of `RuleView` (W-015)."""

    issue_id: UUID


@attrs.frozen(kw_only=True)
class GetRule(Query):
    """One rule: a `RuleView`."""

    issue_id: UUID
    rule_id: UUID


@attrs.frozen(kw_only=True)
class ListRuleRuns(Query):
    """The latest ten runs of a rule, newest first: a tuple of `RuleRunView`."""

    issue_id: UUID
    rule_id: UUID


@attrs.frozen(kw_only=True)
class CreateRule(IssueCommand):
    """Register a rule; answers its `RuleView` (W-015)."""

    draft: RuleDraft


@attrs.frozen(kw_only=True)
class ReplaceRule(IssueCommand):
    """Replace the whole configuration, which switches it on; answers a `RuleView` (W-020)."""

    rule_id: UUID
    draft: RuleDraft


@attrs.frozen(kw_only=True)
class EnableRule(IssueCommand):
    """Switch the stored configuration on again; answers its `RuleView` (W-023).

    `revision` is the one that the caller has read. `rearm` lets a consumed one-shot fire once
    more, `at` is a new time for an `at` rule (W-024).
    """

    rule_id: UUID
    revision: int
    rearm: bool = False
    at: datetime | None = None


@attrs.frozen(kw_only=True)
class EditInstruction(IssueCommand):
    """Change the text of a rule and nothing else; answers None (W-028, W-029).

    `expected_instruction` and `revision` are what the caller has read.
    """

    rule_id: UUID
    instruction: str
    expected_instruction: str
    revision: int


@attrs.frozen(kw_only=True)
class DisableRule(IssueCommand):
    """Switch a rule off; answers its `RuleView`, also when it is off already (W-027)."""

    rule_id: UUID


@attrs.frozen(kw_only=True)
class TriggerRule(IssueCommand):
    """Wake now: one input by hand; answers None (W-030)."""

    rule_id: UUID


@attrs.frozen(kw_only=True)
class CheckIn(IssueCommand):
    """Say from a run of a scheduled check that it has nothing to report; answers None (W-154)."""

    rule_id: UUID
    note: str


@attrs.frozen(kw_only=True)
class DeleteRule(IssueCommand):
    """Remove a rule with its inputs; answers None (W-032)."""

    rule_id: UUID


@attrs.frozen(kw_only=True)
class PreviewRule(Query):
    """What would become of a rule if it were saved now: a `PreviewView` (W-034).

    `start` is where its times begin, now unless it is given; `rule_id` is a rule to be judged as
    edited to the draft.
    """

    issue_id: UUID
    draft: RuleDraft
    start: datetime | None = None
    rule_id: UUID | None = None


@attrs.frozen(kw_only=True)
class ExplainRule(Query):
    """Why a rule did not fire, and what it will do: an `ExplanationView` (W-213)."""

    issue_id: UUID
    rule_id: UUID
