"""What the model of the requirements remembers: who acts, facts, runs and rules."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

CRON_STEP: Final = timedelta(minutes=5)  # the one expression of the model: */5 * * * *
PREPARE: Final = timedelta(seconds=45)  # W-105: the lease of a claim
REDELIVERY: Final = timedelta(seconds=90)  # W-105
CLAIM_LOST: Final = timedelta(seconds=300)  # W-097: a claim that nobody started
SILENCE: Final = timedelta(seconds=150)  # W-097: longer, and the runtime is offline
QUEUE_ENDS: Final = timedelta(hours=2)  # W-109: not for runs of wakeups
MANUAL: Final = "wakeup.manual"
DUE: Final = "time.due"
UNSTARTED: Final = ("queued", "deferred")
PENDING: Final = ("queued", "dispatched")
UNFINISHED: Final = (*PENDING, "deferred", "running", "waiting_local_directory")
RETRIED: Final = ("runtime_offline", "timeout", "runtime_recovery")
CLOSED: Final = ("done", "cancelled")
PRIORITIES: Final = ("none", "low", "medium", "high", "urgent")
CLAIMED: Final = ("dispatched", "waiting_local_directory")
EXECUTING: Final = (*CLAIMED, "running")


@attrs.frozen
class Caller:
    """Who acts: a person, or an agent in a run that stands for one; nobody is the system."""

    person: str | None = None
    agent: str | None = None
    run: int | None = None

    @property
    def actor(self) -> tuple[str, str] | None:
        """What facts are attributed to (W-049)."""
        if self.agent is not None:
            return ("agent", self.agent)
        return None if self.person is None else ("member", self.person)


SYSTEM: Final = Caller()


@attrs.frozen(kw_only=True)
class Fact:
    """One captured change; `agent` is the run's of a run fact, else the actor's if it is one."""

    type: str
    actor: tuple[str, str] | None = None
    agent: str | None = None
    run: int | None = None


@attrs.define(kw_only=True)
class Run:
    """One run; `evidence` counts the facts of each type that it was woken for."""

    agent: str
    person: str
    rank: int
    queued_at: datetime
    status: str = "queued"
    rule: int | None = None
    revision: int = 0
    evidence: Counter[str] = attrs.field(factory=Counter)
    attempt: int = 1
    is_timers: bool = False
    retry_of: int | None = None
    rerun_of: int | None = None
    claimed_at: datetime | None = None
    leased_at: datetime | None = None
    started_at: datetime | None = None


@attrs.frozen(kw_only=True)
class Draft:
    """The configuration of a rule, as a caller sends it."""

    agent: str
    kind: str = "event"
    mode: str = "once"
    types: tuple[str, ...] = ()
    filter_actor: tuple[str, str] | None = None
    filter_agent: str | None = None
    filter_run: int | None = None
    after: int = 0  # seconds: of an `at` rule until it fires, of an `every` rule its interval


@attrs.define(kw_only=True)
class Rule:
    """One rule; `has_error` is None while either is right."""

    draft: Draft
    creator: str
    source_run: int | None
    due: datetime | None
    text: int = 0
    enabled: bool = True
    off: bool = False
    revision: int = 1
    is_spent: bool = False  # the row has a `last_task_id`
    has_error: bool | None = False
    planned: datetime | None = None
    free: Counter[str] = attrs.field(factory=Counter)
    consumed: Counter[str] = attrs.field(factory=Counter)
    discarded: Counter[str] = attrs.field(factory=Counter)

    def discard(self, *kept: str) -> None:
        """Everything that is free is given up, save the types that are `kept`."""
        for kind in [each for each in self.free if each not in kept]:
            self.discarded[kind] += self.free.pop(kind)


@attrs.define(kw_only=True)
class Agent:
    """An agent of the owner O: open to the workspace unless it is private."""

    daemon: str
    is_private: bool = False
    invokers: frozenset[str] = frozenset()
    is_archived: bool = False


def cron_before(at: datetime) -> datetime:
    """Return the last occurrence of the one expression, at or before an instant."""
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return start + (at - start) // CRON_STEP * CRON_STEP
