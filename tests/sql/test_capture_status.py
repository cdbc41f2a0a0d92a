"""Changes of an issue's status are captured with both sides."""

from __future__ import annotations

from uuid import UUID

from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    ISSUE_K,
    MEMBER_M,
    WORKSPACE,
    Town,
    insert,
    literal,
)

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
    on = f"UPDATE issue_wakeup SET enabled = true, disabled_at = NULL WHERE id = '{rule}'"
    town.ask(moving("done"))
    town.ask(on)
    town.ask(moving("cancelled"))
    assert town.receipts(rule) == []
    town.ask(on)
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


def test_the_facts_of_one_update_belong_together(town: Town) -> None:
    """W-044: they share the prefix of their keys, which no other update has; each has its own end.

    A rule gets those that it listens to, and nothing else is stored.
    """
    types = [
        *("issue.updated", "issue.status_changed", "issue.assignee_changed"),
        *("issue.parent_changed", "issue.project_changed"),
        *("issue.properties_changed", "issue.metadata_changed"),
    ]
    rules = [town.listen(*types), town.listen(TYPE, "issue.labels_changed")]
    project = town.one(insert("project", {"workspace_id": WORKSPACE, "name": "P"}))
    town.ask(
        "UPDATE issue SET status = 'blocked', assignee_type = 'member',"
        f" assignee_id = '{MEMBER_M}', parent_issue_id = '{ISSUE_K}', project_id = '{project}',"
        """ properties = '{"a": 1}', metadata = '{"b": 2}', due_date = '2030-01-01'"""
        f" WHERE id = '{ISSUE_I}'"
    )
    told = town.receipts(rules[0])
    assert [each.event_type for each in told] == types
    (prefix,) = {each.event_key.partition(":")[0] for each in told}
    assert [each.event_key.removeprefix(prefix) for each in told] == [
        *(":updated", ":status", ":assignee", ":parent", ":project", ":properties", ":metadata"),
    ]
    assert told[0].payload["changed_fields"] == [
        *("assignee_id", "assignee_type", "due_date", "metadata", "parent_issue_id"),
        *("project_id", "properties", "status"),
    ]
    assert town.receipt(rules[1]).event_key == f"{prefix}:status"
    town.ask(f"UPDATE issue SET assignee_id = '{AGENT_A}', assignee_type = 'agent'")
    payload = town.receipt(rules[0], "issue.assignee_changed").payload
    assert payload["event_id"].partition(":")[0] != prefix
    assert (payload["previous_assignee_type"], payload["assignee_type"]) == ("member", "agent")


def test_every_field_is_named(town: Town) -> None:
    """W-043: each of the fifteen fields alone is told by its name, and no other column is told."""
    rule = town.listen("issue.updated")
    project = town.one(insert("project", {"workspace_id": WORKSPACE, "name": "P"}))
    values = {
        "title": "J",
        "description": "more",
        "status": "blocked",
        "priority": "urgent",
        "parent_issue_id": ISSUE_K,
        "project_id": project,
        "due_date": "2030-01-01",
        "start_date": "2030-01-01",
        "stage": 2,
        "properties": {"a": 1},
        "metadata": {"a": 1},
        "acceptance_criteria": [],
        "context_refs": [],
    }
    for name, value in values.items():
        new = "'[1]'" if value == [] else literal(value)
        town.ask(f"UPDATE issue SET {name} = {new} WHERE id = '{ISSUE_I}'")
        assert town.receipt(rule).payload["changed_fields"] == [name]
    for who, agent in ((MEMBER_M, False), (AGENT_A, True), (AGENT_B, True)):
        kind = "agent" if agent else "member"
        town.ask(
            f"UPDATE issue SET assignee_type = '{kind}', assignee_id = '{who}'"
            f" WHERE id = '{ISSUE_I}'"
        )
    assert town.receipt(rule).payload["changed_fields"] == ["assignee_id"]
    before = town.receipt(rule).count
    town.ask(
        "UPDATE issue SET position = position + 1, revision = revision + 1, updated_at = now(),"
        f" created_at = now(), number = number + 10, creator_id = '{MEMBER_M}'"
    )
    assert town.receipt(rule).count == before == len(values) + 3


def test_the_cost_of_a_bulk_update_is_linear(town: Town) -> None:
    """W-062: after a small update in its session, one of twenty times the issues takes no longer.

    At most three times as long for each of them, whatever plan the small one has left behind.
    """
    town.ask(
        "INSERT INTO issue (workspace_id, number, title)"
        f" SELECT '{WORKSPACE}', 10 + n, 'more' FROM generate_series(1, 10000) n;"
        "VACUUM ANALYZE issue"
    )
    town.listen("issue.updated")
    took = {}
    for size in (500, 10_000):
        began, ended = town.ask(
            "SELECT extract(epoch FROM clock_timestamp());"
            f"UPDATE issue SET title = 'size {size}' WHERE number <= {size};"
            "SELECT extract(epoch FROM clock_timestamp())"
        )
        took[size] = float(ended) - float(began)
    assert took[10_000] < 60 * took[500], took
