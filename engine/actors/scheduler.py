"""Fans timers out and finds what lost hints left behind. Both only look; dispatch decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from engine import limits
from engine.actors.alarm import Alarm
from engine.actors.messages import Sweep, Tick
from engine.actors.runtime import TrioActor
from engine.clock import DatabaseClock
from engine.errors import WakefulError
from engine.storage.database import Database, Lane, Record, Session
from engine.storage.dispatch import sql

_log = structlog.get_logger(__name__)
_LookAt = Callable[[list[UUID]], None]


class SchedulerActor(TrioActor):
    """On `Tick` hints the issues whose timers have come and sets the alarm to the next one."""

    def __init__(
        self, database: Database, clock: DatabaseClock, alarm: Alarm, look_at: _LookAt
    ) -> None:
        super().__init__()
        self._database = database
        self._clock = clock
        self._alarm = alarm
        self._look_at = look_at

    async def on_receive(self, message: Any) -> None:
        """Handle `Tick`."""
        assert isinstance(message, Tick), message

        async def look(session: Session) -> Record:
            row = await session.fetchrow(sql.timers, limits.DUE_ISSUES_MAX)
            assert row is not None
            return row

        self._alarm.begin_look()
        try:
            found = await self._database.read(Lane.BACKGROUND, look)
        except WakefulError as error:
            _log.warning("scheduler.failed", code=error.code)
            self._alarm.tick_soon()
            return
        due, issue_ids = found["due"], list(found["issue_ids"])
        self._clock.learn(found["now"])
        if len(issue_ids) >= limits.DUE_ISSUES_MAX:  # more have come than one look takes
            due = found["now"] + timedelta(seconds=limits.DUE_PAUSE_SECONDS)
        self._alarm.rearm(due)
        if issue_ids:
            self._alarm.stir()
        self._look_at(issue_ids)


class JanitorActor(TrioActor):
    """On `Sweep` hints every issue that has something to do, longest untouched first (W-075)."""

    def __init__(self, database: Database, alarm: Alarm, look_at: _LookAt) -> None:
        super().__init__()
        self._database = database
        self._alarm = alarm
        self._look_at = look_at
        self._seen: set[UUID] = set()

    async def on_receive(self, message: Any) -> None:
        """Handle `Sweep`."""
        assert isinstance(message, Sweep), message

        async def sweep(session: Session) -> dict[UUID, int]:
            rows = await session.fetch(sql.sweep, limits.SWEEP_RULES_MAX)
            return {row["issue_id"]: row["rules"] for row in rows}

        try:
            committed = await self._database.write(Lane.BACKGROUND, sweep)
        except WakefulError as error:
            _log.warning("sweep.failed", code=error.code)
            return
        if committed.result:
            self._alarm.stir()  # pending inputs keep the sweep going (W-074)
        # More than one sweep takes, of a long outage for instance: sweep on until what comes has
        # been seen before; that waits for somebody else, and for the next sweep.
        is_full = sum(committed.result.values()) >= limits.SWEEP_RULES_MAX
        if is_full and not self._seen.issuperset(committed.result):
            self._seen.update(committed.result)
            self._alarm.sweep_soon()
        else:
            self._seen.clear()
        self._look_at(list(committed.result))
