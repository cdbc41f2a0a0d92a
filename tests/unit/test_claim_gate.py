"""The gate of a claim: which check refuses a run."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from engine.domain.claim_gate import GateRule, GateRun, Refusal, describe, refusal
from tests.unit.samples import ISSUE, an_id

AGENT, PERSON, OTHER = an_id(61), an_id(62), an_id(63)
RULE = GateRule(
    issue_id=ISSUE, agent_id=AGENT, created_by=PERSON, revision=3, is_enabled=True, is_off=False
)
WAKEUP = GateRun(
    issue_id=ISSUE,
    agent_id=AGENT,
    originator_user_id=PERSON,
    has_issue=True,
    may_invoke=True,
    has_runtime=True,
    is_wakeup=True,
    is_system=False,
    revision=3,
    rule=RULE,
)
ORDINARY = attrs.evolve(WAKEUP, is_wakeup=False, rule=None, revision=None)
# Nobody stands behind the run of a system rule, whose own target may be empty.
SYSTEM = attrs.evolve(
    WAKEUP,
    is_system=True,
    originator_user_id=OTHER,
    may_invoke=False,
    rule=attrs.evolve(RULE, created_by=None, agent_id=OTHER),
)


def with_rule(run: GateRun, **changes: Any) -> GateRun:
    assert run.rule is not None
    return attrs.evolve(run, rule=attrs.evolve(run.rule, **changes))


@pytest.mark.parametrize(
    "run", [WAKEUP, ORDINARY, SYSTEM, with_rule(WAKEUP, is_enabled=False)], ids=str
)
def test_what_stands_is_handed_out(run: GateRun) -> None:
    """W-106, W-107: a run passes whose rule stands; a person's rule need not be enabled."""
    assert refusal(run) is None


@pytest.mark.parametrize(
    ("run", "check"),
    [
        (attrs.evolve(ORDINARY, has_issue=False), Refusal.ISSUE_DELETED),
        (attrs.evolve(ORDINARY, may_invoke=False), Refusal.PERMISSION_LOST),
        (attrs.evolve(WAKEUP, has_issue=False), Refusal.ISSUE_DELETED),
        (attrs.evolve(WAKEUP, rule=None), Refusal.WAKEUP_DELETED),
        (with_rule(WAKEUP, issue_id=OTHER), Refusal.TARGET_CHANGED),
        (with_rule(WAKEUP, agent_id=OTHER), Refusal.TARGET_CHANGED),
        (with_rule(WAKEUP, revision=4), Refusal.REVISION_CHANGED),
        (attrs.evolve(WAKEUP, revision=None), Refusal.REVISION_CHANGED),
        (with_rule(WAKEUP, is_off=True), Refusal.DISABLED),
        (with_rule(WAKEUP, created_by=OTHER), Refusal.CREATOR_CHANGED),
        (attrs.evolve(WAKEUP, may_invoke=False), Refusal.PERMISSION_LOST),
    ],
)
def test_a_persons_rule_must_stand_as_it_was(run: GateRun, check: Refusal) -> None:
    """W-106: each check of the gate refuses alone, and is the one that is named (W-236)."""
    assert refusal(run) is check
    assert describe(check)


@pytest.mark.parametrize(
    ("run", "check"),
    [
        (attrs.evolve(SYSTEM, rule=None), Refusal.WAKEUP_DELETED),
        (with_rule(SYSTEM, issue_id=OTHER), Refusal.TARGET_CHANGED),
        (with_rule(SYSTEM, revision=4), Refusal.REVISION_CHANGED),
        (with_rule(SYSTEM, is_off=True), Refusal.DISABLED),
        (with_rule(SYSTEM, is_enabled=False), Refusal.DISABLED),
        (attrs.evolve(SYSTEM, has_runtime=False), Refusal.AGENT_UNAVAILABLE),
    ],
)
def test_the_systems_rule_must_be_on(run: GateRun, check: Refusal) -> None:
    """W-107: the system's rule must be on, of this revision and issue, its agent able to run."""
    assert refusal(run) is check
