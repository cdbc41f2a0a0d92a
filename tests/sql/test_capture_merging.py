"""Facts of one type are one free receipt: what is merged, what is not, and who is told."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.domain import receipts
from tests.sql.capture_town import (
    AGENT_A,
    ISSUE_I,
    MEMBER_M,
    WORKSPACE,
    Town,
    commenting,
    literal,
)
from tests.sql.psql_session import PsqlSession

TYPE = "comment.created"


def test_many_writers_make_one_receipt(town: Town, database_url: str) -> None:
    """W-062, G-03: 500 comments from 20 connections are one free row that counts 500."""
    rule = town.listen(TYPE)
    writers = [PsqlSession(database_url) for _ in range(20)]
    for writer in writers:
        writer.start("; ".join([commenting()] * 25))
    for writer in writers:
        with writer:
            assert not any("ERROR" in line for line in writer.finish())
    receipt = town.receipt(rule)
    assert receipt.count == 500
    assert town.count("comment") == 500


def test_a_known_terminal_key_is_not_counted(town: Town) -> None:
    """W-062: the end of a run that is told again, before or after others, counts once."""
    rule = town.listen("task.completed")
    first, second = town.run(), town.run(status="deferred")
    for run in (first, first, second, second, first):
        town.move(run, "running")
        town.move(run, "completed")
    receipt = town.receipt(rule)
    assert receipt.count == 2
    assert (receipt.event_key, receipt.payload["event_id"]) == (
        f"{first}:completed",
        f"{second}:completed",
    )


def test_a_merge_keeps_the_first_and_shows_the_newest(town: Town) -> None:
    """W-063: key, created_at and first time stay, the payload is the newest, the id is new."""
    rule = town.listen(TYPE)
    town.comment()
    before = town.receipt(rule)
    newest = town.comment()
    after = town.receipt(rule)
    assert (after.seq, after.event_key, after.created_at) == (
        before.seq,
        before.event_key,
        before.created_at,
    )
    assert after.id != before.id
    assert (before.count, after.count) == (1, 2)
    assert after.payload["comment_id"] == newest
    assert after.payload["event_id"] != after.event_key
    assert after.payload["first_occurred_at"] == before.payload["occurred_at"]
    assert after.payload["occurred_at"] > before.payload["occurred_at"]


def test_a_stale_reader_marks_nothing(town: Town, database_url: str) -> None:
    """W-063: who read a receipt before a merge cannot consume it: zero rows."""
    rule = town.listen(TYPE)
    town.comment()
    with PsqlSession(database_url) as reader:
        (read,) = reader.ask(f"SELECT id FROM issue_wakeup_receipt WHERE wakeup_id = '{rule}'")
        town.comment()
        marked = reader.ask(
            "UPDATE issue_wakeup_receipt SET processed_at = now()"
            f" WHERE wakeup_id = '{rule}' AND id = '{read}' RETURNING seq"
        )
    assert marked == []
    assert town.receipt(rule).count == 2


def test_a_reserved_receipt_takes_nothing_more(town: Town) -> None:
    """W-064: a fact that comes while the receipt is reserved opens a new free one."""
    rule = town.listen(TYPE)
    town.comment()
    town.ask(f"UPDATE issue_wakeup_receipt SET task_id = '{town.run()}'")
    town.comment()
    town.comment()
    assert [receipt.count for receipt in town.receipts(rule)] == [1, 2]
    free = "SELECT count(*) FROM issue_wakeup_receipt WHERE task_id IS NULL"
    assert town.one(free) == "1"


def test_a_processed_receipt_takes_nothing_more(town: Town) -> None:
    """W-062: after consumption the next fact opens a new receipt."""
    rule = town.listen(TYPE)
    town.comment()
    town.ask("UPDATE issue_wakeup_receipt SET processed_at = now()")
    town.comment()
    assert [receipt.count for receipt in town.receipts(rule)] == [1, 1]


def test_a_new_revision_starts_a_new_receipt(town: Town) -> None:
    """W-062, W-067: inputs of another revision are left alone."""
    rule = town.listen(TYPE)
    town.comment()
    town.ask("UPDATE issue_wakeup SET revision = revision + 1")
    town.comment()
    assert [(each.revision, each.count) for each in town.receipts(rule)] == [(1, 1), (2, 1)]


def test_a_merge_names_everybody(town: Town) -> None:
    """W-065: two comments by A and one by M: both actors and the source run are named."""
    rule = town.listen(TYPE)
    run = town.run()
    by_agent = {"author_type": "agent", "author_id": AGENT_A, "source_task_id": run}
    town.comment(**by_agent)
    town.comment(**by_agent)
    town.comment(author_type="member", author_id=MEMBER_M)
    payload = town.receipt(rule).payload
    assert payload["coalesced_count"] == 3
    assert payload["actors"] == [
        {"type": "agent", "id": AGENT_A},
        {"type": "member", "id": MEMBER_M},
    ]
    assert payload["source_task_ids"] == [run]
    assert not payload.keys() & {"actors_more", "source_task_ids_more"}


def test_more_than_32_actors_are_marked(town: Town) -> None:
    """W-065: the 33rd actor and the 33rd source run are marked as left out."""
    rule = town.listen(TYPE)
    by_many = (
        "INSERT INTO comment"
        " (issue_id, workspace_id, author_type, author_id, source_task_id, content)"
        f" SELECT '{ISSUE_I}', '{WORKSPACE}', 'agent', wakeful_uuid7(), wakeful_uuid7(), 'words'"
        "   FROM generate_series(1, {count})"
    )
    town.ask(by_many.format(count=32))
    whole = town.receipt(rule).payload
    assert (len(whole["actors"]), len(whole["source_task_ids"])) == (32, 32)
    assert not whole.keys() & {"actors_more", "source_task_ids_more"}
    town.ask(by_many.format(count=1))
    payload = town.receipt(rule).payload
    assert payload["actors"] == whole["actors"]
    assert payload["source_task_ids"] == whole["source_task_ids"]
    assert (payload["actors_more"], payload["source_task_ids_more"]) == (True, True)
    assert payload["coalesced_count"] == 33


_ids = st.sampled_from([f"run-{number}" for number in range(50)])
_members = st.fixed_dictionaries(
    {"type": st.sampled_from(["member", "agent"]), "id": st.sampled_from(range(30)).map(str)}
)
_times = st.none() | st.sampled_from([f"2026-11-{day}T12:00:00+00:00" for day in range(10, 30)])


def _distinct(members: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(members, max_size=32, unique_by=str)


_payloads = st.fixed_dictionaries(
    {"event_type": st.just(TYPE), "comment_id": _ids},
    optional={
        "coalesced_count": st.none() | st.integers(-2, 40),
        "occurred_at": _times,
        "first_occurred_at": _times,
        "actor_type": st.sampled_from(["member", "agent", "system"]),
        "actor_id": st.none() | st.sampled_from(["1", "2"]),
        "source_task_id": st.none() | _ids,
        "actors": _distinct(_members),
        "source_task_ids": _distinct(_ids),
    },
).flatmap(
    lambda payload: st.sampled_from(
        [
            payload,
            *(
                {**payload, f"{key}_more": True}
                for key in ("actors", "source_task_ids")
                if key in payload
            ),
        ]
    )
)


def spelled_out(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with the sets that its single actor and source stand for.

    Facts of one actor and one run are merged without sets: both forms say the same (W-065).
    """
    actors = receipts._actors(payload)
    return {**payload, "actors": actors, "source_task_ids": receipts._sources(payload)}


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(old=_payloads, new=_payloads)
def test_the_database_merges_like_the_domain(
    town: Town, old: dict[str, Any], new: dict[str, Any]
) -> None:
    """W-063, W-065: `wakeup_merge_payload` and `receipts.merge` agree on any two payloads."""
    line = town.one(f"SELECT wakeup_merge_payload({literal(old)}, {literal(new)})")
    assert spelled_out(json.loads(line)) == spelled_out(receipts.merge(old, new))


def test_a_new_free_receipt_is_told_once(town: Town, database_url: str) -> None:
    """W-069: 50 facts of one type by psql are exactly one notification, of their issue."""
    town.listen(TYPE)
    with PsqlSession(database_url) as listener:
        listener.ask("LISTEN wakeful_wakeups")
        town.ask("; ".join([commenting()] * 50))
        (_, *heard) = listener.ask("SELECT 1")
        assert len(heard) == 1
        assert f'"wakeful_wakeups" with payload "{ISSUE_I}"' in heard[0]
        assert listener.ask("SELECT 1") == ["1"]


def test_an_engine_is_not_told_what_it_wrote(town: Town, database_url: str) -> None:
    """W-069: transactions that hint in process send no notification."""
    rule = town.listen(TYPE)
    with PsqlSession(database_url) as listener:
        listener.ask("LISTEN wakeful_wakeups")
        town.acting("member", MEMBER_M, None, commenting())
        assert listener.ask("SELECT 1") == ["1"]
    assert town.receipt(rule).count == 1


def test_an_engine_flushes_before_its_commit(town: Town) -> None:
    """W-069: the flush of an engine says which issues got a new free receipt, each once."""
    rules = [town.listen(TYPE), town.listen(TYPE)]
    flush = "SELECT DISTINCT opened FROM unnest(wakeful_flush()) AS opened"
    lines = town.ask(f"BEGIN; {commenting()} \\g /dev/null\n{flush}; {flush}; COMMIT")
    assert lines == [ISSUE_I]
    lines = town.ask(f"BEGIN; {commenting()} \\g /dev/null\n{flush}; COMMIT")
    assert lines == []
    assert [town.receipt(rule).count for rule in rules] == [2, 2]
    assert town.count("capture_buffer") == 0
