"""What a specification is, and how all its orders are played.

A specification prepares a place of its own for each order, lets its parts play there, and judges
how that ended. CONTRIBUTING.md tells how to write one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from engine.storage import queries
from engine.storage.database import Identity, Query, Session, with_connection
from engine.storage.units import Dedicated, Writing
from tests.conftest import GUARANTEES
from tests.engine.world import World
from tests.isolation.orders import Orders
from tests.isolation.places import Place
from tests.isolation.stage import SELF, Ended, Play, Player, Unit
from tests.tidy import documents, sources

ORDERS_MAX: Final = 200  # of one specification; more would take longer than they find
SAMPLE_MAX: Final = 50  # where there are thousands: no switch, one switch, and some of two
_gateway: Final = queries.load("gateway")
ENGINE: Final = Writing(begin=_gateway.begin, flush=_gateway.flush, busy=None)
FOREIGN: Final = Writing(begin=None, flush=None, busy=None)

Ends = Mapping[str, Ended]


@attrs.frozen(kw_only=True)
class Part:
    """What one session does, as whom, and before which of its statements it stops (None: all).

    `may` are the refusals that the specification allows it: codes of errors, or SQLSTATEs. It waits
    for each lock for `lock_timeout_ms`, None: until the server sees a deadlock.
    """

    name: str
    unit: Callable[[Session, Place], Awaitable[Any]]
    stops: frozenset[str] | None = None
    writing: Writing = ENGINE
    identity: Callable[[Place], Identity] = lambda _: Identity()
    may: frozenset[str] = frozenset()
    lock_timeout_ms: int | None = None


@attrs.frozen(kw_only=True)
class Specification:
    """Parts that meet at one place, and what may come of it.

    `prepare` makes the place with a connection of its own; `judge` looks at what has come of it,
    raises AssertionError for what may not be, and returns a name for it.
    """

    parts: Sequence[Part]
    prepare: Callable[[Session, World], Awaitable[Place]]
    judge: Callable[[Dedicated, Place, Ends], Awaitable[str]]
    orders_max: int = ORDERS_MAX


@attrs.define
class Explored:
    """What the orders of a specification led to: how often each outcome, and who waited for whom.

    `ends` counts how each part ended, as `(name, code)`. With `is_complete` there is no other
    order. `all_waited` counts how often all waited for each other.
    """

    orders: int = 0
    is_complete: bool = False
    outcomes: Counter[str] = attrs.field(factory=Counter)
    ends: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    waits: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    all_waited: int = 0


async def explore(url: str, world: World, specification: Specification) -> Explored:
    """Play the orders of a specification; raises AssertionError with the order that went wrong."""
    sessions: list[Dedicated] = []
    explored = Explored()
    try:
        async with trio.open_nursery() as nursery:
            for _ in specification.parts:
                await nursery.start(_keep_session, url, sessions)
            playing = partial(
                _explore, explored, world=world, specification=specification, sessions=sessions
            )
            await with_connection(url, playing)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise _only(group) from _only(group).__cause__
    return explored


async def _keep_session(
    url: str, sessions: list[Dedicated], task_status: trio.TaskStatus[None]
) -> None:
    """Keep one connection open until cancelled."""
    opened = trio.Event()

    async def keep(session: Dedicated) -> None:
        sessions.append(session)
        opened.set()
        await asyncio.Event().wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(with_connection, url, keep)
        await opened.wait()
        task_status.started()


async def _explore(
    explored: Explored,
    observer: Dedicated,
    *,
    world: World,
    specification: Specification,
    sessions: list[Dedicated],
) -> None:
    orders = Orders(specification.orders_max)
    backends = [await session.fetchval(SELF) for session in sessions]
    while (prefix := orders.next()) is not None:
        place = await specification.prepare(observer, world)
        players = [
            Player(part.name, session, backend, part.stops)
            for part, session, backend in zip(specification.parts, sessions, backends, strict=True)
        ]
        play = Play(players, observer)
        try:
            async with asyncio.TaskGroup() as group:
                for part, player in zip(specification.parts, players, strict=True):
                    unit = _at(part, place)
                    group.create_task(
                        player.play(unit, part.writing, part.identity(place), part.lock_timeout_ms)
                    )
                await play.run(prefix)
            ends = {each.name: each.ended for each in players if each.ended is not None}
            _refuse_surprises(specification, ends)
            outcome = await specification.judge(observer, place, ends)
            await _keep_guarantees(observer)
            await observer.execute(LEAVE, [place.issue, place.other])
        except Exception as error:  # noqa: BLE001 - whatever it is, the order belongs to it
            only = _only(error)
            story = "\n  ".join([f"{only!r} in this order:", *play.trace])
            raise AssertionError(story) from only
        orders.played(prefix, play.turns)
        explored.outcomes[outcome] += 1
        explored.ends.update((name, ended.code) for name, ended in ends.items())
        explored.waits.update(play.waits)
        explored.all_waited += play.trace.count("all wait")
    explored.orders = orders.count
    explored.is_complete = orders.is_complete


def _at(part: Part, place: Place) -> Unit:
    return lambda session: part.unit(session, place)


def _only(error: BaseException) -> BaseException:
    """Return the first error of a group of groups: the others follow from it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _refuse_surprises(specification: Specification, ends: Ends) -> None:
    for part in specification.parts:
        ended = ends[part.name]
        assert ended.is_done or ended.code in part.may, f"{part.name}: {ended.result!r}"


def _every_guarantee() -> Query:
    """Return one statement with a row for each row that a guarantee forbids."""
    text = "\nUNION ALL\n".join(
        f"SELECT '{guarantee.id}', t::text FROM ({sql.rstrip().rstrip(';')}) t"
        for guarantee in documents.guarantees(sources.read(GUARANTEES))
        for sql in guarantee.sql
    )
    return Query("stage.guarantees", text)


GUARANTEED: Final = _every_guarantee()
LEAVE: Final = Query(
    "stage.leave",  # what a later order would find or count
    "WITH rules AS (DELETE FROM issue_wakeup WHERE issue_id = ANY ($1) RETURNING id),"
    " receipts AS (DELETE FROM issue_wakeup_receipt x USING rules r WHERE x.wakeup_id = r.id)"
    " DELETE FROM agent_task_queue WHERE issue_id = ANY ($1)",
)


async def _keep_guarantees(observer: Session) -> None:
    found = await observer.fetch(GUARANTEED)
    assert not found, f"guarantees do not hold: {[tuple(row) for row in found]}"
