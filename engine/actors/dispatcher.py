"""The group writer: issue actors hand their dispatch to it, it commits many at once.

At most as many groups run as the lane has connections, each in a task that lives while there is
work. What waits meanwhile makes up the next group, so a single issue waits for nothing, and facts
come before timers and sweeps, of which there may be a thousand at once: these get the places that
are left, and a few where facts never end. A group never waits for a
lock: an issue that it could not have is worked alone at once, waiting in lock
order for a short time (W-077), else a busy issue would starve; what still cannot be had is hinted
again within a second, so that nobody waits behind the pause. An error of a group has no name: the
group is halved until the rule is found; it gets `last_error` and stays out of groups for
1, 2, 4 .. 60 s, so that it cannot turn every group into groups of one. A new hint still tries it,
alone.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID

import attrs
import structlog
import trio

from engine import limits
from engine.actors.runtime import Runtime
from engine.clock import DatabaseClock
from engine.errors import WakefulError
from engine.service.dispatch import (
    Dispatched,
    dispatch_alone,
    dispatch_group,
    plan,
    record_contention,
    record_error,
)
from engine.storage.database import CommitUnknown, Database, Lane, Session
from engine.work import WorkKind

_log = structlog.get_logger(__name__)
_PASSING: Final = ("contention", "budget_exceeded", "commit_unknown")
_AWAY: Final = ("database_unavailable", "overloaded")

_Load = Callable[[Session, Dispatched], Awaitable[None]]
After = Callable[[Sequence[UUID], Dispatched], None]


@attrs.define(eq=False)
class _Wanted:
    """One issue that its actor waits for; `is_missed` when somebody else held it."""

    issue_id: UUID
    done: trio.Event = attrs.field(factory=trio.Event)
    is_missed: bool = False


@attrs.frozen
class _Bar:
    """How long a failing rule stays out of groups, and until when by the engine's clock."""

    issue_id: UUID
    seconds: float
    until: float


@attrs.define(kw_only=True)
class DispatchStatistics:
    """What the writer has done since it was made."""

    transactions: int = 0
    started: int = 0
    alone: int = 0
    contention: int = 0
    failed_rules: int = 0
    left_to_sweep: int = 0


class _Failed(Exception):  # noqa: N818 - carries an error to the halving below, never leaves
    """A transaction of dispatch failed after it had loaded these rules."""

    def __init__(self, error: WakefulError, rules: list[UUID]) -> None:
        super().__init__(error.code)
        self.error = error
        self.rules = rules


class Dispatcher:
    """Dispatches issues in groups; see the module."""

    def __init__(
        self,
        database: Database,
        runtime: Runtime,
        after: After,
        look_at: Callable[[Iterable[UUID]], None],
        taken: Callable[[UUID], None],
        sweep_soon: Callable[[], None],
        clock: DatabaseClock,
    ) -> None:
        """`after` gets what each commit brought about: the opened issues, and the rest.

        `look_at` is asked to hint an issue again that stayed locked, and `sweep_soon` for a sweep
        when it still does after all retries. `taken` is told of an issue when it is taken up:
        facts from then on need a new hint. `clock` tells how long a rule is barred.
        """
        self._database = database
        self._runtime = runtime
        self._after = after
        self._look_at = look_at
        self._taken = taken
        self._sweep_soon = sweep_soon
        self._clock = clock
        self._working = 0
        self._facts: deque[_Wanted] = deque()
        self._bulk: dict[UUID, _Wanted] = {}
        self._hurried: set[UUID] = set()
        self._has_room = trio.Event()
        self._bars: dict[UUID, _Bar] = {}
        self._retries: Counter[UUID] = Counter()
        self._jitter = random.Random()  # noqa: S311 - spreads retries, hides nothing
        self.statistics = DispatchStatistics()

    async def prepare(self) -> None:
        """Have every connection plan what it will be asked: else the first inputs are late."""
        planned = [trio.Event() for _ in range(limits.DISPATCH_CONNECTIONS)]
        for event in planned:
            self._runtime.spawn(
                partial(self._plan, event), kind=WorkKind.DISPATCH, name="dispatch plans"
            )
        for event in planned:
            await event.wait()

    async def _plan(self, planned: trio.Event) -> None:
        try:
            with suppress(WakefulError):  # then the first dispatch plans it
                await self._database.read(Lane.DISPATCH, plan)
        finally:
            planned.set()

    def hurry(self, issue_id: UUID) -> None:
        """A single fact has come for an issue that waits in bulk, or will: it waits no longer."""
        wanted = self._bulk.pop(issue_id, None)
        if wanted is not None:
            self._facts.append(wanted)
        else:
            self._hurried.add(issue_id)  # its actor has been told, and may not be here yet

    async def dispatch(self, issue_id: UUID, *, is_bulk: bool = False) -> None:
        """Dispatch what an issue has to dispatch, and return when it was tried.

        In bulk it waits until no single fact does. An error is the rule's, not the caller's: it is
        stored, logged and counted. Inputs that could not be dispatched stay free; a retry or the
        sweep finds them.
        """
        wanted = _Wanted(issue_id)
        if is_bulk and issue_id not in self._hurried:
            wanted = self._bulk.setdefault(issue_id, wanted)
        else:
            self._facts.append(wanted)
        if not self._start_worker():
            return
        await wanted.done.wait()
        if wanted.is_missed or self._is_barred(issue_id):
            await self._alone(issue_id)
        else:
            self._retries.pop(issue_id, None)

    async def room(self) -> None:
        """Wait until what waits in bulk is less than a group, or nobody works on it."""
        while self._working and len(self._bulk) >= limits.BULK_ISSUES_MAX:
            self._has_room = trio.Event()
            await self._has_room.wait()

    def _start_worker(self) -> bool:
        """Let one more task work on what waits, up to the lane's size; false when it is over."""
        if self._working >= limits.DISPATCH_CONNECTIONS:
            return True
        try:
            self._runtime.spawn(self._work, kind=WorkKind.DISPATCH, name="dispatch")
        except WakefulError:  # the engine is stopping; the next one finds the rows
            return self._working > 0
        self._working += 1
        return True

    async def _work(self) -> None:
        """Work group after group until nothing waits."""
        try:
            while group := self._next_group():
                missed: set[UUID] = set()
                try:
                    missed = await self._group(list({each.issue_id: None for each in group}))
                finally:
                    for each in group:
                        each.is_missed = each.issue_id in missed
                        each.done.set()
        finally:
            self._working -= 1
            self._has_room.set()
            if (
                self._facts or self._bulk
            ):  # an error ended this one: who waits is worked all the same
                self._start_worker()

    def _next_group(self) -> list[_Wanted]:
        """Take what waits: facts first, and bulk where places are left.

        From now on it needs new hints.
        """
        kept = min(len(self._bulk), limits.BULK_PLACES_MIN)
        facts = min(len(self._facts), limits.GROUP_RULES_MAX - kept)
        group = [self._facts.popleft() for _ in range(facts)]
        most = limits.GROUP_RULES_MAX if group else limits.BULK_ISSUES_MAX
        group += [self._bulk.pop(each) for each in list(islice(self._bulk, most - facts))]
        if len(self._bulk) < limits.BULK_ISSUES_MAX:
            self._has_room.set()
        for each in group:
            self._hurried.discard(each.issue_id)
            self._taken(each.issue_id)
        return group

    async def _group(self, issue_ids: list[UUID]) -> set[UUID]:
        """Dispatch a group and return the issues that it could not have."""
        try:
            return await self._commit(
                partial(dispatch_group, issue_ids=issue_ids), barred=self._barred()
            )
        except _Failed as failed:
            if failed.error.code in _AWAY:
                self.statistics.left_to_sweep += len(issue_ids)
                return set()
            if failed.error.code in _PASSING:
                return set(issue_ids)
            if len(issue_ids) == 1:
                return await self._find_rule(issue_ids[0], failed)
        half = len(issue_ids) // 2
        return await self._group(issue_ids[:half]) | await self._group(issue_ids[half:])

    async def _find_rule(self, issue_id: UUID, failed: _Failed) -> set[UUID]:
        """Dispatch each rule of a failing issue by itself, and bar the one that fails."""
        if not failed.rules:
            self.statistics.left_to_sweep += 1
            _log.warning("dispatch.load_failed", issue_id=str(issue_id), code=failed.error.code)
        if len(failed.rules) <= 1:
            for rule_id in failed.rules:
                self._fail(issue_id, rule_id, str(failed.error))
            return set()
        missed: set[UUID] = set()
        for rule_id in failed.rules:
            others = [each for each in failed.rules if each != rule_id]
            try:
                missed |= await self._commit(
                    partial(dispatch_group, issue_ids=[issue_id]), barred=others
                )
            except _Failed as again:
                if again.error.code in _PASSING:
                    missed.add(issue_id)
                else:
                    self._fail(issue_id, rule_id, str(again.error))
        return missed

    async def _alone(self, issue_id: UUID) -> None:
        """Work one issue, barred rules included, waiting a short time for each lock (W-077)."""
        self.statistics.alone += 1
        try:
            missed = await self._commit(
                partial(dispatch_alone, issue_id=issue_id),
                barred=(),
                lock_timeout_ms=limits.DISPATCH_LOCK_MS_MAX,
            )
        except _Failed as failed:
            if failed.error.code not in _PASSING:
                if failed.error.code not in _AWAY:
                    await self._find_rule(issue_id, failed)
                return
            missed = {issue_id}
        if missed:
            self._retry(issue_id)
        else:
            self._retries.pop(issue_id, None)

    def _retry(self, issue_id: UUID) -> None:
        """Have a locked issue hinted again, up to three times within a second (W-071).

        What stays locked is left to the sweep, and its rules say so.
        """
        self.statistics.contention += 1
        self._retries[issue_id] += 1
        if self._retries[issue_id] > limits.CONTENTION_RETRIES_MAX:
            del self._retries[issue_id]
            self.statistics.left_to_sweep += 1
            _log.info("dispatch.contention", issue_id=str(issue_id))
            self._sweep_soon()
            self._store(partial(record_contention, issue_id=issue_id))
            return
        pause = limits.CONTENTION_PAUSES_SECONDS[self._retries[issue_id] - 1]
        with suppress(WakefulError):  # the engine is stopping; the next one finds the rows
            self._runtime.spawn(
                self._hint_later, issue_id, pause, kind=WorkKind.DISPATCH, name="dispatch retry"
            )

    async def _hint_later(self, issue_id: UUID, pause: float) -> None:
        await trio.sleep(self._jitter.uniform(0.5, 1.0) * pause)
        self._look_at([issue_id])

    async def _commit(
        self, load: _Load, *, barred: Sequence[UUID], lock_timeout_ms: int | None = None
    ) -> set[UUID]:
        """Run one transaction of dispatch, follow it up, and return the issues it missed."""
        done = Dispatched()

        async def unit(session: Session) -> Dispatched:
            nonlocal done
            done = Dispatched()
            await load(session, done, barred=barred)  # type: ignore[call-arg] # a partial, its last argument is still open
            return done

        self.statistics.transactions += 1
        try:
            committed = await self._database.write(
                Lane.DISPATCH, unit, lock_timeout_ms=lock_timeout_ms
            )
        except CommitUnknown as error:
            self._after(error.opened, done)  # it may have happened: hints are harmless
            raise _Failed(error, list(done.rules)) from error
        except WakefulError as error:
            raise _Failed(error, list(done.rules)) from error
        self.statistics.started += done.started
        for rule_id in done.rules:
            if rule_id not in done.failures:
                self._bars.pop(rule_id, None)
        for rule_id, text in done.failures.items():
            self._fail(done.rules[rule_id], rule_id, text)
        self._after(committed.opened, done)
        return done.missed

    def _barred(self) -> list[UUID]:
        now = self._clock.current_time()
        return [rule_id for rule_id, bar in self._bars.items() if bar.until > now]

    def _is_barred(self, issue_id: UUID) -> bool:
        now = self._clock.current_time()
        return any(bar.issue_id == issue_id and bar.until > now for bar in self._bars.values())

    def _fail(self, issue_id: UUID, rule_id: UUID, text: str) -> None:
        """Bar a rule for twice as long as before and store why (W-076)."""
        now = self._clock.current_time()
        stale = now - limits.BARRED_SECONDS_MAX
        self._bars = {each: bar for each, bar in self._bars.items() if bar.until > stale}
        before = self._bars.get(rule_id)
        seconds = 1.0 if before is None else min(2 * before.seconds, limits.BARRED_SECONDS_MAX)
        self._bars[rule_id] = _Bar(issue_id, seconds, now + seconds)
        self.statistics.failed_rules += 1
        _log.warning(
            "dispatch.rule_failed",
            issue_id=str(issue_id),
            rule_id=str(rule_id),
            barred_seconds=seconds,
        )
        self._store(partial(record_error, rule_id=rule_id, text=text))

    def _store(self, record: Callable[[Session], Awaitable[None]]) -> None:
        """Have it written down why inputs wait, and wait for nobody meanwhile.

        Where that fails, too, the log has it.
        """

        async def store() -> None:
            try:
                await self._database.write(Lane.BACKGROUND, record)
            except WakefulError as error:
                _log.warning("dispatch.error_not_stored", code=error.code)

        with suppress(WakefulError):  # the engine is stopping; the next one fails anew
            self._runtime.spawn(store, kind=WorkKind.DISPATCH, name="dispatch error")
