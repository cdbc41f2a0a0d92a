"""Errors on the wire: `application/problem+json` (RFC 9457) as api.md has it.

The one place that turns an exception into an answer. What is not a known error becomes
`internal_error` without a word about it; the log gets the type of the exception and nothing that
it says, because that may hold what a user wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs
import structlog
from werkzeug.exceptions import HTTPException

from engine.errors import KINDS, WakefulError
from web import wire

MEDIA_TYPE: Final = "application/problem+json"
_log = structlog.get_logger(__name__)

# What Quart itself refuses, by its status.
_REFUSALS: Final = {
    404: WakefulError("not_found", "There is nothing at this address."),
    405: WakefulError("method_not_allowed", "This address does not take this method."),
    408: WakefulError("request_timeout", "The body did not arrive in time."),
    413: WakefulError("payload_too_large", "The announced body is too large."),
}


INTERNAL: Final = KINDS["internal_error"].status


@attrs.frozen(kw_only=True)
class Problem:
    """One answer that says what went wrong: status, headers, body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def problem(error: WakefulError, *, headers: Iterable[tuple[str, str]] = ()) -> Problem:
    """Return the answer for a known error; a retry that may help is hinted at (Retry-After)."""
    kind = error.kind
    # What went wrong inside is for the log: it may name statements and states of the database.
    message = "The server failed; its log says why." if kind.status == INTERNAL else error.message
    fields: dict[str, Any] = {
        "type": f"urn:wakeful:problem:{error.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": message,
        "code": error.code,
        "error": message,
    }
    if error.details:
        fields["details"] = error.details
    extra = list(headers)
    if kind.retryable and kind.status == KINDS["stopping"].status:
        extra.append(("Retry-After", "1"))
    if kind.status == KINDS["not_authenticated"].status:
        extra.append(("WWW-Authenticate", "Bearer"))
    body = wire.dumps(fields)
    return Problem(
        status=kind.status,
        headers=(
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            *extra,
        ),
        body=body,
    )


def problem_of(error: BaseException) -> Problem:
    """Return the answer for any exception; an unknown one is logged by its type alone."""
    match error:
        case WakefulError():
            if error.kind.status >= KINDS["internal_error"].status and not error.kind.retryable:
                _log.warning("request_failed", code=error.code)
            return problem(error)
        case HTTPException(code=int(status)) if status in _REFUSALS:
            allow = [
                (name, value) for name, value in error.get_headers() if name.lower() == "allow"
            ]
            return problem(_REFUSALS[status], headers=allow)
        case HTTPException(code=int(status)) if status < KINDS["internal_error"].status:
            return problem(WakefulError("invalid_input", "The request cannot be understood."))
        case _:
            _log.error("request_crashed", error=type(error).__name__)
            return problem(WakefulError("internal_error", "The server made a mistake."))
