"""Bounded evidence and the note that is made of it."""

import json
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.domain.evidence import Evidence, Fact, Note, canonical, parse, write_note
from engine.domain.records import OwnRun, Rule
from engine.limits import EVIDENCE_BYTES_MAX, NOTE_BYTES_MAX
from tests.unit.samples import (
    AGENT,
    ISSUE,
    MEMBER,
    NOW,
    RULE,
    a_cron,
    a_payload,
    a_rule,
    a_run,
    an_alarm,
    an_id,
    an_interval,
)

TYPES = [f"comment.kind{number}" for number in range(25)]
OMISSION = "Some facts above stand for several"
LEGACY = "Earlier note of this run"
TIMERS = [an_interval(NOW), a_cron(NOW, "0 9 * * *")]


def a_fact(event_type: str = "comment.created", number: int = 1, **changes: Any) -> Fact:
    return Fact(
        event_type=event_type,
        payload=a_payload(event_type, number, **changes),
        receipt_id=an_id(2_000 + number),
    )


def waiting(note: Note, text: str | None = None) -> OwnRun:
    """Return the queued run that carries a note, as the database gives it back."""
    context = {"wakeup_revision": 3, "wakeup_evidence": note.evidence.to_json()}
    return a_run(note.text if text is None else text, json.loads(json.dumps(context)))


def fact_lines(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the fact lines of a note, type and payload."""
    lines = (line.partition(" ") for line in text.split("\n"))
    return [(kind, json.loads(rest)) for kind, _, rest in lines if rest.startswith("{")]


def size(value: object) -> int:
    return len(canonical(value).encode())


# --- The shape of a note -------------------------------------------------------------------------


def test_the_note_of_an_event_rule() -> None:
    """W-087: rule, instruction, heading with the advice to look first, one line a fact."""
    note = write_note(a_rule(instruction="Answer.\nBriefly."), [a_fact()])
    line = f"comment.created {canonical(a_payload())}"
    assert note.text == (
        f"Wakeup {RULE} fired.\n"
        "\n"
        "Instruction:\n"
        "Answer.\nBriefly.\n"
        "\n"
        "What happened. These facts may be out of date: "
        "look up the current state before you decide.\n"
        f"{line}"
    )


@pytest.mark.parametrize("rule", TIMERS)
def test_a_scheduled_check_may_check_in(rule: Rule) -> None:
    """W-087: the note of `every` and `cron` has the exact check-in command, before the facts."""
    text = write_note(rule, [a_fact("time.due")]).text
    command = f'wakeful issue wakeup checkin {ISSUE} {RULE} --note "..."'
    marks = [f"Wakeup {RULE}", rule.instruction, command, "What happened", "time.due {"]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


@pytest.mark.parametrize("rule", [a_rule(), an_alarm(NOW)])
def test_other_kinds_have_no_check_in(rule: Rule) -> None:
    """W-087: an event rule and a one-shot timer are not told to check in."""
    assert "checkin" not in write_note(rule, [a_fact()]).text


def test_fact_lines_are_canonical() -> None:
    """W-088: what follows the first blank is sorted, without spaces, in plain UTF-8."""
    odd = {"ä": "Grüße — \u2028 😀", "z": [1, {"b": None, "a": 0.5}], "quote": '"\\\n'}
    text = write_note(a_rule(), [a_fact(odd=odd), a_fact("issue.updated", 2)]).text
    lines = [line for line in text.split("\n") if line.startswith(("comment.", "issue."))]
    assert len(lines) == 2
    for line in lines:
        rest = line.partition(" ")[2]
        again = json.dumps(
            json.loads(rest), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        assert again.encode() == rest.encode()
    assert "Grüße" in lines[0]


def test_the_stored_form() -> None:
    """W-085: version, instruction, facts of type and payload, legacy, omitted; and back again."""
    note = write_note(a_rule(), [a_fact()])
    stored = note.evidence.to_json()
    assert stored == {
        "version": 1,
        "instruction": a_rule().instruction,
        "facts": [{"event_type": "comment.created", "payload": a_payload()}],
        "legacy": "",
        "omitted": False,
    }
    without_receipt = attrs.evolve(a_fact(), receipt_id=None)
    assert parse(stored) == attrs.evolve(note.evidence, facts=(without_receipt,))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {},
        {"version": 2, "instruction": "", "facts": [], "legacy": "", "omitted": False},
        {"version": 1, "instruction": None, "facts": [], "legacy": "", "omitted": False},
        {"version": 1, "instruction": "", "facts": {}, "legacy": "", "omitted": False},
        {"version": 1, "instruction": "", "facts": ["x"], "legacy": "", "omitted": False},
        {
            "version": 1,
            "instruction": "",
            "facts": [{"event_type": "x", "payload": 1}],
            "legacy": "",
            "omitted": False,
        },
        {"version": 1, "instruction": "", "facts": [], "legacy": "", "omitted": 0},
    ],
)
def test_other_shapes_are_no_evidence(value: object) -> None:
    """W-090: evidence of another version or a broken shape counts as none."""
    assert parse(value) is None


# --- Folding -------------------------------------------------------------------------------------


def test_facts_of_a_queued_run_are_folded() -> None:
    """W-085: three types, one of them twice: each once, counts added, headings not repeated."""
    rule = a_rule()
    first = write_note(rule, [a_fact(number=1), a_fact("issue.updated", 2)])
    again = a_fact(number=3, actor=("agent", AGENT), source=an_id(9))
    second = write_note(rule, [again, a_fact("task.failed", 4)], waiting(first))
    lines = fact_lines(second.text)
    assert [kind for kind, _ in lines] == ["issue.updated", "comment.created", "task.failed"]
    comment = dict(lines)["comment.created"]
    assert comment["coalesced_count"] == 2
    assert comment["event_id"] == "key-3"
    assert comment["first_occurred_at"] == a_payload(number=1)["occurred_at"]
    assert comment["actors"] == [
        {"type": "member", "id": str(MEMBER)},
        {"type": "agent", "id": str(AGENT)},
    ]
    assert comment["source_task_ids"] == [str(an_id(9))]
    for heading in ("What happened", "Instruction:", OMISSION):
        assert second.text.count(heading) == 1
    assert LEGACY not in second.text


def test_receipts_of_one_type_are_folded_without_a_run() -> None:
    """W-066: older receipts of one type, drained together, become one counted line."""
    note = write_note(a_rule(), [a_fact(number=n) for n in range(1, 6)])
    [(_, payload)] = fact_lines(note.text)
    assert payload["coalesced_count"] == 5
    assert note.evidence.omitted


def test_several_facts_in_one_advise_to_read_on() -> None:
    """W-066: a fact that stands for several sets `omitted` and brings the omission line."""
    note = write_note(a_rule(), [a_fact(coalesced_count=3)])
    assert '"coalesced_count":3' in note.text
    assert note.text.endswith("read the issue and its comments for the rest.")
    assert note.evidence.omitted
    assert OMISSION not in write_note(a_rule(), [a_fact()]).text


@pytest.mark.parametrize("rule", [*TIMERS, an_alarm(NOW)])
def test_a_timer_keeps_the_newest_fact(rule: Rule) -> None:
    """W-086: three missed periods into one queued run show one line, the last."""
    note = write_note(rule, [a_fact("time.due", 1, planned_at="1")])
    assert not note.evidence.omitted
    for number in (2, 3):
        due = a_fact("time.due", number, planned_at=str(number))
        note = write_note(rule, [due], waiting(note))
    assert fact_lines(note.text) == [("time.due", a_payload("time.due", 3, planned_at="3"))]
    assert OMISSION not in note.text, "a newer time replaces an older one, nothing is left out"
    assert not note.evidence.omitted


def test_a_timer_forgets_other_types_too() -> None:
    """W-086: of a time and a wake-up by hand only the later one is kept."""
    note = write_note(TIMERS[0], [a_fact("time.due", 1), a_fact("wakeup.manual", 2)])
    assert [kind for kind, _ in fact_lines(note.text)] == ["wakeup.manual"]


def test_a_night_offline_stays_small() -> None:
    """W-085: 5,000 comments one by one leave one fact that counts 5,000."""
    rule = a_rule()
    note = write_note(rule, [a_fact(number=0)])
    largest = 0
    for number in range(1, 5_000):
        note = write_note(rule, [a_fact(number=number)], waiting(note))
        largest = max(largest, len(note.text.encode()))
    [(_, payload)] = fact_lines(note.text)
    assert payload["coalesced_count"] == 5_000
    assert largest < 2_000


# --- Bounds --------------------------------------------------------------------------------------


def test_huge_facts_of_all_types() -> None:
    """W-089: 25 huge facts and a multi-byte instruction: at most 40,000 bytes, the newest stays."""
    facts = [a_fact(kind, n, junk="é" * 50_000) for n, kind in enumerate(TYPES)]
    note = write_note(a_rule(instruction="€" * 4_000), facts)
    assert len(note.text.encode()) <= NOTE_BYTES_MAX
    assert note.evidence.omitted
    assert note.text.count(OMISSION) == 1
    assert fact_lines(note.text)[-1][0] == TYPES[-1]


def test_a_fact_that_just_fits() -> None:
    """W-089: around the limit a fact is printed whole or as references, never past 40,000 bytes."""
    whole, longest = 0, 0
    for length in range(38_000, 40_000, 3):
        note = write_note(a_rule(), [a_fact(junk="x" * length, coalesced_count=2)], a_run("old"))
        longest = max(longest, len(note.text.encode()))
        whole += "junk" in note.text
    assert 0 < whole < 667
    assert 39_700 < longest <= NOTE_BYTES_MAX


def test_an_oversize_fact_becomes_references() -> None:
    """W-089: a 100 kB payload still shows ids, times, count, actor and its receipt."""
    fact = a_fact(
        "comment.created",
        7,
        comment_id="c" * 36,
        thread_id="t" * 300,
        body="x" * 100_000,
        coalesced_count=4,
        source=an_id(9),
    )
    note = write_note(a_rule(), [fact])
    [(_, payload)] = fact_lines(note.text)
    assert payload == {
        "event_id": "key-7",
        "occurred_at": a_payload(number=7)["occurred_at"],
        "first_occurred_at": a_payload(number=7)["occurred_at"],
        "coalesced_count": 4,
        "issue_id": str(ISSUE),
        "comment_id": "c" * 36,
        "source_task_id": str(an_id(9)),
        "actor_type": "member",
        "actor_id": str(MEMBER),
        "receipt_id": str(an_id(2_007)),
    }
    assert note.evidence.omitted


def test_an_oversize_fact_of_a_queued_run_has_no_receipt_any_more() -> None:
    """W-089: a stored fact that a longer instruction pushes out is reduced without receipt id."""
    rule = a_rule()
    first = write_note(rule, [a_fact(body="x" * 35_000)])
    assert not first.evidence.omitted
    longer = attrs.evolve(rule, instruction="y" * 12_000)
    second = write_note(longer, [a_fact("issue.updated", 2)], waiting(first))
    lines = dict(fact_lines(second.text))
    assert "body" not in lines["comment.created"]
    assert "receipt_id" not in lines["comment.created"]
    assert lines["comment.created"]["event_id"] == "key-1"


def test_the_oldest_facts_go_first() -> None:
    """W-089: facts that fit alone but not together are dropped from the oldest on."""
    facts = [a_fact(kind, n, junk="x" * 9_000) for n, kind in enumerate(TYPES[:6])]
    note = write_note(a_rule(), facts)
    assert [kind for kind, _ in fact_lines(note.text)] == TYPES[2:6]
    assert [fact.event_type for fact in note.evidence.facts] == TYPES[2:6]
    assert OMISSION in note.text


def test_legacy_text_is_cut_before_facts() -> None:
    """W-089: an older note gives way to facts; no character of it is split."""
    rule = a_rule()
    facts = [a_fact(kind, n, junk="x" * 6_000) for n, kind in enumerate(TYPES[:4])]
    note = write_note(rule, facts, a_run("€" * 13_000))
    assert [kind for kind, _ in fact_lines(note.text)] == TYPES[:4]
    assert note.evidence.omitted
    assert 0 < len(note.evidence.legacy) < 13_000
    assert set(note.evidence.legacy) == {"€"}
    crowded = [a_fact(kind, n, junk="x" * 9_000) for n, kind in enumerate(TYPES[:4])]
    without = write_note(rule, crowded, a_run("€" * 13_000))
    assert without.evidence.legacy == ""
    assert LEGACY not in without.text
    assert without.evidence.omitted


def test_an_unbounded_instruction_is_cut() -> None:
    """W-089: an instruction beyond W-002, stored by a foreign writer, cannot break the bound."""
    note = write_note(a_rule(instruction="€" * 100_000), [a_fact()])
    assert len(note.text.encode()) <= NOTE_BYTES_MAX
    assert len(note.evidence.instruction.encode()) == 12_000
    assert fact_lines(note.text)


def test_control_characters_become_blanks() -> None:
    """W-085: control characters, six bytes each in JSON, do not inflate the evidence."""
    note = write_note(a_rule(instruction="a\x01b\tc\nd"), [a_fact()], a_run("e\x02f"))
    assert note.evidence.instruction == "a b\tc\nd"
    assert note.evidence.legacy == "e f"


texts = st.text(st.sampled_from('a"\\\n€😀\x01'), max_size=60)


@given(
    instruction=st.tuples(texts, st.integers(1, 400)),
    legacy=st.tuples(texts, st.integers(0, 2_000)),
    facts=st.lists(st.tuples(st.sampled_from(TYPES), texts, st.integers(0, 900)), max_size=30),
    timer=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_bounds_hold_and_rendering_is_stable(
    instruction: tuple[str, int],
    legacy: tuple[str, int],
    facts: list[tuple[str, str, int]],
    timer: bool,
) -> None:
    """W-089: whatever comes, note and evidence are bounded and the same note comes out again."""
    base = TIMERS[0] if timer else a_rule()
    rule = attrs.evolve(base, instruction=instruction[0] * instruction[1])
    given_facts = [
        a_fact(kind, number, junk=text * times) for number, (kind, text, times) in enumerate(facts)
    ]
    queued = a_run(legacy[0] * legacy[1])
    note = write_note(rule, given_facts, queued)
    assert len(note.text.encode()) <= NOTE_BYTES_MAX
    assert size(note.evidence.to_json()) <= EVIDENCE_BYTES_MAX
    if given_facts:
        assert fact_lines(note.text)[-1][0] == given_facts[-1].event_type
    kept = [fact.event_type for fact in note.evidence.facts]
    assert [kind for kind, _ in fact_lines(note.text)] == kept
    assert len(kept) == len(set(kept))
    assert (OMISSION in note.text) == note.evidence.omitted
    again = write_note(rule, [], waiting(note))
    assert again.text == note.text
    assert again.evidence.to_json() == note.evidence.to_json()


# --- Legacy notes --------------------------------------------------------------------------------


def test_a_note_by_hand_is_carried_once() -> None:
    """W-090: a rewritten note goes along once, under its heading, below the facts."""
    rule = a_rule()
    first = write_note(rule, [a_fact()])
    second = write_note(rule, [a_fact("issue.updated", 2)], waiting(first, "Hand-written."))
    third = write_note(rule, [a_fact("task.failed", 3)], waiting(second))
    for note in (second, third):
        assert note.text.count("Hand-written.") == 1
        assert note.text.count(LEGACY) == 1
        assert note.text.endswith("\nHand-written.")
        assert note.text.index(LEGACY) > note.text.index("issue.updated {")
    assert [kind for kind, _ in fact_lines(third.text)] == [
        "comment.created",
        "issue.updated",
        "task.failed",
    ]


def test_a_note_without_evidence_is_carried() -> None:
    """W-245: the note of a run without evidence, made by an older step, goes along as it was."""
    note = write_note(a_rule(), [a_fact()], a_run("Old note"))
    assert note.evidence.legacy == "Old note"
    assert "less binding than the instruction above:\nOld note" in note.text


def test_an_empty_note_leaves_no_block() -> None:
    """W-090: where there was no text there is no legacy block."""
    assert LEGACY not in write_note(a_rule(), [a_fact()], a_run("")).text


def test_a_text_edit_makes_no_legacy() -> None:
    """W-028: after an edit the note has the new instruction, old and new facts, no legacy."""
    first = write_note(a_rule(instruction="Old text"), [a_fact()])
    second = write_note(
        a_rule(instruction="New text"), [a_fact("issue.updated", 2)], waiting(first)
    )
    assert "New text" in second.text
    assert "Old text" not in second.text
    assert [kind for kind, _ in fact_lines(second.text)] == ["comment.created", "issue.updated"]
    assert LEGACY not in second.text
    assert second.evidence.instruction == "New text"


def test_facts_in_prose_are_not_read_back() -> None:
    """W-085: fact lines inside a hand-written note stay text."""
    prose = f"comment.created {canonical(a_payload(number=9))}"
    note = write_note(a_rule(), [a_fact("issue.updated", 2)], a_run(prose))
    assert [fact.event_type for fact in note.evidence.facts] == ["issue.updated"]
    assert note.evidence.legacy == prose


def test_evidence_is_a_value() -> None:
    """W-085: equal inputs give equal notes, and the facts given are not changed."""
    payload = a_payload()
    before = json.dumps(payload)
    fact = Fact(event_type="comment.created", payload=payload, receipt_id=UUID(int=1))
    first, second = write_note(a_rule(), [fact]), write_note(a_rule(), [fact])
    assert first == second
    assert isinstance(first.evidence, Evidence)
    assert json.dumps(payload) == before
