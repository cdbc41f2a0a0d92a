"""Comments are captured in the transaction that writes them, whoever writes."""

from __future__ import annotations

from tests.sql.capture_town import (
    AGENT_A,
    ISSUE_I,
    ISSUE_K,
    MEMBER_M,
    WORKSPACE,
    Town,
    commenting,
)
from tests.sql.psql_session import PsqlSession

TYPE = "comment.created"


def test_a_direct_writer_leaves_a_receipt(town: Town) -> None:
    """W-038, G-01: with no engine anywhere a comment by psql makes a receipt."""
    rule = town.listen(TYPE)
    comment = town.comment()
    receipt = town.receipt(rule, TYPE)
    assert (receipt.revision, receipt.coalesce_key) == (1, TYPE)
    assert receipt.payload["comment_id"] == comment
    assert town.count("capture_buffer") == 0


def test_a_rolled_back_comment_leaves_nothing(town: Town, database_url: str) -> None:
    """W-038: after ROLLBACK there is no receipt, and nobody was notified."""
    rule = town.listen(TYPE)
    with PsqlSession(database_url) as listener:
        listener.ask("LISTEN wakeful_wakeups")
        town.ask(f"BEGIN; {commenting()}; ROLLBACK")
        assert listener.ask("SELECT 1") == ["1"]
        assert town.receipts(rule) == []
        town.ask(f"BEGIN; SAVEPOINT s; {commenting()}; ROLLBACK TO s; COMMIT")
        assert listener.ask("SELECT 1") == ["1"]
        assert town.receipts(rule) == []
        assert town.count("capture_buffer") == 0
        town.comment()
        (_, heard) = listener.ask("SELECT 1")
        assert f'"wakeful_wakeups" with payload "{ISSUE_I}"' in heard


def test_what_nobody_asked_for_is_not_stored(town: Town) -> None:
    """W-039: no rule, another type, a rule that is off or a timer, a closed issue: no receipt."""
    town.comment()
    town.listen("task.completed")
    town.listen(TYPE, enabled=False)
    town.listen(kind="every", interval_seconds=60)
    town.comment()
    town.listen(TYPE, issue_id=ISSUE_K)
    town.ask(f"UPDATE issue SET status = 'done' WHERE id = '{ISSUE_K}'")
    town.comment(ISSUE_K)
    assert town.count("issue_wakeup_receipt") == 0
    assert town.count("capture_buffer") == 0


def test_a_comment_says_who_and_where_but_not_what(town: Town) -> None:
    """W-040, W-045: the payload has exactly the agreed keys; the author acts; no text is in it."""
    rule = town.listen(TYPE)
    comment = town.comment(author_type="member", author_id=MEMBER_M)
    receipt = town.receipt(rule)
    payload = receipt.payload
    at = payload["occurred_at"]
    assert payload == {
        "event_id": receipt.event_key,
        "event_type": TYPE,
        "version": 1,
        "occurred_at": at,
        "first_occurred_at": at,
        "workspace_id": WORKSPACE,
        "issue_id": ISSUE_I,
        "actor_type": "member",
        "actor_id": MEMBER_M,
        "source_task_id": None,
        "agent_id": None,
        "coalesced_count": 1,
        "comment_id": comment,
        "parent_comment_id": None,
        "thread_id": comment,
        "author_type": "member",
        "author_id": MEMBER_M,
    }
    assert town.one(f"SELECT '{at}'::timestamptz BETWEEN now() - interval '1 min' AND now()") == "t"


def test_a_reply_names_the_root_of_its_thread(town: Town) -> None:
    """W-045: three levels deep the thread is still the root, and the parent the one above."""
    rule = town.listen(TYPE)
    root = town.comment()
    first = town.comment(parent_id=root)
    second = town.comment(parent_id=first)
    third = town.comment(parent_id=second)
    payload = town.receipt(rule).payload
    assert (payload["comment_id"], payload["parent_comment_id"]) == (third, second)
    assert payload["thread_id"] == root
    assert "secret words" not in town.one(
        "SELECT string_agg(x::text, '') FROM issue_wakeup_receipt x"
    )


def test_each_writer_is_attributed(town: Town) -> None:
    """W-049: a member, an agent in its run and psql show as member, agent and system."""
    rule = town.listen(TYPE)
    run = town.run()
    town.acting("member", MEMBER_M, None, commenting(author_type="member", author_id=MEMBER_M))
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("member", MEMBER_M)
    assert (payload["agent_id"], payload["source_task_id"]) == (None, None)
    town.acting("agent", AGENT_A, run, commenting(author_type="agent", author_id=AGENT_A))
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("agent", AGENT_A)
    assert (payload["agent_id"], payload["source_task_id"]) == (AGENT_A, run)
    town.comment()
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("system", None)
    assert (payload["agent_id"], payload["source_task_id"]) == (None, None)


def test_identity_never_outlives_its_transaction(town: Town) -> None:
    """W-049: 100 writes of a run and 100 of nobody on one connection keep their attribution."""
    rule = town.listen(TYPE)
    run = town.run()
    look = (
        "SELECT concat_ws(' ', payload ->> 'actor_type', payload ->> 'source_task_id')"
        f" FROM issue_wakeup_receipt WHERE wakeup_id = '{rule}'"
    )
    by_run = (
        f"BEGIN; SELECT wakeful_begin('agent', '{AGENT_A}', '{run}') \\g /dev/null\n"
        f"{commenting(author_type='agent', author_id=AGENT_A)} \\g /dev/null\nCOMMIT; {look};"
    )
    by_nobody = f"{commenting()} \\g /dev/null\n{look};"
    assert town.ask((by_run + by_nobody) * 100) == [f"agent {run}", "system"] * 100
    assert town.receipt(rule).count == 200


def test_a_bulk_insert_is_one_receipt(town: Town) -> None:
    """W-062: 1,000 comments of one statement are one receipt that counts 1,000."""
    rule = town.listen(TYPE)
    town.ask(
        "INSERT INTO comment (issue_id, workspace_id, content)"
        f" SELECT '{ISSUE_I}', '{WORKSPACE}', 'words' FROM generate_series(1, 1000)"
    )
    receipt = town.receipt(rule)
    assert receipt.count == 1_000
    newest = town.one("SELECT id FROM comment ORDER BY created_at DESC LIMIT 1")
    assert receipt.payload["comment_id"] == newest
    assert receipt.payload["first_occurred_at"] < receipt.payload["occurred_at"]


def test_the_cost_of_a_bulk_insert_is_linear(town: Town) -> None:
    """W-062: ten times the comments take at most thirty times as long, not a hundred times."""
    town.listen(TYPE)
    took = {}
    for size in (1_000, 10_000):
        lines = town.ask(
            "SELECT clock_timestamp();"
            "INSERT INTO comment (issue_id, workspace_id, content)"
            f" SELECT '{ISSUE_I}', '{WORKSPACE}', 'words' FROM generate_series(1, {size});"
            "SELECT clock_timestamp()"
        )
        elapsed = (
            f"SELECT extract(epoch FROM '{lines[1]}'::timestamptz - '{lines[0]}'::timestamptz)"
        )
        took[size] = float(town.one(elapsed))
    assert took[10_000] < 30 * took[1_000], took


def test_the_newest_comment_of_a_transaction_is_told(town: Town) -> None:
    """W-063: of several authors in one transaction the payload is that of the last comment."""
    rule = town.listen(TYPE)
    by_member = commenting(author_type="member", author_id=MEMBER_M)
    by_agent = commenting(author_type="agent", author_id=AGENT_A)
    for last, first in ((by_member, by_agent), (by_agent, by_member)):
        *_, newest = town.ask(f"BEGIN; {first}; {last}; COMMIT")
        assert town.receipt(rule).payload["comment_id"] == newest


CHANGES = ("comment.updated", "comment.deleted", "comment.resolved", "comment.unresolved")


def test_one_update_is_at_most_one_fact(town: Town) -> None:
    """W-046: deleted comes before resolved, resolved before unresolved, that before a new text."""
    rule = town.listen(*CHANGES)
    first, second = town.comment(), town.comment(resolved_at="2030-01-01")
    changes = (
        (first, "content = 'x', resolved_at = now()", "comment.resolved"),
        (first, "content = 'y', resolved_at = NULL", "comment.unresolved"),
        (first, "content = 'z'", "comment.updated"),
        (second, "content = '', resolved_at = NULL, deleted_at = now()", "comment.deleted"),
    )
    for place, (comment, change, event_type) in enumerate(changes, start=1):
        town.ask(f"UPDATE comment SET {change} WHERE id = '{comment}'")
        told = town.receipts(rule)
        assert len(told) == place
        assert told[-1].event_type == event_type
        assert told[-1].payload["comment_id"] == comment
        assert told[-1].count == 1


def test_what_is_no_change_of_a_comment_is_no_fact(town: Town) -> None:
    """W-046: the same text, a later time of resolution, and whatever becomes of a tombstone."""
    rule = town.listen(*CHANGES)
    comment = town.comment(resolved_at="2030-01-01")
    for change in (
        "content = content, revision = revision + 1, updated_at = now()",
        "resolved_at = now(), resolved_by_type = 'member'",
    ):
        town.ask(f"UPDATE comment SET {change} WHERE id = '{comment}'")
    assert town.receipts(rule) == []
    town.ask(f"UPDATE comment SET deleted_at = now() WHERE id = '{comment}'")
    for sql in (
        "UPDATE comment SET deleted_at = deleted_at + interval '1 day'",
        "UPDATE comment SET content = '', resolved_at = NULL",
        "DELETE FROM comment",
    ):
        town.ask(f"{sql} WHERE id = '{comment}'")
    assert (town.receipt(rule).event_type, town.receipt(rule).count) == ("comment.deleted", 1)


def test_a_removed_thread_is_one_fact_that_names_its_root(town: Town) -> None:
    """W-046, W-045: removed live comments are counted; the newest is told with its root."""
    rules = [town.listen(*CHANGES, issue_id=issue) for issue in (ISSUE_I, ISSUE_K)]
    root = town.comment()
    town.comment(parent_id=root, deleted_at="2030-01-01")
    reply = town.comment(parent_id=root)
    newest = town.comment(parent_id=reply, author_type="member", author_id=MEMBER_M)
    elsewhere = town.comment(ISSUE_K)
    town.ask("DELETE FROM comment")
    payload = town.receipt(rules[0]).payload
    assert (payload["coalesced_count"], payload["comment_id"]) == (3, newest)
    assert (payload["parent_comment_id"], payload["thread_id"]) == (reply, root)
    assert (payload["author_id"], payload["actor_type"]) == (MEMBER_M, "system")
    assert town.receipt(rules[1]).payload["thread_id"] == elsewhere


def test_an_edit_is_its_editors(town: Town) -> None:
    """W-050: who edits an agent's comment acts, and no agent does; the author stays beside it."""
    rule = town.listen("comment.updated")
    of_agent = town.listen("comment.updated", filter_agent_id=AGENT_A)
    comment = town.comment(author_type="agent", author_id=AGENT_A, source_task_id=town.run())
    town.acting(
        "member", MEMBER_M, None, f"UPDATE comment SET content = 'x' WHERE id = '{comment}'"
    )
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("member", MEMBER_M)
    assert (payload["author_type"], payload["author_id"]) == ("agent", AGENT_A)
    assert (payload["agent_id"], payload["source_task_id"]) == (None, None)
    assert town.receipts(of_agent) == []
