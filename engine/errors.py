"""Every error that a caller can meet: one base class, stable codes, one table.

The table maps a code to its HTTP status, whether the same call may succeed later, and a title.
Nothing else in the product decides a status. An error's text never holds SQL, a secret, a prompt
or a comment body (api.md, Conventions).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs


@attrs.frozen
class ErrorKind:
    """What a code means on the wire: HTTP status, whether a retry can help, a short title."""

    status: int
    title: str
    retryable: bool = False


KINDS: Final[Mapping[str, ErrorKind]] = MappingProxyType(
    {
        "invalid_input": ErrorKind(400, "Invalid input"),
        "invalid_json": ErrorKind(400, "The body is not valid JSON"),
        "invalid_encoding": ErrorKind(400, "The request is not valid UTF-8 text"),
        "invalid_multipart": ErrorKind(400, "The body is not valid multipart/form-data"),
        "unknown_field": ErrorKind(400, "Unknown field"),
        "missing_field": ErrorKind(400, "Missing field"),
        "body_too_large": ErrorKind(400, "The body is too large for this route"),
        "invalid_schedule": ErrorKind(400, "Invalid schedule"),
        "invalid_filter": ErrorKind(400, "Invalid filter"),
        "invalid_event_type": ErrorKind(400, "Unknown or unavailable event type"),
        "invalid_transition": ErrorKind(400, "The run cannot make this transition"),
        "issue_closed": ErrorKind(400, "The issue is closed"),
        "wakeup_disabled": ErrorKind(400, "The wakeup is switched off"),
        "agent_unavailable": ErrorKind(400, "The agent is archived or has no runtime"),
        "wakeup_capacity_exceeded": ErrorKind(400, "Too many enabled wakeups"),
        "upload_capacity_exceeded": ErrorKind(400, "Too much is uploaded and bound to nothing"),
        "not_authenticated": ErrorKind(401, "Not authenticated"),
        "not_allowed": ErrorKind(403, "Not allowed"),
        "cannot_invoke_agent": ErrorKind(403, "The caller may not invoke this agent"),
        "no_human_principal": ErrorKind(403, "No person stands behind this call"),
        "daemon_mismatch": ErrorKind(403, "The token belongs to another daemon"),
        "not_found": ErrorKind(404, "Not found"),
        "method_not_allowed": ErrorKind(405, "Method not allowed"),
        "request_timeout": ErrorKind(408, "The body did not arrive in time", retryable=True),
        "stale_claim": ErrorKind(409, "The claim was taken over"),
        "stale_revision": ErrorKind(409, "The wakeup was changed meanwhile"),
        "conflict": ErrorKind(409, "Conflict"),
        "idempotency_key_reused": ErrorKind(409, "The key was used for another request"),
        "wakeup_source_busy": ErrorKind(409, "The watched run is busy", retryable=True),
        "payload_too_large": ErrorKind(413, "The announced body is too large"),
        "unsupported_media_type": ErrorKind(415, "The body must be JSON"),
        "internal_error": ErrorKind(500, "Internal error"),
        "data_directory_unusable": ErrorKind(500, "The data directory cannot be used"),
        "migration_invalid": ErrorKind(500, "A migration file is invalid"),
        "migration_edited": ErrorKind(500, "An applied migration was edited"),
        "migration_failed": ErrorKind(500, "A migration failed"),
        "migration_refused": ErrorKind(409, "The migration cannot be applied or undone now"),
        "schema_behind": ErrorKind(503, "The database lacks migration steps"),
        "contention": ErrorKind(503, "The rows stayed locked", retryable=True),
        "budget_exceeded": ErrorKind(503, "The statement took too long", retryable=True),
        "database_unavailable": ErrorKind(503, "The database is not reachable", retryable=True),
        "commit_unknown": ErrorKind(503, "The outcome is unknown; read before retrying"),
        "stopping": ErrorKind(503, "The server is stopping", retryable=True),
        "overloaded": ErrorKind(503, "Too much work is waiting", retryable=True),
        "unanswered": ErrorKind(503, "No answer in time; the work goes on"),
    },
)


class WakefulError(Exception):
    """An operating error with a stable code from `KINDS`.

    `field` names the offending input field and travels as `details.field`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        assert code in KINDS, code
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: dict[str, object] = dict(details or {})
        if field is not None:
            self.details["field"] = field

    @property
    def kind(self) -> ErrorKind:
        """The row of the table for this error's code."""
        return KINDS[self.code]


def invalid(field: str, message: str, *, code: str = "invalid_input") -> WakefulError:
    """Return the error for one bad input field."""
    return WakefulError(code, message, field=field)


def agent_unavailable() -> WakefulError:
    """Return the error for an agent that cannot run, with what helps."""
    message = (
        "the agent is archived or has no runtime: "
        "start one with wakeful daemon --agent NAME --exec COMMAND"
    )
    return WakefulError("agent_unavailable", message, field="agent_id")


def not_found(what: str) -> WakefulError:
    """Return the error for something absent, or present but not visible to the caller."""
    return WakefulError("not_found", f"{what} not found")
