"""Parts: real use cases, dispatches and recovery, and writers that know nothing of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

import engine.service.all  # noqa: F401 - importing it registers every use case
from engine.domain.commands import Command
from engine.domain.commands.runs import ClaimRuns
from engine.domain.principal import Principal
from engine.service.dispatch import Dispatched, dispatch_alone, dispatch_group
from engine.service.once import carry_out
from engine.service.recovery import recover
from engine.service.registry import Work, service_for
from engine.storage.database import Identity, Query, Session
from tests.engine.world import DAEMON
from tests.isolation.places import Place
from tests.isolation.specification import FOREIGN, Part

FLUSH: Final = "gateway.flush"
COMMIT: Final = "COMMIT"
AT_THE_END: Final = (FLUSH, COMMIT)
SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
A_COMMENT: Final = (
    "INSERT INTO comment (issue_id, workspace_id, content)"
    " SELECT i.id, i.workspace_id, 'words' FROM issue i WHERE i.id = '{issue}'"
)
A_CLOSING: Final = "UPDATE issue SET status = 'done' WHERE id = '{issue}'"

Caller = Callable[[Place], Principal]


def as_m(place: Place) -> Principal:
    """Member M calls."""
    return place.world.m


def as_daemon(place: Place) -> Principal:
    """The daemon calls."""
    return place.world.daemon


def as_run(place: Place) -> Principal:
    """The run calls."""
    return place.as_run


def use_case(
    name: str,
    make: Callable[[Place], Command],
    *,
    by: Caller = as_m,
    stops: Iterable[str] | None = None,
    may: Iterable[str] = (),
    lock_timeout_ms: int | None = None,
) -> Part:
    """Return the part that carries out a command as the engine does, stopping before these queries.

    Before the flush and the commit it stops in any case.
    """

    async def unit(session: Session, place: Place) -> Any:
        command = make(place)
        work = Work(session=session, caller=by(place))
        return await carry_out(work, command, service_for(command).handler)

    def identity(place: Place) -> Identity:
        caller = by(place)
        return Identity(
            actor_type=caller.actor_type, actor_id=caller.actor_id, source_task_id=caller.run_id
        )

    return Part(
        name=name,
        unit=unit,
        stops=_with_end(stops),
        identity=identity,
        may=frozenset(may),
        lock_timeout_ms=lock_timeout_ms,
    )


def claim(name: str = "claim", *, stops: Iterable[str] | None = None) -> Part:
    """Return the part of the daemon that claims one run of the place's runtime."""

    def make(place: Place) -> Command:
        return ClaimRuns(daemon_id=DAEMON, runtime_ids=(place.runtime,))

    return use_case(name, make, by=as_daemon, stops=stops)


def dispatch(name: str = "dispatch") -> Part:
    """Return the part that dispatches the issue alone, waiting for its locks."""

    async def unit(session: Session, place: Place) -> Dispatched:
        done = Dispatched()
        await dispatch_alone(session, done, place.issue, ())
        return done

    return Part(name=name, unit=unit)


def dispatch_free(name: str = "dispatch") -> Part:
    """Return the part that dispatches the issue in a group, which waits for nothing."""

    async def unit(session: Session, place: Place) -> Dispatched:
        done = Dispatched()
        await dispatch_group(session, done, [place.issue], ())
        return done

    return Part(name=name, unit=unit)


def recovery(name: str = "recovery", *, stops: Iterable[str] | None = None) -> Part:
    """Return the part that does to runs what time does."""

    async def unit(session: Session, place: Place) -> object:
        return await recover(session)

    return Part(name=name, unit=unit, stops=_with_end(stops))


def writer(name: str, *statements: str, may: Iterable[str] = ()) -> Part:
    """Return a writer like psql: these statements, each a step, in a transaction.

    They may name what is at the place: `{issue}`, `{rule}`, `{run}`, `{comment}`, `{other}`, and
    `{m}`, `{agent}`, `{workspace}`.
    """

    async def unit(session: Session, place: Place) -> int:
        names: dict[str, UUID | None] = {
            each: getattr(place, each)
            for each in ("issue", "agent", "runtime", "rule", "run", "comment", "other")
        }
        names |= {"m": place.world.m.user_id, "workspace": place.world.workspace_id}
        touched = 0
        for number, statement in enumerate(statements, start=1):
            query = Query(f"{name}.{number}", statement.format(**names))
            touched += await session.execute(query)
        return touched

    return Part(name=name, unit=unit, writing=FOREIGN, may=frozenset(may))


def _with_end(stops: Iterable[str] | None) -> frozenset[str] | None:
    return None if stops is None else frozenset((*stops, *AT_THE_END))
