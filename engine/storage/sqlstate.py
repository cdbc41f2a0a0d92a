"""What a SQLSTATE means to a caller: the one mapping from the server's codes to our errors.

Messages name the query and the code. They never hold SQL or the values of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import WakefulError

if TYPE_CHECKING:
    from uuid import UUID

CONNECTION_LOST: Final = "08006"  # for breaks that the server had no chance to report
SCHEMA_CHANGED: Final = "0A000"  # a cached plan outlived a migration
MISUSE: Final = "XX000"  # of the driver: a session used twice at once


class DatabaseError(WakefulError):
    """The server refused a statement for a reason that no caller expects: a defect of ours.

    `sqlstate` is the server's code, `query` the name of the statement.
    """

    def __init__(self, sqlstate: str, query: str) -> None:
        super().__init__("internal_error", f"{query}: SQLSTATE {sqlstate}")
        self.sqlstate = sqlstate
        self.query = query


class ConstraintViolation(DatabaseError):  # noqa: N818 - it names what happened; often expected
    """A statement would break the constraint called `constraint` (empty when it has no name)."""

    def __init__(self, sqlstate: str, query: str, constraint: str) -> None:
        super().__init__(sqlstate, query)
        self.constraint = constraint


class CommitUnknown(WakefulError):  # noqa: N818 - the third outcome, not a failure
    """The connection broke while COMMIT ran: the transaction may be there or not.

    `opened` is what the flush query had returned; hint these issues as if it had committed.
    """

    def __init__(self, opened: tuple[UUID, ...] = ()) -> None:
        super().__init__("commit_unknown", "the connection broke while the transaction committed")
        self.opened = opened


def failure(sqlstate: str, query: str, *, constraint: str = "") -> WakefulError:
    """Return the error for a statement that ended with `sqlstate`.

    Locks and lost races become `contention`, budgets `budget_exceeded`, everything that says
    that the server is not there for us `database_unavailable`, class 23 `ConstraintViolation`,
    the rest `DatabaseError`.
    """
    if sqlstate in ("55P03", "40P01", "40001", SCHEMA_CHANGED):
        return WakefulError("contention", f"others held what was needed (SQLSTATE {sqlstate})")
    if sqlstate in ("57014", "25P03", "25P04"):
        return WakefulError("budget_exceeded", f"the time for it ran out (SQLSTATE {sqlstate})")
    if sqlstate.startswith(("08", "53", "57P0")):
        return WakefulError("database_unavailable", f"no usable server (SQLSTATE {sqlstate})")
    if sqlstate.startswith("23"):
        return ConstraintViolation(sqlstate, query, constraint)
    return DatabaseError(sqlstate, query)


def may_pass(sqlstate: str) -> bool:
    """Whether connecting can succeed later without anybody changing the login or the database."""
    return sqlstate.startswith(("08", "53", "57", "58", "XX"))
