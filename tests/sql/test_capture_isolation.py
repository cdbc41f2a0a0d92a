"""Foreign writers in REPEATABLE READ and SERIALIZABLE, who read rules as of their snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.capture_town import (
    AGENT_B,
    ISSUE_I,
    ISSUE_K,
    Town,
    commenting,
    literal,
    queueing,
)
from tests.sql.psql_session import PsqlSession

TYPE = "comment.created"
TYPES = (TYPE, "task.deferred", "issue.updated")
LEVELS = ("REPEATABLE READ", "SERIALIZABLE")
FAILURE = ["ERROR:  40001"]
CLOSING = f"UPDATE issue SET status = 'done' WHERE id = '{ISSUE_I}'"


def begin(level: str) -> str:
    """Return the statements that begin a transaction and take its snapshot."""
    return f"BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM issue"


@pytest.mark.parametrize("level", LEVELS)
def test_no_rule_is_missed(town: Town, database_url: str, level: str) -> None:
    """W-038, W-016, G-01: who cannot see a rule that listens already fails, and tries again.

    So with a new rule, one that is switched on, one that listens to more, one that is filtered
    anew and one that was replaced; on each kind of table.
    """
    changes: tuple[tuple[tuple[str, ...], dict[str, Any], str], ...] = (
        (("task.failed",), {}, f"event_types = {literal(list(TYPES))}"),
        (TYPES, {"filter_agent_id": AGENT_B}, "filter_agent_id = NULL"),
        (TYPES, {}, "revision = revision + 1"),
        (TYPES, {"enabled": False}, "enabled = true"),
    )
    writes = (
        commenting(),
        queueing(status="deferred"),
        f"UPDATE issue SET title = 'J' WHERE id = '{ISSUE_I}'",
    )
    with PsqlSession(database_url) as writer:
        for types, columns, change in changes:
            for write in writes:
                town.ask("DELETE FROM issue_wakeup")
                town.listen(*types, **columns)
                writer.ask(begin(level))
                town.ask(f"UPDATE issue_wakeup SET {change}")
                writer.start(write)
                assert writer.finish() == FAILURE, (change, write)
                writer.ask("ROLLBACK")
        writer.ask(begin(level))
        younger = town.listen(TYPE)
        writer.start(commenting())
        assert writer.finish() == FAILURE
        writer.ask("ROLLBACK")
        writer.ask(f"{begin(level)}; {commenting()}; COMMIT")
    assert town.receipt(younger).count == 1


@pytest.mark.parametrize("level", LEVELS)
def test_what_listens_to_nothing_new_disturbs_nobody(
    town: Town, database_url: str, level: str
) -> None:
    """W-038: an older rule hears such a writer, whatever happens on other issues meanwhile.

    Nor does a rule that goes off or gets another text make the writer fail.
    """
    rule = town.listen(TYPE)
    off = town.listen(TYPE)
    with PsqlSession(database_url) as writer:
        writer.ask(begin(level))
        town.listen(TYPE, issue_id=ISSUE_K)
        town.ask(f"UPDATE issue_wakeup SET enabled = false WHERE id = '{off}'")
        town.ask(f"UPDATE issue_wakeup SET instruction = 'Look twice.' WHERE id = '{rule}'")
        writer.ask(f"{commenting()}; COMMIT")
    assert town.receipt(rule).count == 1


@pytest.mark.parametrize("level", LEVELS)
def test_two_writers_of_one_receipt_are_told_apart(
    town: Town, database_url: str, level: str
) -> None:
    """W-038, W-062: of two such writers that merge into one receipt the later one fails."""
    rule = town.listen(TYPE)
    with PsqlSession(database_url) as writer:
        writer.ask(f"{begin(level)}; {commenting()}")
        town.comment()
        writer.start("COMMIT")
        assert writer.finish() == FAILURE
        writer.ask(f"{begin(level)}; {commenting()}; COMMIT")
    assert town.receipt(rule).count == town.count("comment") == 2


@pytest.mark.parametrize("level", LEVELS)
def test_no_rule_survives_a_closing_that_cannot_see_it(
    town: Town, database_url: str, level: str
) -> None:
    """W-186: a closing whose snapshot is older than a rule fails, and tries again."""
    with PsqlSession(database_url) as closer:
        closer.ask(begin(level))
        rule = town.listen(TYPE)
        closer.start(CLOSING)
        assert closer.finish() == FAILURE
        closer.ask("ROLLBACK")
        closer.ask(f"{begin(level)}; {CLOSING}; COMMIT")
    assert town.one(f"SELECT enabled FROM issue_wakeup WHERE id = '{rule}'") == "f"


def test_ordinary_writers_pay_nothing_for_it(town: Town, database_url: str) -> None:
    """W-052: a writer in READ COMMITTED locks no row of the generations."""
    town.listen(TYPE)
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {commenting()}")
        locked = "SELECT count(*) FROM pg_locks WHERE relation = 'wakeup_generation'::regclass"
        assert town.one(f"{locked} AND pid = {writer.backend}") == "0"
