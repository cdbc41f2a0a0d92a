"""The answer to one ask: set once by the handler's side, awaited by the asker."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import trio

from engine.errors import WakefulError

BLOCKS: Final = "this call would block the loop; await the answer instead"


class Answer:
    """An answer to be awaited, by one task at a time.

    A cancelled wait, or one that took longer than `timeout` seconds, abandons the answer; the
    handler still runs to its end and stays counted (S-067).

    Raises, when awaited:
        WakefulError: `unanswered` after the timeout.
        BaseException: what the handler answered with.
    """

    __slots__ = ("_error", "_is_done", "_timeout", "_value", "_waiter", "is_abandoned")

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiter: trio.lowlevel.Task | None = None
        self.is_abandoned = False

    def set(self, value: Any = None) -> None:
        """Answer with a value; only once."""
        assert not self._is_done
        self._value = value
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless there is an answer already."""
        if not self._is_done:
            self._error = error
            self._finish()

    def get(self, *, timeout: float | None = None) -> Any:  # noqa: ARG002 - Pykka's signature
        """Return the answer if it is there; waiting for it here would block the loop."""
        if not self._is_done:
            raise RuntimeError(BLOCKS)
        return self._result()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        if self._timeout is None:
            await self._until_done()
            return self._result()
        with trio.move_on_after(self._timeout):
            await self._until_done()
        if not self._is_done:
            raise WakefulError("unanswered", f"no answer within {self._timeout:g} s")
        return self._result()

    async def _until_done(self) -> None:
        if self._is_done:
            await trio.lowlevel.checkpoint()
            return
        if self._waiter is not None:
            raise RuntimeError("another task waits for this answer")
        self._waiter = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abandon)

    def _abandon(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._waiter = None
        self.is_abandoned = True
        return trio.lowlevel.Abort.SUCCEEDED

    def _finish(self) -> None:
        self._is_done = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            trio.lowlevel.reschedule(waiter)

    def _result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value
