"""Facts that do not reach a rule are counted, for each rule and reason, at nobody's cost."""

from __future__ import annotations

from time import monotonic
from typing import Final

import pytest

from engine.domain.explain import IgnoreReason
from tests.sql.capture_town import AGENT_A, AGENT_B, ISSUE_I, MEMBER_M, MEMBER_N, Town, commenting
from tests.sql.psql_session import PsqlSession

ALL: Final = sorted(IgnoreReason)


def counts(town: Town, rule: str) -> dict[str, int]:
    """Return how often a rule has ignored something, for each reason that there was."""
    lines = town.ask(
        f"SELECT reason, count FROM wakeup_ignored WHERE wakeup_id = '{rule}' AND count > 0"
    )
    return {reason: int(count) for reason, count in (line.split("|") for line in lines)}


def test_every_reason_is_provoked_once(town: Town) -> None:
    """W-254: each of the seven reasons is counted for its rule, with its source."""
    actor = town.listen("comment.created", filter_actor_type="member", filter_actor_id=MEMBER_M)
    agent = town.listen("task.queued", "task.completed", filter_agent_id=AGENT_B)
    run = town.run()
    task = town.listen("task.completed", filter_task_id=town.run(issue_id=None))
    registered = town.listen("task.completed", source_task_id=run)
    own = town.listen("task.completed")
    duplicate = town.listen("task.completed")
    closed = town.listen("comment.created")
    town.comment(author_type="member", author_id=MEMBER_N)
    assert counts(town, actor) == {"filtered_actor": 1}
    mine = town.run(context={"wakeup_id": own, "wakeup_revision": 1})
    town.move(mine, "completed")
    town.move(mine, "running")
    town.move(mine, "completed")
    town.move(run, "completed")
    assert counts(town, agent) == {"filtered_agent": 5}
    assert counts(town, task) == {"filtered_task": 3}
    assert counts(town, registered) == {"self_loop_registering_run": 1, "duplicate_key": 1}
    assert counts(town, own) == {"self_loop_own_run": 2}
    assert counts(town, duplicate) == {"duplicate_key": 1}
    town.ask(f"UPDATE issue SET status = 'done' WHERE id = '{ISSUE_I}'")
    town.ask(f"UPDATE issue_wakeup SET enabled = true WHERE id = '{closed}'")
    town.comment()
    assert counts(town, closed) == {"issue_closed": 1}
    town.ask(f"UPDATE issue_wakeup SET enabled = false WHERE id = '{closed}'")
    seen = {
        reason
        for each in (actor, agent, task, registered, own, closed)
        for reason in counts(town, each)
    }
    assert sorted(seen) == ALL
    last = town.one(
        "SELECT last_event_type, last_actor_type, last_actor_id, last_agent_id,"
        f" last_source_task_id, last_at IS NOT NULL FROM wakeup_ignored"
        f" WHERE wakeup_id = '{own}' AND reason = 'self_loop_own_run'"
    )
    assert last == f"task.completed|agent|{AGENT_A}|{AGENT_A}|{mine}|t"


def test_facts_of_other_types_are_nobodys_business(town: Town) -> None:
    """W-254: what a rule does not listen to is not counted, nor what reaches it."""
    rule = town.listen("comment.created")
    off = town.listen("comment.created", enabled=False)
    town.ask(f"UPDATE issue SET title = 'other' WHERE id = '{ISSUE_I}'")
    town.comment()
    town.comment()
    assert counts(town, rule) == counts(town, off) == {}


def test_the_reasons_are_those_of_the_code(town: Town) -> None:
    """W-254: the database and the code know the same reasons, and the match yields no other."""
    assert town.ask("SELECT unnest(wakeup_ignore_reasons()) ORDER BY 1") == ALL


def test_rows_come_and_go_with_their_rule(town: Town) -> None:
    """W-189, W-254: a rule is made with a row a reason, for every writer, and takes them along."""
    rule = town.listen("comment.created")
    stored = town.ask(f"SELECT reason FROM wakeup_ignored WHERE wakeup_id = '{rule}' ORDER BY 1")
    assert stored == ALL
    town.ask(f"DELETE FROM issue_wakeup WHERE id = '{rule}'")
    assert town.ask("SELECT count(*) FROM wakeup_ignored") == ["0"]


def test_a_thousand_ignored_comments_are_one_row(town: Town) -> None:
    """W-254: many ignored facts of many transactions, or of one, are one row with their count."""
    rule = town.listen("comment.created", filter_actor_type="member", filter_actor_id=MEMBER_M)
    for _ in range(20):
        town.comment()
    town.ask(
        commenting().replace(" VALUES (", " SELECT ").rpartition(")")[0]
        + " FROM generate_series(1, 980)"
    )
    assert counts(town, rule) == {"filtered_actor": 1_000}
    assert town.ask("SELECT count(*) FROM issue_wakeup_receipt") == ["0"]


def test_a_held_row_delays_nobody(town: Town) -> None:
    """W-254: while somebody holds the row, comments come back in under 50 ms, uncounted."""
    rule = town.listen("comment.created", filter_actor_type="member", filter_actor_id=MEMBER_M)
    town.comment()
    with PsqlSession(town.url) as other:
        other.ask("BEGIN; SELECT 1 FROM wakeup_ignored FOR UPDATE")
        took = []
        for _ in range(5):
            since = monotonic()
            town.comment()
            took.append(monotonic() - since)
        assert counts(town, rule) == {"filtered_actor": 1}, "the row was held"
        other.ask("ROLLBACK")
    assert min(took) < 0.05
    town.comment()
    assert counts(town, rule) == {"filtered_actor": 2}


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_stricter_transaction_never_fails_for_a_count(town: Town, isolation: str) -> None:
    """W-254: a row counted in since the snapshot of a strict transaction does not make it fail."""
    rule = town.listen("comment.created", filter_actor_type="member", filter_actor_id=MEMBER_M)
    with PsqlSession(town.url) as other:
        other.ask(f"BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM comment")
        town.comment()
        assert counts(town, rule) == {"filtered_actor": 1}
        printed = other.ask(f"{commenting()}; COMMIT")
    assert not any("ERROR" in line for line in printed)
    assert town.one("SELECT count(*) FROM comment") == "2"
