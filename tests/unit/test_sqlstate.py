"""What the server's codes mean to a caller."""

from __future__ import annotations

from uuid import UUID

import pytest

from engine.errors import KINDS
from engine.storage.sqlstate import (
    CommitUnknown,
    ConstraintViolation,
    DatabaseError,
    failure,
    may_pass,
)


@pytest.mark.parametrize(
    ("sqlstate", "code"),
    [
        ("55P03", "contention"),
        ("40P01", "contention"),
        ("40001", "contention"),
        ("0A000", "contention"),
        ("57014", "budget_exceeded"),
        ("25P03", "budget_exceeded"),
        ("25P04", "budget_exceeded"),
        ("08006", "database_unavailable"),
        ("57P01", "database_unavailable"),
        ("57P02", "database_unavailable"),
        ("57P03", "database_unavailable"),
        ("53300", "database_unavailable"),
        ("42P01", "internal_error"),
        ("25006", "internal_error"),
    ],
)
def test_a_code_of_the_server_has_one_meaning(sqlstate: str, code: str) -> None:
    """Lost races, spent budgets and absent servers are retryable; a defect of ours is not."""
    found = failure(sqlstate, "rules.load")
    assert found.code == code
    assert found.kind.retryable == (code != "internal_error")
    assert sqlstate in found.message


def test_a_violated_constraint_is_named() -> None:
    """Class 23 carries the constraint, so that a use case can say what it means."""
    found = failure("23505", "rules.insert", constraint="issue_wakeup_pkey")
    assert isinstance(found, ConstraintViolation)
    assert isinstance(found, DatabaseError)
    assert (found.constraint, found.sqlstate) == ("issue_wakeup_pkey", "23505")
    assert found.message == "rules.insert: SQLSTATE 23505"


def test_an_unknown_commit_carries_what_was_opened() -> None:
    """Issues are hinted also when nobody knows whether the commit happened."""
    opened = (UUID(int=1),)
    found = CommitUnknown(opened)
    assert found.code == "commit_unknown"
    assert not KINDS[found.code].retryable
    assert found.opened == opened


def test_a_refused_login_does_not_pass() -> None:
    """Starting servers and broken lines are worth waiting for, a wrong password is not."""
    assert all(map(may_pass, ("08006", "57P03", "53300")))
    assert not any(map(may_pass, ("28P01", "3D000", "42704")))
