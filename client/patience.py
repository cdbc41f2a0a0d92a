"""How a daemon waits for a server that is away or busy: again and again, in growing pauses.

Only what the server calls a mistake of its own is not repeated for ever: some calls it would never
answer otherwise, and each would hold a run and its place in the daemon.

The pauses have jitter, so that the daemons of a server that comes back do not all come at once.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
import trio

from client import limits
from client.errors import INTERNAL, ApiError

T = TypeVar("T")
_log = structlog.get_logger(__name__)


class Pauses:
    """The pauses between attempts: each about twice as long as the last, up to a bound."""

    def __init__(self) -> None:
        self._seconds = limits.PAUSE_SECONDS_MIN

    async def pause(self, error: ApiError) -> None:
        """Wait before the attempt that follows this failure."""
        _log.info("server_away", code=error.code, status=error.status)
        await trio.sleep(jittered(self._seconds))
        self._seconds = min(2 * self._seconds, limits.PAUSE_SECONDS_MAX)

    def begin_anew(self) -> None:
        """An attempt went well: the next pause is a short one."""
        self._seconds = limits.PAUSE_SECONDS_MIN


def jittered(seconds: float) -> float:
    """Return about that many seconds, different each time."""
    spread = random.uniform(-1, 1)  # noqa: S311 - it spreads load, it guards nothing
    return seconds * (1 + limits.PAUSE_JITTER * spread)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while the server is away or busy; it must be repeatable.

    Raises the `ApiError` that no waiting can mend: a refusal, or one `internal_error` too many.
    """
    pauses = Pauses()
    mistakes = 0
    while True:
        try:
            return await call()
        except ApiError as error:
            mistakes += error.code == INTERNAL
            if not error.is_passing or mistakes == limits.INTERNAL_ERRORS_MAX:
                raise
            failure = error
        await pauses.pause(failure)
