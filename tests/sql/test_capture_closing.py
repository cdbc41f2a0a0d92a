"""Whoever closes an issue switches its rules off, in the same transaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.domain import decision
from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    ISSUE_K,
    WORKSPACE,
    Town,
    commenting,
    insert,
    listening,
)
from tests.sql.psql_session import PsqlSession

TYPE = "comment.created"
OFF = "NOT enabled AND disabled_at IS NOT NULL"


def moving(status: str, issue_id: str = ISSUE_I) -> str:
    """Return the UPDATE that brings an issue into a status."""
    return f"UPDATE issue SET status = '{status}' WHERE id = '{issue_id}'"


def rule_of(town: Town, rule_id: str) -> dict[str, Any]:
    """Return a rule as it is stored."""
    row: dict[str, Any] = json.loads(
        town.one(f"SELECT to_jsonb(r) FROM issue_wakeup r WHERE id = '{rule_id}'")
    )
    return row


def pending(town: Town) -> int:
    """Return how many receipts are pending, reserved ones included."""
    return int(town.one("SELECT count(*) FROM issue_wakeup_receipt WHERE processed_at IS NULL"))


@pytest.fixture
def statuses(town: Town) -> Town:
    """The town with a status of its own in each category that matters here."""
    for category in ("in_progress", "done", "closed"):
        status = {"key": f"own_{category}", "name": category, "category": category}
        town.ask(insert("issue_status", {"workspace_id": WORKSPACE, **status}))
    return town


def test_closing_ends_all_wakeups_of_the_issue(statuses: Town) -> None:
    """W-186, W-039, G-09: by psql and by a custom status: all rules off, inputs and runs gone.

    A started run goes on, an ordinary one stays queued, another issue is left alone.
    """
    town = statuses
    elsewhere = town.listen(TYPE, issue_id=ISSUE_K)
    for status in ("done", "cancelled", "own_done", "own_closed"):
        town.ask(moving("own_in_progress"))
        event = town.listen(TYPE, "issue.status_changed", "issue.updated", "task.cancelled")
        timers = [
            town.listen(kind=kind, mode=mode, next_fire_at="2100-01-01")
            for kind, mode in (("at", "once"), ("every", "continuous"), ("cron", "continuous"))
        ]
        for reserve in (True, False):
            town.comment()
            if reserve:
                town.ask(f"UPDATE issue_wakeup_receipt SET task_id = '{AGENT_A}'")
        assert pending(town) == 2
        runs = {
            state: town.run(status=state, context={"wakeup_id": rule}, agent_id=agent)
            for state, rule, agent in (
                ("queued", event, AGENT_A),
                ("deferred", timers[0], AGENT_A),
                ("running", timers[1], AGENT_B),
            )
        }
        ordinary = town.run(agent_id=AGENT_B)
        town.ask(moving(status))
        for rule in (event, *timers):
            stored = rule_of(town, rule)
            assert not stored["enabled"]
            assert stored["disabled_at"] is not None
            assert stored["last_error"] == decision.CLOSED
            assert [each.event_type for each in town.receipts(rule, "issue.status_changed")] == []
        assert pending(town) == 0
        assert town.count("issue_wakeup_receipt WHERE task_id IS NOT NULL") == 0
        ended = town.ask(
            "SELECT status || ':' || coalesce(error, '') || ':' || (completed_at IS NULL)"
            f" FROM agent_task_queue WHERE id IN ('{runs['queued']}', '{runs['deferred']}')"
        )
        assert ended == ["cancelled:Cancelled before it started: the issue was closed.:false"] * 2
        states = f"SELECT status FROM agent_task_queue WHERE id = '{runs['running']}'"
        assert town.one(states) == "running"
        states = f"SELECT status FROM agent_task_queue WHERE id = '{ordinary}'"
        assert town.one(states) == "queued"
        town.ask("DELETE FROM agent_task_queue; DELETE FROM issue_wakeup_receipt")
    assert rule_of(town, elsewhere)["enabled"]


def test_a_custom_status_of_work_closes_nothing(statuses: Town) -> None:
    """W-186, W-044: only categories done and closed close; a change of any other is told."""
    rule = statuses.listen("issue.status_changed")
    statuses.ask(moving("own_in_progress"))
    payload = statuses.receipt(rule).payload
    assert (payload["status"], payload["category"]) == ("own_in_progress", "in_progress")
    statuses.ask(moving("a status that nobody knows"))
    assert statuses.receipt(rule).payload["category"] is None
    assert rule_of(statuses, rule)["enabled"]


def test_reopening_switches_nothing_on(town: Town) -> None:
    """W-187: after closing and reopening a rule stays off until somebody enables it by hand.

    So does one whose issue is closed and reopened in one transaction.
    """
    rule = town.listen(TYPE)
    for sql in (
        f"{moving('done')}; {moving('todo')}",
        f"BEGIN; {moving('done')}; {moving('todo')}",
    ):
        town.ask(f"{sql}; COMMIT" if "BEGIN" in sql else sql)
        town.comment()
        assert not rule_of(town, rule)["enabled"]
        assert town.receipts(rule) == []
        town.ask(f"UPDATE issue_wakeup SET enabled = true, disabled_at = NULL WHERE id = '{rule}'")
    town.comment()
    assert town.receipt(rule).count == 1


def test_what_was_off_keeps_its_reason(town: Town) -> None:
    """W-186: a rule that somebody switched off keeps why and when; a spent one-shot goes off."""
    off = town.listen(TYPE, enabled=False, disabled_at="2030-01-01T00:00:00Z", last_error="mine")
    spent = town.listen(TYPE, enabled=False, mode="once")
    town.ask(moving("done"))
    stored = rule_of(town, off)
    assert (stored["last_error"], stored["disabled_at"][:4]) == ("mine", "2030")
    assert rule_of(town, spent)["disabled_at"] is not None


def test_a_closing_that_is_rolled_back_ends_nothing(town: Town) -> None:
    """W-186: rule, receipt and run are as before when the transaction fails."""
    rule = town.listen(TYPE)
    run = town.run(context={"wakeup_id": rule})
    town.comment()
    town.ask(f"BEGIN; {moving('done')}; ROLLBACK")
    town.ask(f"BEGIN; SAVEPOINT s; {moving('done')}; ROLLBACK TO s; COMMIT")
    assert rule_of(town, rule)["enabled"]
    assert pending(town) == 1
    assert town.one(f"SELECT status FROM agent_task_queue WHERE id = '{run}'") == "queued"


def test_many_issues_close_in_one_statement(town: Town) -> None:
    """W-186: one UPDATE closes a thousand issues, and each loses its rules, inputs and runs.

    An issue without rules costs no lock of its own, so that it may be any number.
    """
    town.ask(
        "INSERT INTO issue (workspace_id, number, title)"
        f" SELECT '{WORKSPACE}', 10 + n, 'more' FROM generate_series(1, 2000) n"
    )
    town.ask(
        "ALTER TABLE issue_wakeup DISABLE TRIGGER wakeup_limit_insert;"  # two more than may be
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
        "                          mode, event_types)"
        f" SELECT '{WORKSPACE}', i.id, '{AGENT_A}', '{AGENT_A}', 'Look.', 'event', 'continuous',"
        "         '{comment.created}' FROM issue i WHERE i.number <= 1010;"
        "INSERT INTO comment (issue_id, workspace_id, content)"
        f" SELECT r.issue_id, '{WORKSPACE}', 'words' FROM issue_wakeup r;"
        "INSERT INTO agent_task_queue (agent_id, issue_id, context)"
        f" SELECT '{AGENT_A}', r.issue_id, jsonb_build_object('wakeup_id', r.id)"
        "   FROM issue_wakeup r"
    )
    rules = town.count("issue_wakeup")
    assert pending(town) == rules == 1002
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    lines = town.ask(
        "BEGIN; UPDATE issue SET status = 'done' WHERE number > 1010;"
        f" SELECT wakeful_flush() \\g /dev/null\n {locks}; COMMIT"
    )
    assert int(lines[0]) <= 1024  # the listening locks of all issues there are
    town.ask("UPDATE issue SET status = 'done'")
    assert town.count(f"issue_wakeup WHERE {OFF}") == rules
    assert town.count("agent_task_queue WHERE status = 'cancelled'") == rules
    assert pending(town) == 0


def test_a_fact_beside_the_closing_is_discarded(town: Town, database_url: str) -> None:
    """W-186: a comment that commits while another session is closing leaves no pending input."""
    rule = town.listen(TYPE)
    with PsqlSession(database_url) as closer:
        closer.ask(f"BEGIN; {moving('done')}")
        town.comment()
        assert pending(town) == 1
        closer.ask("COMMIT")
    assert pending(town) == 0
    (receipt,) = town.receipts(rule)
    assert town.count("issue_wakeup_receipt WHERE task_id IS NULL") == 1
    assert receipt.count == 1


async def test_a_rule_that_is_being_saved_is_waited_for(town: Town, database_url: str) -> None:
    """W-186: a rule that is inserted or switched on while its issue closes goes off with the rest.

    And a writer that has commented before it closes waits for the rule, whose maker gives up.
    """
    off = town.listen(TYPE, enabled=False, disabled_at="2030-01-01")
    for saving in (
        listening([TYPE]),
        listening([], kind="every", interval_seconds=60),
        f"UPDATE issue_wakeup SET enabled = true, disabled_at = NULL WHERE id = '{off}'",
    ):
        with PsqlSession(database_url) as maker:
            maker.ask(f"BEGIN; {saving}")
            town.session.start(moving("done"))
            await maker.wait_blocking()
            maker.ask("COMMIT")
            assert town.session.finish() == []
        assert town.count(f"issue_wakeup WHERE NOT ({OFF})") == 0
        town.ask(moving("todo"))
    with PsqlSession(database_url) as closer, PsqlSession(database_url) as maker:
        closer.ask(f"BEGIN; {commenting()}")
        maker.start(f"UPDATE issue_wakeup SET enabled = true WHERE id = '{off}'")
        await closer.wait_blocking()
        closer.ask(f"{moving('done')}; COMMIT")
        assert maker.finish() == ["ERROR:  55P03"]


async def test_a_rule_waits_for_the_closing(town: Town, database_url: str) -> None:
    """W-186: a rule that is saved while its issue closes is saved after it, and can know."""
    with PsqlSession(database_url) as closer:
        closer.ask(f"BEGIN; {moving('done')}")
        town.session.start(
            "BEGIN; "
            + listening([TYPE])
            + f"; SELECT status FROM issue WHERE id = '{ISSUE_I}'; ROLLBACK"
        )
        await closer.wait_blocking()
        closer.ask("COMMIT")
        assert town.session.finish()[-1] == "done"
