"""The two ways to outlive a caller: a spawned task and a worker thread; both are counted.

Everything else that must outlive its request is a row that an inspector reads (S-071).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TypeVar, TypeVarTuple

import structlog
import trio

from engine import limits
from engine.work import Token, WorkKind, WorkLedger

log = structlog.get_logger()

T = TypeVar("T")
Args = TypeVarTuple("Args")


class Spawner:
    """Starts counted work in the service nursery of one runtime."""

    def __init__(self, ledger: WorkLedger, nursery: trio.Nursery) -> None:
        self._ledger = ledger
        self._nursery = nursery
        self._threads = trio.CapacityLimiter(limits.WORKER_THREADS_MAX)
        self.failed = 0

    def spawn(
        self,
        fn: Callable[[*Args], Awaitable[object]],
        *args: *Args,
        kind: WorkKind,
        name: str,
    ) -> None:
        """Run `fn(*args)` in a task of its own; its token begins now and ends with it (S-071)."""
        token = self._ledger.begin(kind, name)
        try:
            self._nursery.start_soon(self._run, token, fn, args, name=name)
        except BaseException:
            token.finish()
            raise

    async def _run(
        self, token: Token, fn: Callable[..., Awaitable[object]], args: tuple[object, ...]
    ) -> None:
        with token:
            try:
                await fn(*args)
            except Exception:  # nobody waits for it, so its failure ends here
                self.failed += 1
                log.exception("spawned_task_failed", kind=token.kind.value, name=token.name)

    async def run_sync(
        self,
        fn: Callable[[*Args], T],
        *args: *Args,
        kind: WorkKind = WorkKind.THREAD,
        name: str = "",
        abandon_on_cancel: bool = False,
    ) -> T:
        """Run a blocking `fn(*args)` in a worker thread and return what it returns.

        The token begins here, before the hand-over, and ends in the thread (S-069): an abandoned
        wait stays counted until `fn` has returned. A cancelled wait for a free thread runs
        nothing.
        """
        token = self._ledger.begin(kind, name)
        # Whoever gets the baton ends the token: the thread before it runs `fn`, or the caller,
        # and then `fn` does not run any more. Only so a cancellation during the hand-over is safe.
        baton = Lock()

        def run_in_thread() -> T:
            if not baton.acquire(blocking=False):
                raise RuntimeError("abandoned before it ran")  # and nobody is there to see it
            with token:
                return fn(*args)

        try:
            return await trio.to_thread.run_sync(
                run_in_thread,
                thread_name=name or None,
                abandon_on_cancel=abandon_on_cancel,
                limiter=self._threads,
            )
        finally:
            if baton.acquire(blocking=False):
                token.finish()
