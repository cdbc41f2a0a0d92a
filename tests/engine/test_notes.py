"""What a run is told: bounded evidence, and a note rendered from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from engine.app import Engine
from engine.domain.commands.tracker import UpdateIssue
from engine.domain.events import EVENTS
from engine.storage.database import Record
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import World, claim, register, running, say

STATUS: Final = "issue.status_changed"
NOTE_BYTES_MAX: Final = 40_000  # W-089
EVIDENCE_BYTES_MAX: Final = 65_536  # W-085
COMMENTS: Final = 5_000
DISPATCHES: Final = 200
SAMPLE: Final = 40


def facts(run: Record) -> list[dict[str, Any]]:
    """Return the facts of a run's evidence."""
    found: list[dict[str, Any]] = run["context"]["wakeup_evidence"]["facts"]
    return found


def lines(note: str) -> Iterator[tuple[str, str]]:
    """Yield event type and JSON text of each line of a note that tells a fact."""
    for line in note.splitlines():
        event_type, _, rest = line.partition(" ")
        if event_type in EVENTS or event_type.startswith(("time.", "wakeup.")):
            yield event_type, rest


async def test_the_shape_of_evidence(engine: Engine, psql: Psql, world: World) -> None:
    """W-085: evidence names its version, instruction, facts, legacy text and omissions.

    W-088: each line of the note is the canonical JSON of one of these facts.
    """
    rule = await register(engine, world, event_types=(COMMENT, STATUS), instruction="schön lesen")
    await psql.comment(world.issue)
    await psql.run(rule.id)
    await engine.submit(world.n, UpdateIssue(issue_id=world.issue, status="in_progress"))
    await psql.drained(rule.id)
    run = await psql.run(rule.id)
    evidence = run["context"]["wakeup_evidence"]
    assert set(evidence) == {"version", "instruction", "facts", "legacy", "omitted"}
    assert evidence["version"] == 1
    assert evidence["instruction"] == rule.instruction
    assert not evidence["omitted"]
    assert [set(fact) for fact in evidence["facts"]] == [{"event_type", "payload"}] * 2
    told = list(lines(run["handoff_note"]))
    assert [event_type for event_type, _ in told] == [COMMENT, STATUS]
    for (_, text), fact in zip(told, evidence["facts"], strict=True):
        payload = json.loads(text)
        assert payload == fact["payload"]
        canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert text == canonical


async def test_a_type_already_there_is_replaced_and_counted(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-085: three types, one of them twice, are three facts; headings are not repeated."""
    types = (COMMENT, STATUS, "task.queued")
    rule = await register(engine, world, event_types=types)
    first = await say(engine, world.n, world.issue)
    await psql.drained(rule.id)
    await psql.run(rule.id)
    await engine.submit(world.n, UpdateIssue(issue_id=world.issue, status="in_progress"))
    await psql.drained(rule.id)
    second = await say(engine, world.m, world.issue)
    await psql.drained(rule.id)
    await psql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id) VALUES ($1, $2, $3)",
        *(world.b, world.issue, world.runtime_id),
    )
    await psql.drained(rule.id)
    run = await psql.run(rule.id)
    by_type = {fact["event_type"]: fact["payload"] for fact in facts(run)}
    assert len(facts(run)) == len(by_type) == 3
    assert by_type[COMMENT]["coalesced_count"] == 2
    assert by_type[COMMENT]["comment_id"] == str(second) != str(first)
    assert by_type[COMMENT]["first_occurred_at"] < by_type[COMMENT]["occurred_at"]
    actors = {actor["id"] for actor in by_type[COMMENT]["actors"]}
    assert actors == {str(world.n.user_id), str(world.m.user_id)}
    assert by_type[STATUS]["coalesced_count"] == 1
    whole = run["handoff_note"].splitlines()
    headings = [line for line in whole if line and line != "look" and " {" not in line]
    assert len(headings) == len(set(headings))
    assert [event_type for event_type, _ in lines(run["handoff_note"])] == [
        fact["event_type"] for fact in facts(run)
    ]


async def test_an_offline_night_costs_a_dispatch_nothing(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-085, G-07: 5,000 comments into one queued run leave evidence and dispatches as small.

    The last dispatches take at most twice the median of the first ones (here: three times, for
    the sake of busy machines; a cost that grows with the facts would be more than sixfold).
    """
    await psql("UPDATE agent_runtime SET last_seen_at = wakeful_now() - interval '1 day'")
    rule = await register(engine, world)
    people = [person.user_id for person in (world.o, world.g, world.m, world.n)]
    for _ in range(DISPATCHES):
        await psql(
            "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
            " SELECT $1, $2, 'member', ($3::uuid[])[1 + n % 4], 'at night'"
            "   FROM generate_series(1, $4::int) n",
            *(world.issue, world.workspace_id, people, COMMENTS // DISPATCHES),
        )
        await psql.drained(rule.id)
    run = await psql.run(rule.id)
    (fact,) = facts(run)
    assert fact["payload"]["coalesced_count"] == COMMENTS
    assert len(run["handoff_note"].encode()) <= NOTE_BYTES_MAX
    assert len(json.dumps(run["context"]).encode()) <= EVIDENCE_BYTES_MAX
    took = [
        (receipt["processed_at"] - receipt["created_at"]).total_seconds()
        for receipt in await psql.receipts(rule.id)
    ]
    assert len(took) == DISPATCHES
    first, last = median(took[:SAMPLE]), median(took[-SAMPLE:])
    assert last <= 3 * first, (first, last)


async def test_a_timer_keeps_the_newest_fact(engine: Engine, psql: Psql, world: World) -> None:
    """W-086: three missed periods in one queued run are one line with the last `planned_at`."""
    rule = await register(engine, world, kind="every", interval_seconds=60)
    planned: list[str] = []
    for minutes in (30, 20, 10):
        await psql(
            "UPDATE issue_wakeup SET next_fire_at = wakeful_now() - make_interval(mins => $2)"
            " WHERE id = $1",
            *(rule.id, minutes),
        )
        count = len(planned) + 1
        await psql.fired(rule.id, count)
        planned.append((await psql.receipts(rule.id))[-1]["payload"]["planned_at"])
    run = await psql.run(rule.id)
    ((event_type, text),) = lines(run["handoff_note"])
    assert event_type == "time.due"
    assert json.loads(text)["planned_at"] == planned[-1] == max(planned)
    receipts = await psql.receipts(rule.id)
    assert len(receipts) == 3
    assert {receipt["task_id"] for receipt in receipts} == {run["id"]}


async def test_the_parts_of_a_note_stand_in_order(engine: Engine, psql: Psql, world: World) -> None:
    """W-087: which rule, the instruction, the check-in of schedules, the heading, the facts."""
    event = await register(engine, world, instruction="do the event")
    cron = await register(
        engine, world, kind="cron", cron_expression="0 0 1 1 *", instruction="do the cron"
    )
    every = await register(
        engine, world, kind="every", interval_seconds=60, instruction="do the every"
    )
    await say(engine, world.n, world.issue)
    await psql(
        "UPDATE issue_wakeup SET next_fire_at = wakeful_now() WHERE id = ANY ($1)",
        [cron.id, every.id],
    )
    for rule in (event, cron, every):
        note = (await psql.run(rule.id))["handoff_note"]
        first, *rest = note.splitlines()
        assert str(rule.id) in first
        assert "fired" in first
        parts = [rule.instruction]
        if rule.kind != "event":
            parts.append(f"wakeful issue wakeup checkin {world.issue} {rule.id}")
        parts += ["look up the current state", "time.due {", COMMENT + " {"]
        if rule.kind == "event":
            parts.remove("time.due {")
            assert "checkin" not in note
        else:
            parts.remove(COMMENT + " {")
        places = [note.index(part) for part in parts]
        assert places == sorted(places)
        assert any("look up the current state" in line for line in rest)


async def test_a_note_is_bounded(psql: Psql, world: World, database_url: str) -> None:
    """W-089: 25 types with huge payloads and a long instruction still make a readable note.

    The newest fact is there, and what was left out is announced.
    """
    instruction = "雪" * 4_000
    rule_id = await psql.rule(world, event_types=list(EVENTS), instruction=instruction)
    for name in EVENTS:
        huge = {"event_type": name, "version": 1, "text": "雪é" * 2_000, "issue_id": name}
        await psql.receipt(rule_id, event_type=name, payload=huge)
    async with running(database_url):
        await psql.drained(rule_id)
    run = await psql.run(rule_id)
    note = run["handoff_note"]
    assert len(note.encode()) <= NOTE_BYTES_MAX
    assert instruction in note
    assert run["context"]["wakeup_evidence"]["omitted"]
    assert list(lines(note))[-1][0] == list(EVENTS)[-1]
    assert len(json.dumps(run["context"], ensure_ascii=False).encode()) <= EVIDENCE_BYTES_MAX
    assert "left out" in note.splitlines()[-1]
    assert {receipt["task_id"] for receipt in await psql.receipts(rule_id)} == {run["id"]}


async def test_one_huge_fact_is_reduced_to_references(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-089: of a payload of 100 kB the note shows ids, times and the receipt's id."""
    rule_id = await psql.rule(world, event_types=[COMMENT])
    comment_id = str(world.other_issue)
    receipt_id = await psql.receipt(
        rule_id,
        payload={
            "event_type": COMMENT,
            "comment_id": comment_id,
            "occurred_at": "2030-01-01T00:00:00+00:00",
            "text": "x" * 100_000,
            "thread_id": "y" * 300,
        },
    )
    async with running(database_url):
        await psql.drained(rule_id)
    run = await psql.run(rule_id)
    ((_, text),) = lines(run["handoff_note"])
    payload = json.loads(text)
    assert payload["comment_id"] == comment_id
    assert payload["receipt_id"] == str(receipt_id)
    assert payload["occurred_at"] == "2030-01-01T00:00:00+00:00"
    assert all(len(str(value).encode()) <= 256 for value in payload.values())
    assert run["context"]["wakeup_evidence"]["omitted"]


async def test_a_note_that_somebody_wrote_is_carried_once(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-090: a hand-written note stands once, below the facts, however many facts follow."""
    rule = await register(engine, world)
    await say(engine, world.n, world.issue)
    run = await psql.run(rule.id)
    await psql.drained(rule.id)
    written = "Somebody wrote this by hand."
    await psql("UPDATE agent_task_queue SET handoff_note = $2 WHERE id = $1", run["id"], written)
    for _ in range(2):
        await say(engine, world.n, world.issue)
        await psql.drained(rule.id)
    run = await psql.run(rule.id)
    note = run["handoff_note"]
    assert note.count(written) == 1
    above, _, _ = note.partition(written)
    assert "less binding" in above.splitlines()[-1]
    assert above.index(COMMENT) < len(above)
    assert run["context"]["wakeup_evidence"]["legacy"] == written
    assert facts(run)[0]["payload"]["coalesced_count"] == 3


async def test_an_edited_instruction_makes_no_legacy_text(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-090: after an edit the note has the new text, all facts, and no block of old text."""
    rule = await register(engine, world, instruction="the old text")
    await say(engine, world.n, world.issue)
    await psql.run(rule.id)
    await psql.drained(rule.id)
    await psql("UPDATE issue_wakeup SET instruction = 'the new text' WHERE id = $1", rule.id)
    await say(engine, world.n, world.issue)
    await psql.drained(rule.id)
    run = await psql.run(rule.id)
    assert "the new text" in run["handoff_note"]
    assert "the old text" not in run["handoff_note"]
    assert run["context"]["wakeup_evidence"]["legacy"] == ""
    assert facts(run)[0]["payload"]["coalesced_count"] == 2


async def test_the_prompt_of_a_claimed_run_holds_the_note(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-087: what the daemon gets is the note as it was stored, verbatim in the prompt."""
    rule = await register(engine, world)
    await say(engine, world.n, world.issue)
    run = await psql.run(rule.id)
    (claimed,) = await claim(engine, world)
    assert claimed.handoff_note == run["handoff_note"]
    assert f"[WAKEUP]\n{run['handoff_note']}" in claimed.prompt
