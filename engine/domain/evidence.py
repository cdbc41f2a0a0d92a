"""What a run is told about why it was started: bounded facts, and the note made of them.

`write_note` folds new facts into what a queued run already carries and renders the note once,
from structure; facts are never read back out of a note (W-085). The evidence holds exactly what
its note prints, so an agent that is offline for a night costs a dispatch nothing (W-085, W-089).
Rendering stored evidence gives the stored note again, byte for byte; that is how a note that
somebody else rewrote is recognised (W-090).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain import receipts
from engine.domain.records import Json, Kind, OwnRun, Rule
from engine.limits import (
    EVIDENCE_BYTES_MAX,
    INSTRUCTION_BYTES_MAX,
    NOTE_BYTES_MAX,
    REFERENCE_BYTES_MAX,
)

VERSION: Final = 1
CONTEXT_KEY: Final = "wakeup_evidence"

_INSTRUCTION_HEADING: Final = "Instruction:"
_FACTS_HEADING: Final = (
    "What happened. These facts may be out of date: look up the current state before you decide."
)
_OMISSION: Final = (
    "Some facts above stand for several, or were shortened or left out: "
    "read the issue and its comments for the rest."
)
_LEGACY_HEADING: Final = (
    "Earlier note of this run, kept as it was and less binding than the instruction above:"
)
_FIXED_BYTES: Final = len(f"\n{_FACTS_HEADING}\n{_OMISSION}\n\n{_LEGACY_HEADING}\n")

# What is left of a fact that is too large to print: ids, times, count, actor (W-089).
_REFERENCES: Final = (
    "event_id",
    "occurred_at",
    "first_occurred_at",
    "observed_at",
    "planned_at",
    "requested_at",
    "coalesced_count",
    "issue_id",
    "task_id",
    "source_task_id",
    "agent_id",
    "comment_id",
    "parent_comment_id",
    "thread_id",
    "label_id",
    "reaction_id",
    "attachment_id",
    "target_type",
    "target_id",
    "actor_type",
    "actor_id",
)

# Control characters say nothing to an agent, and JSON writes each in six bytes.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_encode: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


@attrs.frozen(kw_only=True)
class Fact:
    """One fact for the agent; `receipt_id` is known while its receipt is being consumed."""

    event_type: str
    payload: Json
    receipt_id: UUID | None = None


@attrs.frozen(kw_only=True)
class Evidence:
    """The facts of one run, at most one of each type, oldest first (W-085).

    `instruction` is the text of the last rendering; `legacy` an older note carried as it was;
    `omitted` says that detail is missing.
    """

    instruction: str
    facts: tuple[Fact, ...]
    legacy: str
    omitted: bool

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored as `context.wakeup_evidence`."""
        return {
            "version": VERSION,
            "instruction": self.instruction,
            "facts": [{"event_type": f.event_type, "payload": f.payload} for f in self.facts],
            "legacy": self.legacy,
            "omitted": self.omitted,
        }


@attrs.frozen
class Note:
    """The rendered text (at most 40,000 bytes) and the evidence that renders to it."""

    text: str
    evidence: Evidence


_NOTHING: Final = Evidence(instruction="", facts=(), legacy="", omitted=False)


def write_note(rule: Rule, facts: Sequence[Fact], queued: OwnRun | None = None) -> Note:
    """Return the note of a run of `rule` that shall carry `facts`, oldest first.

    `queued` is the run that waits already: its facts stay, a type already there is replaced and
    its count, first time and actors are added (W-085); a timer keeps the newest fact only (W-086).
    The instruction is always the rule's present one (W-028).
    """
    earlier = _NOTHING if queued is None else _carried(rule, queued)
    folded, is_folded = _fold(rule.kind, (*earlier.facts, *facts))
    return _render(
        rule,
        Evidence(
            instruction=_bounded_instruction(rule.instruction),
            facts=folded,
            legacy=earlier.legacy,
            omitted=earlier.omitted or is_folded,
        ),
    )


def canonical(value: Any) -> str:
    """Return canonical JSON: sorted keys, no spaces, UTF-8 unescaped (W-088)."""
    return _encode(value)


def parse(value: object) -> Evidence | None:
    """Return stored evidence as a record; None for anything that is not version 1 of it."""
    match value:
        case {
            "version": 1,
            "instruction": str(instruction),
            "facts": list(items),
            "legacy": str(legacy),
            "omitted": bool(omitted),
        }:
            facts = []
            for item in items:
                match item:
                    case {"event_type": str(event_type), "payload": dict(payload)}:
                        facts.append(Fact(event_type=event_type, payload=payload))
                    case _:
                        return None
            return Evidence(
                instruction=instruction, facts=tuple(facts), legacy=legacy, omitted=omitted
            )
        case _:
            return None


def _carried(rule: Rule, queued: OwnRun) -> Evidence:
    """Return what a queued run tells already.

    If its evidence does not render to its note, an older dispatcher or a person wrote the note:
    the whole text goes along as one opaque item (W-090). The comparison renders the stored
    instruction, so a text edit in between turns nothing into legacy.
    """
    stored = parse(queued.context.get(CONTEXT_KEY))
    if stored is not None and _render(rule, stored).text == queued.handoff_note:
        return stored
    return attrs.evolve(stored or _NOTHING, legacy=_CONTROL.sub(" ", queued.handoff_note))


def _fold(kind: Kind, facts: Sequence[Fact]) -> tuple[tuple[Fact, ...], bool]:
    """Return one fact a type, the latest last, and whether one of them stands for several."""
    if kind is not Kind.EVENT:
        newest = tuple(facts[-1:])  # what it replaces is out of date, not left out (W-086)
        return newest, _stand_for_several(newest)
    by_type: dict[str, Fact] = {}
    for fact in facts:
        older = by_type.pop(fact.event_type, None)
        by_type[fact.event_type] = (
            fact
            if older is None
            else attrs.evolve(fact, payload=receipts.merge(older.payload, fact.payload))
        )
    folded = tuple(by_type.values())
    return folded, _stand_for_several(folded)


def _stand_for_several(facts: Iterable[Fact]) -> bool:
    return any(receipts.facts_count(fact.payload) > 1 for fact in facts)


def _render(rule: Rule, evidence: Evidence) -> Note:
    """Bound evidence to what fits and print it (W-087, W-089).

    The room of every fixed part is set aside whether it is printed or not; that makes rendering
    idempotent. Legacy text gets what the facts leave. It and the instruction may double in JSON
    while facts are JSON already, so half of 64 KiB for all that is printed keeps the evidence
    with legacy text within 64 KiB; without legacy text the note's own bound does.
    """
    head = _head(rule, evidence.instruction)
    room = space = NOTE_BYTES_MAX - _FIXED_BYTES - _bytes(head)
    omitted = evidence.omitted
    kept: list[Fact] = []
    lines: list[str] = []
    for fact in reversed(evidence.facts):
        line = _line(fact)
        size = _bytes(line)
        if size > space:
            fact = _reduced(fact)  # noqa: PLW2901 - the same fact, told more briefly
            line = _line(fact)
            size = _bytes(line)
            omitted = True
        if size > room:
            omitted = True
            break
        room -= size
        kept.append(fact)
        lines.append(line)
    legacy = _cut(evidence.legacy, EVIDENCE_BYTES_MAX // 2 - (NOTE_BYTES_MAX - room))
    omitted = omitted or legacy != evidence.legacy
    parts = [head, f"\n{_FACTS_HEADING}\n", *reversed(lines)]
    if omitted:
        parts.append(f"{_OMISSION}\n")
    if legacy:
        parts.append(f"\n{_LEGACY_HEADING}\n{legacy}\n")
    text = "".join(parts)[:-1]
    facts = tuple(reversed(kept))
    told = Evidence(instruction=evidence.instruction, facts=facts, legacy=legacy, omitted=omitted)
    return Note(text, told)


def _head(rule: Rule, instruction: str) -> str:
    """Return the note down to its facts."""
    head = f"Wakeup {rule.id} fired.\n\n{_INSTRUCTION_HEADING}\n{instruction}\n"
    if rule.kind is Kind.EVERY or rule.kind is Kind.CRON:
        head += (
            "\nIf there is nothing to report, check in instead of writing a comment:\n"
            f'wakeful issue wakeup checkin {rule.issue_id} {rule.id} --note "..."\n'
        )
    return head


def _line(fact: Fact) -> str:
    return f"{fact.event_type} {_encode(fact.payload)}\n"


def _reduced(fact: Fact) -> Fact:
    """Return a fact as references only, each value at most 256 bytes (W-089)."""
    payload = {
        key: value
        for key in _REFERENCES
        if not isinstance(value := fact.payload.get(key), dict | list | None)
        and _bytes(_encode(value)) <= REFERENCE_BYTES_MAX
    }
    if fact.receipt_id is not None:
        payload["receipt_id"] = str(fact.receipt_id)
    return attrs.evolve(fact, payload=payload)


def _bounded_instruction(instruction: str) -> str:
    """Return the text to print: a save bounds it (W-002), other writers may not have."""
    return _CONTROL.sub(" ", _cut(instruction, INSTRUCTION_BYTES_MAX))


def _cut(text: str, bytes_max: int) -> str:
    """Return the start of a text, at most so many UTF-8 bytes and no split character."""
    encoded = text.encode()
    if len(encoded) <= bytes_max:
        return text
    return encoded[: max(bytes_max, 0)].decode(errors="ignore")


def _bytes(text: str) -> int:
    return len(text.encode())
