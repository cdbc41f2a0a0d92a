"""Hints: one a burst, and none that keeps others away for ever."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import trio
from trio.testing import MockClock

from engine import limits
from engine.actors.alarm import Alarm
from engine.actors.hints import Hints
from engine.actors.issue import IssueActor
from engine.actors.messages import Look
from engine.actors.runtime import Runtime, TrioActor
from engine.actors.watch import Watch
from engine.clock import DatabaseClock
from engine.metrics import Metrics
from engine.work import WorkLedger

ISSUE = UUID(int=1)


class Stuck(TrioActor):
    """Stands in an issue's place; works on its first message until it is let go."""

    def __init__(self, looks: list[Any], let_go: trio.Event) -> None:
        super().__init__()
        self._looks = looks
        self._let_go = let_go

    async def on_receive(self, message: Any) -> None:
        """Note the message and stay with it."""
        self._looks.append(message)
        await self._let_go.wait()


async def test_a_hint_that_nobody_took_up_holds_no_other_back(mock_clock: MockClock) -> None:
    """W-072: a burst costs one message; a hint that was dropped does not silence the sweep."""
    looks: list[Any] = []
    let_go = trio.Event()
    async with Runtime.open(WorkLedger()) as runtime:
        runtime.register(IssueActor, lambda _: Stuck(looks, let_go))  # type: ignore[arg-type,return-value] # stands in
        clock = DatabaseClock()
        alarm = Alarm(clock, lambda _: None, sweep_idle_after=600)
        hints = Hints(runtime, alarm, lambda _: None, Watch(clock, Metrics()))
        for _ in range(10):
            hints.look_at([ISSUE])
        await trio.testing.wait_all_tasks_blocked()
        assert looks == [Look()]
        mock_clock.jump(limits.HINT_SECONDS)
        hints.look_at([ISSUE])
        let_go.set()
        await trio.testing.wait_all_tasks_blocked()
        assert looks == [Look(), Look()]
        hints.taken(ISSUE)
        hints.look_at([ISSUE])
        await trio.testing.wait_all_tasks_blocked()
        assert len(looks) == 3
