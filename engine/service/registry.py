"""Which function serves which command or query, and what a function may tell about its effects.

A use case is an asyncio function `async def name(work: Work, command: SomeCommand) -> Result`.
It awaits nothing but `work.session`, and may run twice when a connection broke before the server
answered. What must follow after the commit it says through `Work`; nothing in here follows before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import attrs

from engine.domain.commands import Command, Query
from engine.domain.principal import Principal
from engine.storage.database import Lane, Session

C = TypeVar("C", bound=Command | Query)
Handler = Callable[["Work", Any], Awaitable[Any]]


@attrs.define(kw_only=True)
class Work:
    """One call of a use case: its transaction, its caller, and what its commit will bring about."""

    session: Session
    caller: Principal
    due: list[datetime] = attrs.field(factory=list)
    runtimes: set[UUID] = attrs.field(factory=set)
    issues: set[UUID] = attrs.field(factory=set)
    promotions: list[datetime] = attrs.field(factory=list)
    refusals: list[str] = attrs.field(factory=list)

    def arm(self, at: datetime | None) -> None:
        """A timer now stands at `at`: the scheduler may have to wake earlier."""
        if at is not None:
            self.due.append(at)

    def queued(self, runtime_id: UUID | None) -> None:
        """A run of this runtime can be claimed: waiting claims of it wake."""
        if runtime_id is not None:
            self.runtimes.add(runtime_id)

    def put_off(self, until: datetime | None) -> None:
        """A run is deferred until then: recovery may have to wake earlier, to queue it."""
        if until is not None:
            self.promotions.append(until)

    def refused(self, check: str) -> None:
        """A run was not handed out, and ended, because of this check (W-106)."""
        self.refusals.append(check)

    def look_at(self, issue_id: UUID) -> None:
        """This issue has something to dispatch that capture does not announce."""
        self.issues.add(issue_id)


@attrs.frozen(kw_only=True)
class Service:
    """A use case with the lane that its transaction uses."""

    handler: Handler
    lane: Lane
    lock_timeout_ms: int
    is_single: bool


_services: dict[type, Service] = {}


def serves(
    command: type[C],
    *,
    lane: Lane = Lane.API,
    lock_timeout_ms: int = 2_000,
    is_single: bool = False,
) -> Callable[[Callable[[Work, C], Awaitable[Any]]], Callable[[Work, C], Awaitable[Any]]]:
    """Register the decorated function as the use case of `command`.

    A question that is `is_single` is answered by one statement at most. That is a snapshot by
    itself, so it goes without the transaction that all other questions get; a second statement is
    an `AssertionError`.
    """

    def register(
        handler: Callable[[Work, C], Awaitable[Any]],
    ) -> Callable[[Work, C], Awaitable[Any]]:
        assert command not in _services, command
        assert not is_single or issubclass(command, Query), command
        _services[command] = Service(
            handler=handler, lane=lane, lock_timeout_ms=lock_timeout_ms, is_single=is_single
        )
        return handler

    return register


def service_for(command: Command | Query) -> Service:
    """Return the use case of a command or query."""
    return _services[type(command)]
