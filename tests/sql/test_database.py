"""The gateway against the real server: transactions, errors, budgets, lanes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import trio

from engine import limits
from engine.errors import WakefulError
from engine.storage.database import (
    ConstraintViolation,
    Database,
    DatabaseError,
    Dedicated,
    Identity,
    Lane,
    LaneLimits,
    Query,
    Session,
    open_loop,
    with_connection,
)

SCHEMA = """
CREATE TABLE thing (id int CONSTRAINT thing_pk PRIMARY KEY, secret text);
CREATE TABLE later (
  id int CONSTRAINT later_fk REFERENCES thing DEFERRABLE INITIALLY DEFERRED
);
"""
INSERT = Query("test.insert", "INSERT INTO thing VALUES ($1, $2)")
INSERT_LATER = Query("test.insert_later", "INSERT INTO later VALUES ($1)")
IDS = Query("test.ids", "SELECT id FROM thing ORDER BY id")
PID = Query("test.pid", "SELECT pg_backend_pid()")
LOCK = Query("test.lock", "SELECT pg_advisory_xact_lock($1)")
BEGIN = Query(
    "test.begin",
    "SELECT set_config('t.type', coalesce($1, ''), true),"
    " set_config('t.actor', coalesce($2::uuid::text, ''), true),"
    " set_config('t.run', coalesce($3::uuid::text, ''), true),"
    " set_config('lock_timeout', coalesce($4, current_setting('lock_timeout')), true)",
)
FLUSH = Query(
    "test.flush",
    "SELECT ('00000000-0000-0000-0000-' || lpad(id::text, 12, '0'))::uuid FROM thing ORDER BY id",
)
ACTOR = Query(
    "test.actor",
    "SELECT array[current_setting('t.type', true),"
    " current_setting('t.actor', true), current_setting('t.run', true)]",
)


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Database]:
    """A gateway over a database with two small tables."""

    async def prepare(session: Dedicated) -> None:
        await session.script(SCHEMA)

    async with open_loop():
        await with_connection(url, prepare)
        async with Database.open(url, **options) as database:
            yield database


async def ids(session: Session) -> list[int]:
    return [row["id"] for row in await session.fetch(IDS)]


async def pid(session: Session) -> int:
    return int(await session.fetchval(PID))


async def test_a_write_commits_and_returns_its_result(empty_url: str) -> None:
    """A unit that returns is in the database, with the number of rows each statement touched."""

    async def unit(session: Session) -> int:
        return await session.execute(INSERT, 1, "a") + await session.execute(INSERT, 2, "b")

    async with opened(empty_url) as database:
        committed = await database.write(Lane.API, unit)
        assert (committed.result, committed.opened) == (2, ())
        assert await database.read(Lane.CLAIM, ids) == [1, 2]


async def test_values_come_as_python_objects(empty_url: str) -> None:
    """Json columns are Python objects in both directions, instants are aware and UTC."""
    payload = {"a": [1, None, {"ü": "\n"}], "b": 1.5}
    query = Query("test.values", "SELECT $1::jsonb AS b, $2::json AS j, $3::timestamptz AS at")
    at = datetime(2030, 3, 31, 2, 30, tzinfo=UTC) + timedelta(microseconds=7)

    async def unit(session: Session) -> None:
        row = await session.fetchrow(query, payload, payload, at)
        assert row is not None
        assert (row["b"], row["j"], row["at"]) == (payload, payload, at)
        assert row["at"].utcoffset() == timedelta(0)
        assert await session.fetchrow(IDS) is None

    async with opened(empty_url) as database:
        await database.read(Lane.API, unit)


async def test_the_begin_query_gets_the_identity(empty_url: str) -> None:
    """Actor and source run are set for the transaction, and gone with it."""
    who = Identity(actor_type="agent", actor_id=UUID(int=1), source_task_id=UUID(int=2))

    async def actor(session: Session) -> Any:
        return await session.fetchval(ACTOR)

    lanes = {Lane.API: LaneLimits(connections=1, statement_ms=5_000)}
    async with opened(empty_url, begin=BEGIN, lanes=lanes) as database:
        named = await database.write(Lane.API, actor, who)
        assert named.result == ["agent", str(UUID(int=1)), str(UUID(int=2))]
        assert (await database.write(Lane.API, actor)).result == ["", "", ""]
        assert await database.read(Lane.API, actor) == ["", "", ""]


async def test_the_flush_query_says_what_was_opened(empty_url: str) -> None:
    """What the flush query returns before COMMIT travels with the result."""

    async def unit(session: Session) -> None:
        await session.execute(INSERT, 7, "x")

    async with opened(empty_url, flush=FLUSH) as database:
        assert (await database.write(Lane.API, unit)).opened == (UUID(int=7),)


async def test_a_unit_that_raises_is_rolled_back(empty_url: str) -> None:
    """An error of the unit passes unchanged, leaves no row, and keeps the connection."""

    async def unit(session: Session) -> None:
        await session.execute(INSERT, 1, "x")
        raise LookupError("mine")

    lanes = {Lane.API: LaneLimits(connections=1, statement_ms=5_000)}
    async with opened(empty_url, lanes=lanes) as database:
        before = await database.read(Lane.API, pid)
        with pytest.raises(LookupError, match="mine"):
            await database.write(Lane.API, unit)
        assert await database.read(Lane.API, ids) == []
        assert await database.read(Lane.API, pid) == before
        assert database.statistics().lanes[Lane.API].replaced == 0


async def test_a_violated_constraint_is_named_without_values(empty_url: str) -> None:
    """An error says which query and constraint; neither SQL nor values of the row are in it."""

    async def unit(session: Session) -> None:
        await session.execute(INSERT, 1, "first")
        await session.execute(INSERT, 1, "hunter2")

    async with opened(empty_url) as database:
        with pytest.raises(ConstraintViolation) as caught:
            await database.write(Lane.API, unit)
    assert (caught.value.constraint, caught.value.query) == ("thing_pk", "test.insert")
    assert str(caught.value) == "test.insert: SQLSTATE 23505"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_swallowed_error_is_no_commit(empty_url: str) -> None:
    """COMMIT of a failed transaction is a rollback without an error; here it is an error."""

    async def unit(session: Session) -> None:
        await session.execute(INSERT, 1, "x")
        with pytest.raises(ConstraintViolation):
            await session.execute(INSERT, 1, "x")

    async with opened(empty_url) as database:
        with pytest.raises(DatabaseError) as caught:
            await database.write(Lane.API, unit)
        assert caught.value.sqlstate == "25P02"
        assert await database.read(Lane.API, ids) == []


async def test_an_error_of_commit_means_failed(empty_url: str) -> None:
    """When the server refuses COMMIT, nothing is committed and the caller knows it."""

    async def unit(session: Session) -> None:
        await session.execute(INSERT, 1, "x")
        await session.execute(INSERT_LATER, 99)

    async with opened(empty_url) as database:
        with pytest.raises(ConstraintViolation) as caught:
            await database.write(Lane.API, unit)
        assert caught.value.constraint == "later_fk"
        assert await database.read(Lane.API, ids) == []
        assert database.statistics().lanes[Lane.API].unknown == 0


async def test_a_defect_of_ours_names_its_query(empty_url: str) -> None:
    """A wrong statement or argument is an internal error; its cause shows, it holds no rows."""

    async def wrong(session: Session) -> None:
        await session.fetch(Query("test.wrong", "SELECT * FROM nowhere"))

    async def misused(session: Session) -> None:
        await session.execute(INSERT, "hunter2", "x")

    async with opened(empty_url) as database:
        with pytest.raises(DatabaseError, match=r"test\.wrong: SQLSTATE 42P01") as caught:
            await database.read(Lane.API, wrong)
        assert "nowhere" in str(caught.value.__cause__)
        with pytest.raises(DatabaseError, match=r"test\.insert: SQLSTATE 22000") as caught:
            await database.write(Lane.API, misused)
        assert caught.value.__cause__ is None
        assert await database.read(Lane.API, ids) == []


async def test_a_lock_budget_ends_the_wait_for_a_lock(empty_url: str) -> None:
    """W-077: a write with a lock timeout gives up on a held lock; the next one waits again."""
    setting = Query("test.setting", "SELECT current_setting('lock_timeout')")

    async def lock(session: Session) -> None:
        await session.fetchval(LOCK, 1)

    async def holding(session: Session) -> None:
        await session.fetchval(LOCK, 1)
        held.set()
        while not release.is_set():
            await session.fetchval(PID)

    async def default(session: Session) -> Any:
        return await session.fetchval(setting)

    held, release = trio.Event(), trio.Event()
    async with opened(empty_url) as database, trio.open_nursery() as nursery:
        nursery.start_soon(database.write, Lane.CLAIM, holding)
        await held.wait()
        with pytest.raises(WakefulError) as caught:
            await database.write(Lane.DISPATCH, lock, lock_timeout_ms=50)
        assert caught.value.code == "contention"
        assert await database.read(Lane.DISPATCH, default) == "0"
        release.set()


async def test_a_statement_budget_ends_a_slow_statement(empty_url: str) -> None:
    """W-077: the budget of its lane ends a statement on the server, and the lane goes on."""

    async def slow(session: Session) -> None:
        await session.fetchval(Query("test.slow", "SELECT pg_sleep(30)"))

    lanes = {Lane.DISPATCH: LaneLimits(connections=1, statement_ms=50)}
    async with opened(empty_url, lanes=lanes) as database:
        before = await database.read(Lane.DISPATCH, pid)
        with pytest.raises(WakefulError) as caught:
            await database.write(Lane.DISPATCH, slow)
        assert caught.value.code == "budget_exceeded"
        assert await database.read(Lane.DISPATCH, pid) == before


async def test_a_deadlock_is_contention(empty_url: str) -> None:
    """Of two writes that lock crosswise one is told to try again and the other commits."""
    quick = Query("test.quick", "SELECT set_config('deadlock_timeout', '10ms', true)")
    entered = [trio.Event(), trio.Event()]
    outcomes: list[str] = []

    def crossing(first: int, second: int) -> Any:
        async def unit(session: Session) -> None:
            await session.fetchval(quick)
            await session.fetchval(LOCK, first)
            entered[first].set()
            while not entered[second].is_set():  # the other unit is another task of this loop
                await session.fetchval(PID)
            await session.fetchval(LOCK, second)

        return unit

    async def run(first: int, second: int) -> None:
        try:
            await database.write(Lane.API, crossing(first, second))
        except WakefulError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("done")

    async with opened(empty_url) as database:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, 0, 1)
            nursery.start_soon(run, 1, 0)
        assert sorted(outcomes) == ["contention", "done"]


async def test_a_snapshot_stands_still_and_writes_nothing(empty_url: str) -> None:
    """A snapshot read sees one instant and cannot write; an ordinary one sees each commit."""
    entered, changed = trio.Event(), trio.Event()

    async def insert(session: Session) -> None:
        await session.execute(INSERT, 1, "x")

    async def looking(session: Session) -> tuple[list[int], list[int]]:
        first = await ids(session)
        entered.set()
        while not changed.is_set():
            await session.fetchval(PID)
        return first, await ids(session)

    async def change() -> None:
        await entered.wait()
        await database.write(Lane.CLAIM, insert)
        changed.set()

    async with opened(empty_url) as database, trio.open_nursery() as nursery:
        nursery.start_soon(change)
        assert await database.read(Lane.API, looking, snapshot=True) == ([], [])
        assert await database.read(Lane.API, ids) == [1]
        with pytest.raises(DatabaseError) as caught:
            await database.read(Lane.API, insert, snapshot=True)
        assert caught.value.sqlstate == "25006"


async def test_a_plan_that_a_migration_outdated_is_contention(empty_url: str) -> None:
    """A statement whose result type changed asks for one retry, which succeeds."""
    every = Query("test.every", "SELECT * FROM thing")

    async def look(session: Session) -> int:
        return len(await session.fetch(every))

    async def change(session: Session) -> None:
        await session.execute(Query("test.change", "ALTER TABLE thing ADD COLUMN more int"))

    lanes = {lane: LaneLimits(connections=1, statement_ms=5_000) for lane in Lane}
    async with opened(empty_url, lanes=lanes) as database:
        await database.write(Lane.API, look)
        await database.write(Lane.CLAIM, change)
        with pytest.raises(WakefulError) as caught:
            await database.write(Lane.API, look)
        assert caught.value.code == "contention"
        assert (await database.write(Lane.API, look)).result == 0


async def test_lanes_carry_their_budgets(empty_url: str) -> None:
    """Every lane has its own connections, and its budgets stand on the server."""
    names = ("statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
    query = Query("test.settings", "SELECT setting FROM pg_settings WHERE name = $1")

    async def settings(session: Session) -> list[str]:
        return [await session.fetchval(query, name) for name in names]

    async with opened(empty_url) as database:
        for lane, budget in (
            (Lane.DISPATCH, "2000"),
            (Lane.CLAIM, "5000"),
            (Lane.API, "10000"),
            (Lane.BACKGROUND, "30000"),
        ):
            whole = str(limits.TRANSACTION_MS_MAX)
            assert await database.read(lane, settings) == [budget, budget, whole]
        sizes = [lane.size for lane in database.statistics().lanes.values()]
        assert sizes == [2, 2, 3, 1]


async def test_a_slow_unit_holds_up_no_other_lane(empty_url: str) -> None:
    """With every API connection in a slow unit, dispatch works on and API units queue."""
    entered, release = [trio.Event() for _ in range(3)], trio.Event()

    async def slow(session: Session, number: int) -> None:
        await session.execute(INSERT, number, "slow")
        entered[number].set()
        while not release.is_set():
            await session.fetchval(PID)

    async def quick(session: Session) -> None:
        await session.execute(INSERT, 100, "quick")

    async def run(number: int) -> None:
        async def unit(session: Session) -> None:
            await slow(session, number)

        await database.write(Lane.API, unit)

    async with opened(empty_url) as database:
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(run, number)
            for event in entered:
                await event.wait()
            await database.write(Lane.DISPATCH, quick)
            api = database.statistics().lanes[Lane.API]
            assert (api.busy, api.waiting) == (3, 0)
            with trio.CancelScope() as scope:
                scope.deadline = trio.current_time() + 0.05
                await database.read(Lane.API, ids)
            assert scope.cancelled_caught
            assert await database.read(Lane.CLAIM, ids) == [100]
            release.set()
        assert await database.read(Lane.API, ids) == [0, 1, 2, 100]


async def test_a_session_ends_with_its_unit(empty_url: str) -> None:
    """A unit that kept its session cannot reach into the next unit's transaction."""
    kept: list[Session] = []

    async def keep(session: Session) -> None:
        kept.append(session)

    async def reuse(_: Session) -> None:
        await kept[0].fetchval(PID)

    async with opened(empty_url) as database:
        await database.write(Lane.API, keep)
        with pytest.raises(AssertionError, match="ends with its unit"):
            await database.write(Lane.API, reuse)
