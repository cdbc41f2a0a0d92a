"""A sound request for every route about the wakeup rules of an issue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from engine.domain.commands import wakeups
from engine.domain.rules import RuleDraft
from engine.domain.views.explain import ExplanationView, PreviewView
from engine.domain.views.wakeups import RuleRunView, RuleView
from tests.web.sample import ON_ISSUE as _ISSUE
from tests.web.sample import THING, Sample
from tests.web.stand_in import AGENT, RUN, USER

_AT: Final = "2030-01-02T03:04:05.000006+01:00"
_INSTANT: Final = datetime(2030, 1, 2, 2, 4, 5, 6, tzinfo=UTC)
_RULE: Final[Mapping[str, Any]] = {**_ISSUE, "rule_id": THING}
_RULE_FIELDS: Final[Mapping[str, Any]] = {
    "agent_id": str(AGENT),
    "instruction": "Look.",
    "kind": "event",
    "mode": "once",
    "event_types": ["comment.created"],
    "filter_agent_id": str(AGENT),
    "filter_actor_type": "member",
    "filter_actor_id": str(USER),
    "filter_task_id": str(RUN),
    "parent_comment_id": str(THING),
    "after_seconds": 5,
    "at": _AT,
    "interval_seconds": 60,
    "cron_expression": "* * * * *",
    "timezone": "UTC",
}
_DRAFT: Final = RuleDraft(
    agent_id=AGENT,
    instruction="Look.",
    kind="event",
    mode="once",
    event_types=("comment.created",),
    filter_agent_id=AGENT,
    filter_actor_type="member",
    filter_actor_id=USER,
    filter_task_id=RUN,
    parent_comment_id=THING,
    after_seconds=5,
    at=_INSTANT,
    interval_seconds=60,
    cron_expression="* * * * *",
    timezone="UTC",
)

WAKEUPS: Final = (
    Sample("GET", "/issue-wakeup-events", {}, None, None),
    Sample("GET", "/issues/WF-12/wakeups", {}, wakeups.ListRules(**_ISSUE), tuple[RuleView, ...]),
    Sample(
        "POST",
        "/issues/WF-12/wakeups",
        _RULE_FIELDS,
        wakeups.CreateRule(**_ISSUE, draft=_DRAFT),
        RuleView,
        201,
    ),
    Sample(
        "POST",
        f"/issues/WF-12/wakeups/preview?from=2030-01-02T02:04:05.000006Z&wakeup_id={THING}",
        _RULE_FIELDS,
        wakeups.PreviewRule(**_RULE, draft=_DRAFT, start=_INSTANT),
        PreviewView,
    ),
    Sample(
        "GET",
        f"/issues/WF-12/wakeups/{THING}/explain",
        {},
        wakeups.ExplainRule(**_RULE),
        ExplanationView,
    ),
    Sample("GET", f"/issues/WF-12/wakeups/{THING}", {}, wakeups.GetRule(**_RULE), RuleView),
    Sample(
        "PUT",
        f"/issues/WF-12/wakeups/{THING}",
        _RULE_FIELDS,
        wakeups.ReplaceRule(**_RULE, draft=_DRAFT),
        RuleView,
    ),
    Sample(
        "PATCH",
        f"/issues/WF-12/wakeups/{THING}/instruction",
        {"instruction": "Look twice.", "expected_instruction": "Look.", "revision": 3},
        wakeups.EditInstruction(
            **_RULE, instruction="Look twice.", expected_instruction="Look.", revision=3
        ),
        None,
        204,
    ),
    Sample("DELETE", f"/issues/WF-12/wakeups/{THING}", {}, wakeups.DeleteRule(**_RULE), None, 204),
    Sample(
        "POST",
        f"/issues/WF-12/wakeups/{THING}/enable",
        {"revision": 3, "rearm": True, "at": _AT},
        wakeups.EnableRule(**_RULE, revision=3, rearm=True, at=_INSTANT),
        RuleView,
    ),
    Sample(
        "POST",
        f"/issues/WF-12/wakeups/{THING}/disable",
        {},
        wakeups.DisableRule(**_RULE),
        RuleView,
    ),
    Sample(
        "POST",
        f"/issues/WF-12/wakeups/{THING}/trigger",
        {},
        wakeups.TriggerRule(**_RULE),
        None,
        204,
    ),
    Sample(
        "POST",
        f"/issues/WF-12/wakeups/{THING}/checkin",
        {"note": "All quiet."},
        wakeups.CheckIn(**_RULE, note="All quiet."),
        None,
        204,
    ),
    Sample(
        "GET",
        f"/issues/WF-12/wakeups/{THING}/runs",
        {},
        wakeups.ListRuleRuns(**_RULE),
        tuple[RuleRunView, ...],
    ),
)
