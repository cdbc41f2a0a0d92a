"""Fans timers out, and carries out the planned jobs. Both only look; dispatch decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import structlog
import trio

from engine import limits
from engine.actors.alarm import Alarm, Bell
from engine.actors.fleet import Fleet
from engine.actors.hints import Hints
from engine.actors.messages import CarryOut, Recover, Sweep, Tick
from engine.actors.plans import Done, Job, Plan, PlanNews, Plans
from engine.actors.runtime import TrioActor
from engine.clock import DatabaseClock
from engine.errors import WakefulError
from engine.service.recovery import Recovered, recover
from engine.service.retention import forget_plans, retain
from engine.storage.database import CommitUnknown, Database, Lane, Record, Session
from engine.storage.dispatch import sql

_log = structlog.get_logger(__name__)
_OTHERS_FIRST = timedelta(seconds=limits.OTHERS_FIRST_SECONDS)


class SchedulerActor(TrioActor):
    """On `Tick` hints the issues whose timers have come and sets the alarm to the next one.

    Of several engines each takes its own share (`Fleet`), and after 250 ms whatever is still due.
    """

    def __init__(
        self,
        database: Database,
        clock: DatabaseClock,
        alarm: Alarm,
        hints: Hints,
        fleet: Fleet,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """`room` waits until a dispatch can take more in bulk."""
        super().__init__()
        self._database = database
        self._clock = clock
        self._alarm = alarm
        self._hints = hints
        self._fleet = fleet
        self._room = room

    async def on_receive(self, message: Any) -> None:
        """Handle `Tick`."""
        assert isinstance(message, Tick), message

        async def look(session: Session) -> Record:
            row = await session.fetchrow(sql.timers, limits.DUE_ISSUES_MAX)
            assert row is not None
            return row

        self._alarm.begin_look()
        try:
            found = await self._database.read(Lane.DISPATCH, look)
        except WakefulError as error:
            _log.warning("scheduler.failed", code=error.code)
            self._alarm.soon(Bell.TIMERS)
            return
        now, due = found["now"], found["due"]
        self._clock.learn(now)
        issue_ids = [
            issue_id
            for issue_id, since in zip(found["issue_ids"], found["since"], strict=True)
            if now - since >= _OTHERS_FIRST or self._fleet.is_first(issue_id)
        ]
        if len(found["issue_ids"]) >= limits.DUE_ISSUES_MAX:  # more have come than one look takes
            due = now + timedelta(seconds=limits.DUE_PAUSE_SECONDS)
        elif len(issue_ids) < len(found["issue_ids"]):
            due = now + _OTHERS_FIRST if due is None else min(due, now + _OTHERS_FIRST)
        self._alarm.rearm(due)
        if found["issue_ids"]:
            self._alarm.stir()
        for first in range(0, len(issue_ids), limits.GROUP_RULES_MAX):
            self._hints.look_at(issue_ids[first : first + limits.GROUP_RULES_MAX], is_bulk=True)
            await trio.lowlevel.checkpoint()  # its actors have passed it on
            await self._room()  # the first group is under way before the last is made


class JanitorActor(TrioActor):
    """Does what is planned, and what a loss of hints or a passing instant asks for.

    `Sweep` hints every issue that has something to do, longest untouched first (W-075); `Recover`
    moves the runs whose time has come; `CarryOut` does both, and retention, as the plan of all
    engines (W-082).
    """

    def __init__(
        self,
        database: Database,
        alarm: Alarm,
        hints: Hints,
        plans: Plans,
        wake: Callable[[Iterable[UUID]], None],
    ) -> None:
        """`wake` wakes the waiting claims of runtimes."""
        super().__init__()
        self._database = database
        self._alarm = alarm
        self._hints = hints
        self._plans = plans
        self._wake = wake
        self._seen: set[UUID] = set()

    async def on_receive(self, message: Any) -> None:
        """Handle `Sweep`, `Recover` and `CarryOut`."""
        try:
            match message:
                case Sweep():
                    await self._sweep()
                case Recover():
                    await self._recover()
                case CarryOut():
                    await self._carry_out(await self._plans.take())
                case _:
                    raise AssertionError(message)
        except WakefulError as error:
            if error.code != "stopping":
                _log.warning("janitor.failed", message=type(message).__name__, code=error.code)
            self._alarm.soon(_BELLS[type(message)])

    async def _carry_out(self, plan: Plan) -> None:
        """Do the jobs of a plan that this engine got, and tell the others what comes next.

        If another engine has the plan, the alarm rings until one was carried out.
        """
        recovered, next_retention = Recovered(), None

        async def recovery() -> Done:
            nonlocal recovered
            recovered = await self._recover()
            counts = {"issues": len(recovered.issues), "runtimes": len(recovered.runtimes)}
            return Done(rows=len(recovered.issues), result=counts)

        async def retention() -> Done:
            nonlocal next_retention
            kept = (await self._database.write(Lane.BACKGROUND, retain)).result
            next_retention = kept.next_due
            if next_retention is not None and not kept.is_full:
                next_retention += timedelta(seconds=limits.RETENTION_PAUSE_SECONDS)
            forget = partial(forget_plans, jobs=list(Job))
            plans = (await self._database.write(Lane.BACKGROUND, forget)).result
            return Done(rows=kept.deleted, result={"receipts": kept.deleted, "plans": plans})

        work = {Job.DISPATCH: self._sweep, Job.RECOVERY: recovery, Job.RETENTION: retention}
        done = [
            lease.job
            for lease in plan.leases
            if await self._plans.carry_out(lease, work[lease.job])
        ]
        if set(done) != set(Job):
            return
        if next_retention is not None:
            next_retention = max(next_retention, plan.next)
        news = PlanNews(plan=plan.time, retention=next_retention, recovery=recovered.next_due)
        self._alarm.carried_out()
        self._alarm.set(Bell.PLAN, next_retention)
        await self._plans.announce(news)

    async def _recover(self) -> Recovered:
        try:
            committed = await self._database.write(Lane.BACKGROUND, recover)
        except CommitUnknown as error:  # it may have happened: hints are harmless
            self._hints.look_at(error.opened, is_bulk=True)
            raise
        recovered, issues = committed.result, {*committed.opened, *committed.result.issues}
        if issues:
            self._alarm.stir()
        self._alarm.set(Bell.RECOVERY, recovered.next_due)
        self._hints.look_at(issues, is_bulk=True)
        self._wake(recovered.runtimes)
        return recovered

    async def _sweep(self) -> Done:
        async def sweep(session: Session) -> dict[UUID, int]:
            rows = await session.fetch(sql.sweep, limits.SWEEP_RULES_MAX)
            return {row["issue_id"]: row["rules"] for row in rows}

        found = (await self._database.write(Lane.BACKGROUND, sweep)).result
        if found:
            self._alarm.stir()  # pending inputs keep the sweep going (W-074)
        # More than one sweep takes, of a long outage for instance: sweep on until what comes has
        # been seen before; that waits for somebody else, and for the next sweep.
        is_full = sum(found.values()) >= limits.SWEEP_RULES_MAX
        if is_full and not self._seen.issuperset(found):
            self._seen.update(found)
            self._alarm.soon(Bell.SWEEP)
        else:
            self._seen.clear()
        self._hints.swept(found)
        self._alarm.swept()
        return Done(rows=sum(found.values()), result={"issues": len(found)})


_BELLS = {Sweep: Bell.SWEEP, Recover: Bell.RECOVERY, CarryOut: Bell.PLAN}
