"""Which facts reach which rules: types, filters, and what a rule's own runs do."""

from __future__ import annotations

import subprocess

import pytest

from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    ISSUE_K,
    MEMBER_M,
    MEMBER_N,
    Town,
    commenting,
    listening,
    literal,
)
from tests.sql.psql_session import psql

COMMENT = "comment.created"
ENDED = "task.completed"
A_RULE: dict[str, object] = {
    "issue_id": ISSUE_I,
    "enabled": True,
    "kind": "event",
    "event_types": f"{{{COMMENT}}}",
}
A_FACT: dict[str, object] = {
    "issue_id": ISSUE_I,
    "event_type": COMMENT,
    "actor_type": "member",
    "actor_id": MEMBER_M,
    "agent_id": AGENT_A,
    "issue_closed": False,
}


def test_a_rule_hears_its_issue_only(town: Town) -> None:
    """W-053: the same event on another issue adds nothing."""
    rule = town.listen(ENDED, filter_agent_id=AGENT_A)
    town.run(ISSUE_K, status="completed")
    assert town.receipts(rule) == []
    town.run(status="completed")
    assert town.receipt(rule).payload["issue_id"] == ISSUE_I


def test_an_agent_filter_selects_the_agent_of_the_run(town: Town) -> None:
    """W-053: A's completion does not reach a rule for B's, B's does, whoever reports it."""
    rule = town.listen(ENDED, filter_agent_id=AGENT_B)
    town.run(status="completed")
    assert town.receipts(rule) == []
    run = town.run(agent_id=AGENT_B)
    report = f"UPDATE agent_task_queue SET status = 'completed' WHERE id = '{run}'"
    town.acting("agent", AGENT_A, None, report)
    assert town.receipt(rule).payload["agent_id"] == AGENT_B


def test_a_watched_run_is_that_run(town: Town) -> None:
    """W-054: the end of its retry does not match."""
    run = town.run()
    rule = town.listen(ENDED, filter_task_id=run)
    town.move(run, "failed")
    retry = town.run(retry_of_task_id=run)
    town.move(retry, "completed")
    assert town.receipts(rule) == []
    town.move(run, "completed")
    assert town.receipt(rule).payload["task_id"] == run


def test_an_actor_filter_compares_who_did_it(town: Town) -> None:
    """W-056, W-055: neither N nor the system nor an agent of that id reach a rule for M's facts."""
    rule = town.listen(COMMENT, mode="once", filter_actor_type="member", filter_actor_id=MEMBER_M)
    town.comment(author_type="member", author_id=MEMBER_N)
    town.comment()
    town.comment(author_type="agent", author_id=MEMBER_M)
    assert town.receipts(rule) == []
    assert town.one(f"SELECT enabled FROM issue_wakeup WHERE id = '{rule}'") == "t"
    town.comment(author_type="member", author_id=MEMBER_M)
    assert town.receipt(rule).count == 1


def test_half_an_actor_filter_cannot_be_stored(database_url: str, town: Town) -> None:
    """W-055: writers past the API meet the pair, too."""
    for half in ({"filter_actor_type": "member"}, {"filter_actor_id": MEMBER_M}):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            psql(database_url, listening([COMMENT], **half))
        assert "issue_wakeup_actor_filter" in caught.value.stderr


def test_an_older_agent_filter_keeps_its_meaning(town: Town) -> None:
    """W-057: a stored filter_agent_id on a mutation type matches the agent who acts."""
    rule = town.listen(COMMENT, ENDED, filter_agent_id=AGENT_A)
    town.comment(author_type="member", author_id=MEMBER_M)
    town.comment(author_type="agent", author_id=AGENT_B)
    assert town.receipts(rule) == []
    town.comment(author_type="agent", author_id=AGENT_A)
    assert town.receipt(rule).payload["agent_id"] == AGENT_A


def test_a_rule_does_not_hear_the_run_that_registered_it(town: Town) -> None:
    """W-058: comments and end of that run pass by, a member's comment meanwhile does not."""
    run = town.run(status="running")
    rule = town.listen(COMMENT, ENDED, source_task_id=run)
    other = town.listen(COMMENT)
    town.comment(author_type="agent", author_id=AGENT_A, source_task_id=run)
    town.acting("agent", AGENT_A, run, commenting(author_type="agent", author_id=AGENT_A))
    town.move(run, "completed")
    assert town.receipts(rule) == []
    town.comment(author_type="member", author_id=MEMBER_M)
    assert town.receipt(rule).count == 1
    assert town.receipt(other).count == 3


def test_a_rule_does_not_hear_the_runs_it_started(town: Town) -> None:
    """W-058: runs of the rule, retries included, are passed over by this rule alone."""
    rule = town.listen(COMMENT, ENDED)
    other = town.listen(COMMENT, ENDED)
    run = town.run(status="failed", context={"wakeup_id": rule})
    retry = town.run(context={"wakeup_id": rule}, retry_of_task_id=run)
    town.comment(author_type="agent", author_id=AGENT_A, source_task_id=retry)
    town.move(retry, "completed")
    assert town.receipts(rule) == []
    assert [receipt.count for receipt in town.receipts(other)] == [1, 1]
    town.run(status="completed", agent_id=AGENT_B)
    assert town.receipt(rule).event_type == ENDED


def test_facts_without_a_source_run_always_pass(town: Town) -> None:
    """W-058: what people and direct writers do reaches every rule, whoever registered it."""
    rules = [town.listen(COMMENT), town.listen(COMMENT, source_task_id=town.run())]
    town.comment()
    town.comment(author_type="member", author_id=MEMBER_M)
    assert [town.receipt(rule).count for rule in rules] == [2, 2]


def test_several_types_mean_any_of_them(town: Town) -> None:
    """W-053, W-062: each type has a receipt of its own."""
    rule = town.listen(COMMENT, "issue.status_changed")
    town.comment()
    town.comment()
    town.ask(f"UPDATE issue SET status = 'blocked' WHERE id = '{ISSUE_I}'")
    assert [(each.event_type, each.count) for each in town.receipts(rule)] == [
        (COMMENT, 2),
        ("issue.status_changed", 1),
    ]


CASES: tuple[tuple[dict[str, object], dict[str, object], str], ...] = (
    ({}, {}, ""),
    ({}, {"issue_id": ISSUE_K}, "other_issue"),
    ({"enabled": False}, {}, "not_listening"),
    ({"kind": "every"}, {}, "not_listening"),
    ({}, {"event_type": ENDED}, "other_event"),
    ({}, {"issue_closed": True}, "issue_closed"),
    ({"filter_actor_type": "member", "filter_actor_id": MEMBER_N}, {}, "filtered_actor"),
    ({"filter_actor_type": "agent", "filter_actor_id": MEMBER_M}, {}, "filtered_actor"),
    (
        {"filter_actor_type": "member", "filter_actor_id": MEMBER_M},
        {"actor_id": None},
        "filtered_actor",
    ),
    ({"filter_agent_id": AGENT_B}, {}, "filtered_agent"),
    ({"filter_agent_id": AGENT_A}, {"agent_id": None}, "filtered_agent"),
    ({"filter_task_id": AGENT_A}, {}, "filtered_task"),
    ({"filter_task_id": AGENT_A}, {"source_task_id": AGENT_A}, ""),
    ({"source_task_id": AGENT_A}, {"source_task_id": AGENT_A}, "self_loop_registering_run"),
    ({"source_task_id": AGENT_A}, {"source_task_id": AGENT_B}, ""),
    ({"id": AGENT_A}, {"source_wakeup_ids": f"{{{AGENT_A}}}"}, "self_loop_own_run"),
    ({"id": AGENT_A}, {"source_wakeup_ids": "{NULL}"}, ""),
)


def test_why_a_fact_is_ignored(town: Town) -> None:
    """W-053, W-254: one function tells whether a fact reaches a rule, or the code of why not."""
    for rule, fact, code in CASES:
        said = town.one(
            "SELECT wakeup_match("
            f"jsonb_populate_record(NULL::issue_wakeup, {literal({**A_RULE, **rule})}),"
            f"jsonb_populate_record(NULL::wakeup_fact, {literal({**A_FACT, **fact})}))"
        )
        assert said == code, (rule, fact)
