"""Wakeup rules on issues (api.md, Wakeups)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from engine import limits
from engine.domain.commands import wakeups as ask
from engine.domain.events import catalogue
from engine.domain.views.explain import ExplanationView, PreviewView
from engine.domain.views.wakeups import RuleRunView, RuleView
from web.routing import Call, Routes, Scope
from web.schemas.inputs import Nothing
from web.schemas.wakeups import (
    CheckingIn,
    EditingInstruction,
    Enabling,
    Previewing,
    RuleConfiguration,
)

routes: Final = Routes("Wakeups")
_RULES: Final = "/issues/{issue}/wakeups"
_RULE: Final = "/issues/{issue}/wakeups/{wakeup}"


@routes("GET", "/issue-wakeup-events", answers=Mapping[str, Any], scope=Scope.INSTANCE)
async def list_wakeup_events(_call: Call[Nothing]) -> Any:
    """Return the events that a rule may wait for, with everything that they admit."""
    return catalogue()


@routes("GET", _RULES, answers=tuple[RuleView, ...])
async def list_wakeups(call: Call[Nothing]) -> Any:
    """List all rules of an issue, oldest first, as a plain array."""
    return await call.read(ask.ListRules(workspace_id=call.workspace_id, issue_id=call.issue_id))


@routes(
    "POST",
    _RULES,
    takes=RuleConfiguration,
    answers=RuleView,
    statuses=(HTTPStatus.CREATED,),
    bytes_max=limits.BODY_RULE_BYTES_MAX,
)
async def create_wakeup(call: Call[RuleConfiguration]) -> Any:
    """Register a rule; it watches from now on."""
    command = ask.CreateRule(
        workspace_id=call.workspace_id, issue_id=call.issue_id, draft=call.input.draft()
    )
    return await call.submit(command)


@routes(
    "POST",
    f"{_RULES}/preview",
    takes=RuleConfiguration,
    asks=Previewing,
    answers=PreviewView,
    bytes_max=limits.BODY_RULE_BYTES_MAX,
)
async def preview_wakeup(call: Call[RuleConfiguration]) -> Any:
    """Say what would become of a rule, and store nothing.

    `from` is where its times begin, else now; `wakeup_id` names a rule that is edited.
    """
    asked = call.query
    query = ask.PreviewRule(
        workspace_id=call.workspace_id,
        issue_id=call.issue_id,
        draft=call.input.draft(),
        start=asked.start,
        rule_id=asked.wakeup_id,
    )
    return await call.read(query)


@routes("GET", _RULE, answers=RuleView)
async def get_wakeup(call: Call[Nothing]) -> Any:
    """Return a rule."""
    return await call.read(ask.GetRule(**_rule(call)))


@routes(
    "PUT",
    _RULE,
    takes=RuleConfiguration,
    answers=RuleView,
    bytes_max=limits.BODY_RULE_BYTES_MAX,
)
async def replace_wakeup(call: Call[RuleConfiguration]) -> Any:
    """Replace the whole configuration of a rule and switch it on."""
    return await call.submit(ask.ReplaceRule(**_rule(call), draft=call.input.draft()))


@routes(
    "PATCH",
    f"{_RULE}/instruction",
    takes=EditingInstruction,
    bytes_max=limits.BODY_INSTRUCTION_BYTES_MAX,
)
async def edit_wakeup_instruction(call: Call[EditingInstruction]) -> None:
    """Change the text of a rule that nobody changed meanwhile; everything else stays."""
    await call.submit(ask.EditInstruction(**_rule(call), **call.input.sent()))


@routes("DELETE", _RULE)
async def delete_wakeup(call: Call[Nothing]) -> None:
    """Remove a rule with its pending inputs; runs that have started stay."""
    await call.submit(ask.DeleteRule(**_rule(call)))


@routes(
    "POST",
    f"{_RULE}/enable",
    takes=Enabling,
    answers=RuleView,
    bytes_max=limits.BODY_ENABLE_BYTES_MAX,
)
async def enable_wakeup(call: Call[Enabling]) -> Any:
    """Switch a rule on as it is stored."""
    return await call.submit(ask.EnableRule(**_rule(call), **call.input.sent()))


@routes("POST", f"{_RULE}/disable", answers=RuleView)
async def disable_wakeup(call: Call[Nothing]) -> Any:
    """Switch a rule off; its pending inputs are discarded, started runs go on."""
    return await call.submit(ask.DisableRule(**_rule(call)))


@routes("POST", f"{_RULE}/trigger")
async def trigger_wakeup(call: Call[Nothing]) -> None:
    """Wake now."""
    await call.submit(ask.TriggerRule(**_rule(call)))


@routes(
    "POST",
    f"{_RULE}/checkin",
    takes=CheckingIn,
    bytes_max=limits.BODY_CHECK_IN_BYTES_MAX,
)
async def check_in_to_wakeup(call: Call[CheckingIn]) -> None:
    """Say, from a run of a scheduled check, that there is nothing to report; needs a run token."""
    await call.submit(ask.CheckIn(**_rule(call), note=call.input.note))


@routes("GET", f"{_RULE}/runs", answers=tuple[RuleRunView, ...])
async def list_wakeup_runs(call: Call[Nothing]) -> Any:
    """List the latest runs of a rule, newest first."""
    return await call.read(ask.ListRuleRuns(**_rule(call)))


@routes("GET", f"{_RULE}/explain", answers=ExplanationView)
async def explain_wakeup(call: Call[Nothing]) -> Any:
    """Say why a rule did not fire, and what it will do."""
    return await call.read(ask.ExplainRule(**_rule(call)))


def _rule(call: Call[Any]) -> dict[str, Any]:
    """Return which rule a call is about, as fields of its command."""
    return {
        "workspace_id": call.workspace_id,
        "issue_id": call.issue_id,
        "rule_id": call.id,
    }
