"""Which state may follow which, for runs, receipts and rules; and the page that draws it.

`may_move` answers for one step, `render` writes `docs/lifecycle.md` (a test compares the two). A
step that no table names is an error: for a run 400 `invalid_transition` (W-097).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

import attrs

from engine.domain.receipts import ReceiptState
from engine.domain.records import Rule, RunStatus


class RuleState(StrEnum):
    """The states of a rule, told by `enabled` and `disabled_at` (W-027, W-080)."""

    WATCHING = "watching"
    SPENT = "spent"
    OFF = "off"
    DELETED = "deleted"


def state_of(rule: Rule) -> RuleState:
    """Return the state of a stored rule; a deleted one has no row."""
    if rule.disabled_at is not None:
        return RuleState.OFF
    return RuleState.WATCHING if rule.enabled else RuleState.SPENT


@attrs.frozen
class Move:
    """One allowed step; `source` is None where a row begins, `by` says who takes it and when."""

    source: StrEnum | None
    target: StrEnum
    by: str


_S = RunStatus
RUN_MOVES: Final = (
    Move(None, _S.QUEUED, "enqueue"),
    Move(None, _S.DEFERRED, "enqueue for later, retry with back-off"),
    Move(_S.DEFERRED, _S.QUEUED, "promotion at fire_at, runtime online"),
    Move(_S.QUEUED, _S.DISPATCHED, "claim, lease of 45 s"),
    Move(_S.DISPATCHED, _S.DISPATCHED, "redelivery after 90 s without live lease"),
    Move(_S.DISPATCHED, _S.QUEUED, "hand-over failed, daemon restarted"),
    Move(_S.DISPATCHED, _S.WAITING, "daemon waits for its directory"),
    Move(_S.DISPATCHED, _S.RUNNING, "daemon starts this claim"),
    Move(_S.WAITING, _S.RUNNING, "daemon starts this claim"),
    Move(_S.RUNNING, _S.COMPLETED, "daemon completes"),
    Move(_S.QUEUED, _S.FAILED, "claim refused; queued too long, never a wakeup run"),
    Move(_S.DISPATCHED, _S.FAILED, "redelivery refused, daemon fails, time limit"),
    Move(_S.WAITING, _S.FAILED, "daemon fails, time limit"),
    Move(_S.RUNNING, _S.FAILED, "daemon fails, time limit"),
    Move(_S.QUEUED, _S.CANCELLED, "cancel, rerun, rule or issue off"),
    Move(_S.DEFERRED, _S.CANCELLED, "cancel, rerun, rule or issue off, retry superseded"),
    Move(_S.DISPATCHED, _S.CANCELLED, "cancel, rerun"),
    Move(_S.WAITING, _S.CANCELLED, "cancel"),
    Move(_S.RUNNING, _S.CANCELLED, "cancel"),
)

_P = ReceiptState
RECEIPT_MOVES: Final = (
    Move(None, _P.FREE, "first fact of its type"),
    Move(_P.FREE, _P.FREE, "merge, the id rotates"),
    Move(_P.FREE, _P.CONSUMED, "dispatch into the rule's run"),
    Move(_P.FREE, _P.RESERVED, "claim of a run that it joins"),
    Move(_P.RESERVED, _P.CONSUMED, "the joined run started"),
    Move(_P.RESERVED, _P.FREE, "the joined run ended unstarted"),
    Move(_P.FREE, _P.DISCARDED, "rule off, changed or spent, newer time"),
    Move(_P.RESERVED, _P.DISCARDED, "rule off or changed"),
)

_R = RuleState
RULE_MOVES: Final = (
    Move(None, _R.WATCHING, "create"),
    Move(_R.WATCHING, _R.WATCHING, "fire, replace"),
    Move(_R.WATCHING, _R.SPENT, "one-shot fires"),
    Move(_R.SPENT, _R.SPENT, "woken by hand"),
    Move(_R.SPENT, _R.WATCHING, "replace, rearm"),
    Move(_R.WATCHING, _R.OFF, "disable, issue closed, right or agent lost"),
    Move(_R.SPENT, _R.OFF, "disable, issue closed, right or agent lost"),
    Move(_R.OFF, _R.WATCHING, "enable, replace"),
    Move(_R.WATCHING, _R.DELETED, "delete, issue deleted"),
    Move(_R.SPENT, _R.DELETED, "delete, issue deleted"),
    Move(_R.OFF, _R.DELETED, "delete, issue deleted"),
)

# The enumerations are kept apart: a member equals a text, so equal names would mix.
_ALLOWED: Final = frozenset(
    (type(move.target), move.source, move.target)
    for move in (*RUN_MOVES, *RECEIPT_MOVES, *RULE_MOVES)
)

_RUNS: Final = (
    "One execution that a daemon claims (`agent_task_queue.status`, W-097). A wakeup run is an "
    "ordinary run (W-094)."
)
_RECEIPTS: Final = (
    "What a rule has been told and what became of it. There is no status column: `task_id` and "
    "`processed_at` tell the state (W-061)."
)
_RULES: Final = (
    "`enabled` and `disabled_at` tell the state. A spent rule's last run may still start, the run "
    "of a rule that is off may not (W-106)."
)
_PAGE: Final = (
    ("Runs", _RUNS, RUN_MOVES),
    ("Receipts", _RECEIPTS, RECEIPT_MOVES),
    ("Rules", _RULES, RULE_MOVES),
)

_State = TypeVar("_State", bound=StrEnum)


def may_move(source: _State | None, target: _State) -> bool:
    """Tell whether a row may go from `source` (None: it does not exist yet) to `target`."""
    return (type(target), source, target) in _ALLOWED


def render() -> str:
    """Return the text of `docs/lifecycle.md`."""
    lines = ["# Life cycles", "", "Generated from `engine/domain/lifecycle.py`; a test compares."]
    for title, text, moves in _PAGE:
        lines += ["", f"## {title}", "", text, "", *_diagram(moves)]
    return "\n".join(lines) + "\n"


def _diagram(moves: Iterable[Move]) -> list[str]:
    """Return one Mermaid state diagram; a state that nothing leaves is an end."""
    moves = tuple(moves)
    left = {move.source for move in moves}
    ends = dict.fromkeys(move.target for move in moves if move.target not in left)
    return [
        "```mermaid",
        "stateDiagram-v2",
        *(f"    {move.source or '[*]'} --> {move.target}: {move.by}" for move in moves),
        *(f"    {end} --> [*]" for end in ends),
        "```",
    ]
