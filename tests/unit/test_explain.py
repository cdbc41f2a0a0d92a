"""The closed lists of an explanation, and the page that tells what they mean."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from engine.domain.decision import REFUSALS, Outcome
from engine.domain.explain import (
    Circumstances,
    Code,
    FactOutcome,
    IgnoreReason,
    State,
    explain,
    guards_of,
    sentences_of,
)
from engine.domain.records import Kind
from engine.domain.schedule import Shift
from tests.unit.samples import NOW, a_rule, a_snapshot

PAGE: Final = (Path(__file__).parents[2] / "docs/use/explain.md").read_text()


def listed(section: str) -> list[str]:
    """Return the first cells of the table in a section of the page."""
    found = re.search(rf"^## {section}\n(.*?)(^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    return re.findall(r"^\| `(\w+)` \| [^|]+", found[1], re.MULTILINE)


def test_every_code_is_documented_and_no_other() -> None:
    """W-255: the codes of the page, each with cause and remedy, are those of the enum."""
    assert listed("Codes") == list(Code)
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE) == list(Code)
    assert listed("Why a fact is ignored") == list(IgnoreReason)


@pytest.mark.parametrize("words", [State, Outcome, FactOutcome, Shift])
def test_every_word_of_an_answer_is_documented(words: type[State]) -> None:
    """W-255: what an explanation may say stands on the page, word by word."""
    assert [word for word in words if f"`{word}`" not in PAGE] == []


def test_every_reason_to_switch_off_is_a_code() -> None:
    """W-080, W-255: whatever `decide` refuses for can be explained."""
    assert {*REFUSALS} <= {*Code}
    with pytest.raises(ValueError, match="invented"):
        Code("invented")


def circumstances(**changes: object) -> Circumstances:
    """Return the circumstances of a rule at rest."""
    values = {
        "snapshot": a_snapshot(),
        "now": NOW,
        "is_candidate": False,
        "is_contended": False,
        "paused": None,
        "agent": None,
        "run": None,
        "refusal": None,
        "refused": None,
    }
    return Circumstances(**{**values, **changes})  # type: ignore[arg-type] # by name


def test_nothing_is_foretold_of_a_rule_that_no_dispatch_looks_at() -> None:
    """W-213: a lost right switches a rule off at its next input, not before."""
    without_right = circumstances(snapshot=a_snapshot(may_invoke=False))
    found = explain(without_right)
    assert (found.state, found.code, found.next_dispatch) == (
        State.BLOCKED,
        Code.PERMISSION_LOST,
        Outcome.IDLE,
    )
    assert sentences_of(found, (), {IgnoreReason.FILTERED_ACTOR: 3}) == (
        "Its creator may no longer invoke the agent. The next input switches it off.",
        "Ignored so far: 3 x filtered_actor.",
    )


def test_timers_need_no_guard() -> None:
    """W-058: guards stand for rules that listen, one more where a run registered it."""
    assert guards_of(a_snapshot(rule=a_rule(kind=Kind.EVERY))) == ()
    codes = [guard.code for guard in guards_of(a_snapshot())]
    assert codes == ["self_loop_own_run", "self_loop_registering_run"]
    by_person = a_snapshot(rule=a_rule(source_task_id=None))
    assert [guard.code for guard in guards_of(by_person)] == ["self_loop_own_run"]
