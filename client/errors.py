"""What can go wrong in a call: the server refused it, or was not reached, or another answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

UNREACHABLE: Final = "unreachable"
UNEXPECTED: Final = "unexpected_answer"
INTERNAL: Final = "internal_error"  # a mistake of the server
_SERVER_ERRORS: Final = 500
_PASSING: Final = frozenset((408, 429))  # timed out, too many requests


class ApiError(Exception):
    """The server refused a call: its stable `code`, a sentence for a person, the HTTP status.

    `status` is None where there is no answer. `details.field` names a field that is to blame.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.details: dict[str, Any] = dict(details or {})

    @property
    def is_passing(self) -> bool:
        """Tell whether the server may answer otherwise later: it is away, stopping or busy.

        An answer that is not Wakeful's, whatever it says, comes from somebody who stands before the
        server and speaks in its place for a while.
        """
        if self.code in (UNREACHABLE, UNEXPECTED):
            return True
        return self.status is not None and (
            self.status >= _SERVER_ERRORS or self.status in _PASSING
        )


class UnreachableError(ApiError):
    """No answer came; whether the call took effect is not known."""

    def __init__(self, message: str) -> None:
        super().__init__(UNREACHABLE, message)
