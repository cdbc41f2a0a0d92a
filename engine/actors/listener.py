"""NOTIFY to hints: what other writers and other engines committed. Losing one is harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from engine.actors.alarm import Alarm, Bell
from engine.actors.fleet import Fleet, sql
from engine.actors.plans import PlanNews
from engine.actors.watch import Watch
from engine.storage.database import Database, Notification, Reconnected

WAKEUPS: Final = "wakeful_wakeups"
TIMERS: Final = "wakeful_timers"
RUNS: Final = "wakeful_runs"
ENGINES: Final = "wakeful_engines"

_log = structlog.get_logger(__name__)


class Listener:
    """Hears the notifications of foreign writers and of other engines, as hints.

    `recover` is called whenever the connection stands (again): notifications of the gap are lost,
    so timers, pending inputs and waiting claims are all looked at once (W-073).
    """

    def __init__(
        self,
        database: Database,
        *,
        fleet: Fleet,
        alarm: Alarm,
        watch: Watch,
        wake: Callable[[Iterable[UUID]], None],
        recover: Callable[[], None],
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._alarm = alarm
        self._watch = watch
        self._wake = wake
        self._recover = recover

    async def run(self) -> None:
        """Listen until cancelled, then tell the other engines."""
        try:
            async with self._database.listen(
                [WAKEUPS, TIMERS, RUNS, ENGINES], arrive=sql.arrive
            ) as hints:
                async for hint in hints:
                    match hint:
                        case Reconnected(backend=backend):
                            self._fleet.stands(backend)
                            self._watch.listens()
                            self._recover()
                        case Notification(own=False) as notification:
                            self._heard(notification.channel, notification.payload)
        finally:
            await self._fleet.leave()

    def _heard(self, channel: str, payload: str) -> None:
        """Pass a hint on; a payload that says nothing is from somebody who plays with channels.

        Anybody who may connect may notify: whatever a payload does to us, the next hint is heard.
        """
        try:
            self._pass_on(channel, payload)
        except Exception as error:  # noqa: BLE001 - see above
            _log.info("hint.unreadable", channel=channel, error=type(error).__name__)

    def _pass_on(self, channel: str, payload: str) -> None:
        if channel == WAKEUPS:
            issue_id = UUID(payload)
            self._alarm.stir()
            self._watch.hinted(issue_id)
            self._fleet.heard(issue_id)
        elif channel == RUNS:
            self._wake([UUID(payload)])
        elif channel == TIMERS:
            self._heard_of_timer(payload)
        else:
            self._heard_of_engine(*payload.split(" ", 1))

    def _heard_of_timer(self, payload: str) -> None:
        """A due time was written: look, except when an engine wrote one that is not the next."""
        self._alarm.stir()
        next_due = self._alarm.next_due
        if not payload or next_due is None or datetime.fromisoformat(payload) < next_due:
            self._alarm.soon(Bell.TIMERS, pause=0.0)

    def _heard_of_engine(self, word: str, rest: str = "") -> None:
        match word:
            case "here":
                self._fleet.count()
            case "gone":
                self._fleet.gone(int(rest))
            case "busy":
                self._alarm.stir()
            case "plan":
                news = PlanNews.from_text(rest)
                self._alarm.carried_out()
                self._alarm.set(Bell.PLAN, news.retention)
                self._alarm.set(Bell.RECOVERY, news.recovery)
