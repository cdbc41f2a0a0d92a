"""NOTIFY to hints: what other writers committed. Losing one is harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from engine.storage.database import Database, Notification, Reconnected

WAKEUPS: Final = "wakeful_wakeups"
TIMERS: Final = "wakeful_timers"
RUNS: Final = "wakeful_runs"


class Listener:
    """Hears the notifications of foreign writers and of other engines, as hints.

    `recover` is called whenever the connection stands (again): notifications of the gap are lost,
    so timers, pending inputs and waiting claims are all looked at once (W-073).
    """

    def __init__(
        self,
        database: Database,
        *,
        look_at: Callable[[Iterable[UUID]], None],
        tick: Callable[[], None],
        wake: Callable[[Iterable[UUID]], None],
        recover: Callable[[], None],
    ) -> None:
        self._database = database
        self._look_at = look_at
        self._tick = tick
        self._wake = wake
        self._recover = recover

    async def run(self) -> None:
        """Listen until cancelled."""
        async with self._database.listen([WAKEUPS, TIMERS, RUNS]) as hints:
            async for hint in hints:
                match hint:
                    case Reconnected():
                        self._recover()
                    case Notification(own=False) as notification:
                        self._heard(notification)

    def _heard(self, notification: Notification) -> None:
        """Pass a hint on; a payload that is no id came from somebody who plays with channels."""
        if notification.channel == TIMERS:
            self._tick()
            return
        with suppress(ValueError):
            target = UUID(notification.payload)
            (self._look_at if notification.channel == WAKEUPS else self._wake)([target])
