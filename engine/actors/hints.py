"""Hints in this process: which issues to look at, when to tick, which claims to wake.

Losing one is harmless, the sweep finds what is left. An issue that was hinted a moment ago and not
taken up by a dispatch yet is not hinted again, so that a burst of facts costs one message; only for
a moment, because an actor that was given up drops its messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from uuid import UUID

import structlog
import trio

from engine import limits
from engine.actors.alarm import Alarm
from engine.actors.issue import IssueActor
from engine.actors.messages import Look
from engine.actors.runtime import Runtime
from engine.actors.watch import Watch
from engine.errors import WakefulError
from engine.service.dispatch import Dispatched
from engine.service.registry import Work

_log = structlog.get_logger(__name__)


class Hints:
    """Spreads what commits brought about; see the module."""

    def __init__(
        self,
        runtime: Runtime,
        alarm: Alarm,
        wake: Callable[[Iterable[UUID]], None],
        watch: Watch,
    ) -> None:
        """`wake` wakes the waiting claims of runtimes."""
        self._runtime = runtime
        self._watch = watch
        self._alarm = alarm
        self._wake = wake
        self._hinted: dict[UUID, float] = {}  # when, by Trio's clock
        self.hurry: Callable[[UUID], None] = lambda _: None  # the dispatcher's
        self.refused = 0

    def look_at(self, issue_ids: Iterable[UUID], *, is_bulk: bool = False) -> None:
        """Tell the actors of these issues to look, except those that will anyway.

        In bulk they let single facts pass; see `Look`. A fact for an issue that waits in bulk
        hurries it.
        """
        issue_ids = tuple(issue_ids)
        for issue_id in issue_ids:
            self._watch.hinted(issue_id)
        self._tell(issue_ids, is_bulk=is_bulk)

    def swept(self, issue_ids: Iterable[UUID]) -> None:
        """Tell the actors of issues that a sweep has found; nobody else may have told of them."""
        issue_ids = tuple(issue_ids)
        self._watch.swept(issue_ids)
        self._tell(issue_ids, is_bulk=True)

    def taken(self, issue_id: UUID) -> None:
        """A dispatch is about to read the issue: facts that come from now on need a new hint."""
        self._hinted.pop(issue_id, None)

    def after_dispatch(self, opened: Iterable[UUID], done: Dispatched) -> None:
        """Follow up a committed dispatch."""
        self._watch.committed(done)
        self._spread([*opened, *done.again], done.due, done.runtimes)

    def after_use_case(self, opened: Iterable[UUID], work: Work) -> None:
        """Follow up a committed use case."""
        self._spread([*opened, *work.issues], work.due, work.runtimes)

    def _tell(self, issue_ids: Iterable[UUID], *, is_bulk: bool) -> None:
        now = trio.current_time()
        for issue_id in issue_ids:
            if now - self._hinted.get(issue_id, -math.inf) < limits.HINT_SECONDS:
                if not is_bulk:
                    self.hurry(issue_id)
                continue
            try:
                self._runtime.ref(IssueActor, issue_id).tell(Look(is_bulk=is_bulk))
            except WakefulError as error:
                self.refused += 1
                _log.info("hint.refused", issue_id=str(issue_id), code=error.code)
            else:
                self._hinted[issue_id] = now

    def _spread(
        self, issues: Iterable[UUID], due: Iterable[datetime], runtimes: Iterable[UUID]
    ) -> None:
        self._alarm.stir()
        self.look_at(issues)
        for at in due:
            self._alarm.arm(at)
        self._wake(runtimes)
