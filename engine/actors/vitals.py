"""How an engine is, for whoever asks from outside: whether it is ready, and its metrics (W-258)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from engine import limits
from engine.actors.alarm import Alarm
from engine.actors.claims import ClaimDesk
from engine.actors.dispatcher import Dispatcher
from engine.actors.meter import Meter
from engine.actors.runtime import Runtime
from engine.errors import WakefulError
from engine.metrics import Metrics, Readings
from engine.storage import queries
from engine.storage.database import Database, Lane, Session
from engine.work import WorkKind, WorkLedger

_gateway: Final = queries.load("gateway")


@attrs.define(kw_only=True, eq=False)
class Vitals:
    """The parts of an engine that tell how it is; asking them changes nothing."""

    database: Database
    runtime: Runtime
    ledger: WorkLedger
    alarm: Alarm
    desk: ClaimDesk
    dispatcher: Dispatcher
    metrics: Metrics
    meter: Meter
    is_started: bool = False

    async def ready(self) -> tuple[bool, Mapping[str, Any]]:
        """Tell whether the parts that everything needs are alive, and the state of each.

        Takes READY_SECONDS_MAX at most.
        """
        database = await self._look_up()
        is_listening = self.database.statistics().is_listening
        scheduler = "starting"
        if self.is_started:
            scheduler = "up" if self.alarm.is_awake else "stuck"
        state = {
            "database": database,
            "migrations": "applied",
            "listener": "up" if is_listening else "down",
            "scheduler": scheduler,
            "last_sweep_at": self.alarm.last_sweep_at,
            "next_due_at": self.alarm.next_due,
        }
        return database == "up" and is_listening and scheduler == "up", state

    async def exposition(self) -> bytes:
        """Return all metrics as Prometheus text; without the database's when it cannot be read."""
        readings = await self.meter.read()
        return self.metrics.text(
            {**self._dispatcher(), **self._lanes(), **self._parts(), **readings}
        )

    async def _look_up(self) -> str:
        async def look(session: Session) -> None:
            await session.fetchval(_gateway.alive)

        with trio.move_on_after(limits.READY_SECONDS_MAX):
            try:
                await self.database.read(Lane.API, look)
            except WakefulError as error:
                return error.code
            return "up"
        return "slow"

    def _dispatcher(self) -> Readings:
        seen = self.dispatcher.statistics
        return {
            "wakeful_dispatch_failures": {(): seen.failed_rules},
            "wakeful_dispatch_contention": {(): seen.contention},
            "wakeful_dispatch_left_to_sweep": {(): seen.left_to_sweep},
        }

    def _lanes(self) -> Readings:
        lanes = self.database.statistics().lanes
        figures = {
            "wakeful_lane_connections": "size",
            "wakeful_lane_busy": "busy",
            "wakeful_lane_waiting": "waiting",
            "wakeful_lane_units": "units",
            "wakeful_lane_replaced": "replaced",
            "wakeful_lane_unknown_commits": "unknown",
        }
        return {
            name: {(lane,): getattr(seen, field) for lane, seen in lanes.items()}
            for name, field in figures.items()
        }

    def _parts(self) -> Readings:
        work = self.ledger.open_by_kind()
        database = self.database.statistics()
        actors = self.runtime.statistics()
        return {
            "wakeful_claims_waiting": {(): self.desk.waiting},
            "wakeful_work_tokens": {(kind,): work[kind] for kind in WorkKind},
            "wakeful_actors_resident": {(): actors.resident},
            "wakeful_actor_failures": {(): actors.tally.failed},
            "wakeful_listener_connected": {(): int(database.is_listening)},
            "wakeful_hints_dropped": {(): database.hints_dropped},
        }
