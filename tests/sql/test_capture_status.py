"""Changes of an issue's status are captured with both sides."""

from __future__ import annotations

from uuid import UUID

from tests.sql.capture_town import AGENT_A, ISSUE_I, ISSUE_K, MEMBER_M, WORKSPACE, Town

TYPE = "issue.status_changed"


def moving(status: str, issue_id: str = ISSUE_I) -> str:
    """Return the UPDATE that brings an issue into a status."""
    return f"UPDATE issue SET status = '{status}' WHERE id = '{issue_id}'"


def test_a_status_change_says_from_where_to_where(town: Town) -> None:
    """W-040, W-044: the payload has exactly the agreed keys, with statuses and categories."""
    rule = town.listen(TYPE)
    town.ask(moving("in_review"))
    receipt = town.receipt(rule)
    prefix, colon, suffix = receipt.event_key.partition(":")
    assert (UUID(prefix).version, colon, suffix) == (4, ":", "status")
    at = receipt.payload["occurred_at"]
    assert receipt.payload == {
        "event_id": receipt.event_key,
        "event_type": TYPE,
        "version": 1,
        "occurred_at": at,
        "first_occurred_at": at,
        "workspace_id": WORKSPACE,
        "issue_id": ISSUE_I,
        "actor_type": "system",
        "actor_id": None,
        "source_task_id": None,
        "agent_id": None,
        "coalesced_count": 1,
        "previous_status": "todo",
        "status": "in_review",
        "previous_category": "todo",
        "category": "in_progress",
    }


def test_the_actor_is_who_changed_it(town: Town) -> None:
    """W-049, W-050: actor and source run come from the transaction, agent_id from the actor."""
    rule = town.listen(TYPE)
    run = town.run()
    town.acting("agent", AGENT_A, run, moving("in_progress"))
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("agent", AGENT_A)
    assert (payload["agent_id"], payload["source_task_id"]) == (AGENT_A, run)
    town.acting("member", MEMBER_M, None, moving("todo"))
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("member", MEMBER_M)
    assert (payload["agent_id"], payload["source_task_id"]) == (None, None)


def test_what_changes_no_status_is_no_fact(town: Town) -> None:
    """W-043: the same status, a title and a position are not told."""
    rule = town.listen(TYPE)
    town.ask(moving("todo"))
    town.ask("UPDATE issue SET title = 'J', position = 2, revision = revision + 1")
    assert town.receipts(rule) == []


def test_closing_is_not_told_and_reopening_is(town: Town) -> None:
    """W-039: the update that closes an issue stores no receipt; one that opens it does."""
    rule = town.listen(TYPE)
    town.ask(moving("done"))
    assert town.receipts(rule) == []
    town.ask(moving("cancelled"))
    assert town.receipts(rule) == []
    town.ask(moving("todo"))
    assert town.receipt(rule).payload["previous_category"] == "closed"


def test_an_issue_that_closes_in_the_same_transaction_takes_nothing(town: Town) -> None:
    """W-039: the status at the commit decides, not the one at the time of the statement."""
    rule = town.listen(TYPE)
    town.ask(f"BEGIN; {moving('in_progress')}; {moving('done')}; COMMIT")
    assert town.receipts(rule) == []


def test_many_issues_in_one_statement_are_told_each(town: Town) -> None:
    """W-044: one UPDATE of two issues leaves a receipt for the rule of each."""
    rules = [town.listen(TYPE, issue_id=issue) for issue in (ISSUE_I, ISSUE_K)]
    town.ask("UPDATE issue SET status = 'blocked'")
    told = [town.receipt(rule).payload for rule in rules]
    assert [payload["issue_id"] for payload in told] == [ISSUE_I, ISSUE_K]
    assert {payload["status"] for payload in told} == {"blocked"}
