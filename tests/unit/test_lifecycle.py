"""The tables of allowed steps, and the page that is drawn from them."""

from enum import StrEnum
from pathlib import Path

import pytest

from engine.domain import lifecycle
from engine.domain.lifecycle import RuleState, may_move, state_of
from engine.domain.receipts import ReceiptState
from engine.domain.records import Rule, RunStatus
from tests.unit.samples import NOW, a_rule

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"

# W-097 and its table, written down by hand: everything else is refused.
RUN_STEPS = {
    None: {"queued", "deferred"},
    "deferred": {"queued", "cancelled"},
    "queued": {"dispatched", "failed", "cancelled"},
    "dispatched": {
        "dispatched",
        "queued",
        "waiting_local_directory",
        "running",
        "failed",
        "cancelled",
    },
    "waiting_local_directory": {"running", "failed", "cancelled"},
    "running": {"completed", "failed", "cancelled"},
    "completed": set(),
    "failed": set(),
    "cancelled": set(),
}
RECEIPT_STEPS = {
    None: {"free"},
    "free": {"free", "reserved", "consumed", "discarded"},
    "reserved": {"free", "consumed", "discarded"},
    "consumed": set(),
    "discarded": set(),
}
RULE_STEPS = {
    None: {"watching"},
    "watching": {"watching", "spent", "off", "deleted"},
    "spent": {"spent", "watching", "off", "deleted"},
    "off": {"watching", "deleted"},
    "deleted": set(),
}


@pytest.mark.parametrize(
    ("states", "steps"),
    [(RunStatus, RUN_STEPS), (ReceiptState, RECEIPT_STEPS), (RuleState, RULE_STEPS)],
)
def test_only_listed_steps_are_allowed(
    states: type[StrEnum], steps: dict[str | None, set[str]]
) -> None:
    """W-097, W-061: for every pair of states a step is allowed exactly if the tables name it."""
    assert set(steps) == {None, *states}
    for source in (None, *states):
        for target in states:
            assert may_move(source, target) == (target in steps[source]), (source, target)


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (a_rule(), RuleState.WATCHING),
        (a_rule(enabled=False), RuleState.SPENT),
        (a_rule(enabled=False, disabled_at=NOW), RuleState.OFF),
    ],
)
def test_two_columns_tell_the_state_of_a_rule(rule: Rule, state: RuleState) -> None:
    """W-027: `disabled_at` means switched off; without it a rule that is not enabled is spent."""
    assert state_of(rule) is state


def test_the_page_is_the_generated_text() -> None:
    """W-097: `docs/lifecycle.md` is what `lifecycle.render()` returns."""
    assert PAGE.read_text(encoding="utf-8") == lifecycle.render()


def test_the_diagrams_have_beginnings_and_ends() -> None:
    """W-097: a state that nothing leaves is drawn as an end, every other state is not."""
    text = lifecycle.render()
    ends = {line.split()[0] for line in text.splitlines() if line.endswith("--> [*]")}
    assert ends == {"completed", "failed", "cancelled", "consumed", "discarded", "deleted"}
    assert text.count("stateDiagram-v2") == 3
    assert text.count("    [*] --> ") == 4
