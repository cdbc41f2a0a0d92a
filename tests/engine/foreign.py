"""A writer that knows nothing of the engine, and the waiting for what only the database shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import trio

from engine.storage.database import (
    Database,
    Lane,
    LaneLimits,
    Notification,
    Query,
    Reconnected,
    Record,
    Session,
    open_loop,
)

if TYPE_CHECKING:
    from tests.engine.world import World

T = TypeVar("T")

COMMENT: Final = "comment.created"
WAIT_SECONDS: Final = 10.0  # a machine shared with others: a bound, not a target
_LANE: Final = Lane.BACKGROUND


async def until(
    probe: Callable[[], Awaitable[T | None]], what: str, *, within: float = WAIT_SECONDS
) -> T:
    """Return the first true answer of `probe`; nothing else announces what foreign eyes see."""
    deadline = trio.current_time() + within
    while True:
        answer = await probe()
        if answer:
            return answer
        assert trio.current_time() < deadline, f"waited {within} s in vain: {what}"
        await trio.sleep(0.005)  # paced: the only wait of these tests, bounded by its deadline


class Psql:
    """A direct database session without settings: any writer that is no engine."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.backends: list[int] = []  # its own server processes

    async def __call__(self, text: str, *args: object) -> list[Record]:
        """Run one statement in its own transaction and return its rows."""
        query = Query("test.psql", text)
        return await self.database.read(_LANE, lambda session: session.fetch(query, *args))

    async def value(self, text: str, *args: object) -> Any:
        """Return the first column of the first row."""
        rows: Sequence[Any] = await self(text, *args)
        return rows[0][0] if rows else None

    async def script(self, text: str) -> None:
        """Run several statements without arguments, as `psql -c` does."""
        await self.together((text,))

    async def together(self, *statements: tuple[object, ...]) -> None:
        """Run several statements, each a text with its arguments, in one transaction."""

        async def unit(session: Session) -> None:
            for text, *args in statements:
                await session.execute(Query("test.psql", str(text)), *args)

        await self.database.write(_LANE, unit)

    async def rolled_back(self, text: str, *args: object) -> int:
        """Run one statement in a transaction that is undone; return how many rows it touched."""

        class UndoneError(Exception):
            """Leaves the unit, so that the gateway rolls back."""

        touched = 0

        async def unit(session: Session) -> None:
            nonlocal touched
            touched = await session.execute(Query("test.psql", text), *args)
            raise UndoneError

        with suppress(UndoneError):
            await self.database.write(_LANE, unit)
        return touched

    @asynccontextmanager
    async def open_transaction(self, *statements: tuple[object, ...]) -> AsyncIterator[None]:
        """Keep a transaction open that has run these statements; it commits at the end."""
        done, release = trio.Event(), trio.Event()
        pause = Query("test.pause", "SELECT pg_catalog.pg_sleep(0.005)")

        async def unit(session: Session) -> None:
            for text, *args in statements:
                await session.execute(Query("test.psql", str(text)), *args)
            done.set()
            while not release.is_set():
                await session.fetch(pause)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.database.write, _LANE, unit)
            await done.wait()
            try:
                yield
            finally:
                release.set()

    async def pause(self, seconds: float) -> None:
        """Let the server's time pass: for what must not happen meanwhile."""
        await self("SELECT pg_catalog.pg_sleep($1)", seconds)

    @asynccontextmanager
    async def heard(self, channel: str) -> AsyncIterator[Callable[[], Awaitable[list[str]]]]:
        """Listen; the function that is yielded returns what was notified until it was called."""
        end = str(await self.value("SELECT gen_random_uuid()"))
        async with self.database.listen([channel]) as hints:
            assert isinstance(await hints.receive(), Reconnected)

            async def payloads() -> list[str]:
                await self("SELECT pg_notify($1, $2)", channel, end)
                found: list[str] = []
                while True:
                    hint = await hints.receive()
                    assert isinstance(hint, Notification)
                    if hint.payload == end:
                        return found
                    found.append(hint.payload)

            yield payloads

    @asynccontextmanager
    async def no_runs(self, agent_id: UUID | None = None) -> AsyncIterator[None]:
        """Let the server refuse every new run (of an agent) for as long as the block lasts."""
        await self(
            "CREATE OR REPLACE FUNCTION refuse_run() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN RAISE EXCEPTION 'no run today'; END $$"
        )
        await self(
            "CREATE TRIGGER a_refusal BEFORE INSERT ON agent_task_queue FOR EACH ROW"
            + (f" WHEN (NEW.agent_id = '{agent_id}')" if agent_id else "")
            + " EXECUTE FUNCTION refuse_run()"
        )
        try:
            yield
        finally:
            await self("DROP TRIGGER a_refusal ON agent_task_queue")

    # --- Facts --------------------------------------------------------------------------------

    async def comment(self, issue_id: UUID, author: UUID | None = None) -> UUID:
        """Write a comment by a person, or by nobody."""
        row = await self(
            "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
            " SELECT i.id, i.workspace_id, CASE WHEN $2::uuid IS NULL THEN 'system'"
            "   ELSE 'member' END, $2, 'a comment' FROM issue i WHERE i.id = $1 RETURNING id",
            issue_id,
            author,
        )
        comment_id: UUID = row[0]["id"]
        return comment_id

    async def receipt(self, rule_id: UUID, **columns: object) -> UUID:
        """Write a receipt past capture, without telling anybody; of revision 1."""
        values = {
            "wakeup_id": rule_id,
            "revision": 1,
            "event_key": str(await self.value("SELECT gen_random_uuid()")),
            "event_type": COMMENT,
            "payload": {"event_type": COMMENT},
            **columns,
        }
        return await self.insert("issue_wakeup_receipt", values)

    async def insert(self, table: str, values: dict[str, object]) -> UUID:
        """Insert one row and return its id."""
        places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        row = await self(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places}) RETURNING id",
            *values.values(),
        )
        inserted: UUID = row[0]["id"]
        return inserted

    async def rule(self, world: World, **columns: object) -> UUID:
        """Write a rule past the API: of M, for agent A, on issue I unless told otherwise."""
        values: dict[str, object] = {
            "workspace_id": world.workspace_id,
            "issue_id": world.issue,
            "agent_id": world.a,
            "created_by": world.m.user_id,
            "instruction": "look",
            "kind": "event",
            "mode": "continuous",
            **columns,
        }
        return await self.insert("issue_wakeup", values)

    async def issues(self, world: World, count: int) -> list[UUID]:
        """Make more open issues."""
        rows = await self(
            "INSERT INTO issue (workspace_id, number, title)"
            " SELECT $1, (SELECT max(number) FROM issue) + n, 'more'"
            "   FROM generate_series(1, $2::int) n RETURNING id",
            world.workspace_id,
            count,
        )
        return [row["id"] for row in rows]

    # --- What became of them --------------------------------------------------------------------

    async def runs(self, rule_id: UUID) -> list[Record]:
        """Return the runs of a rule, oldest first."""
        return await self(
            "SELECT * FROM agent_task_queue WHERE wakeup_id = $1 ORDER BY created_at, id", rule_id
        )

    async def receipts(self, rule_id: UUID) -> list[Record]:
        """Return the receipts of a rule, oldest first."""
        return await self(
            "SELECT * FROM issue_wakeup_receipt WHERE wakeup_id = $1 ORDER BY created_at, seq",
            rule_id,
        )

    async def row(self, rule_id: UUID) -> Record:
        """Return a rule as it is stored."""
        rows = await self("SELECT * FROM issue_wakeup WHERE id = $1", rule_id)
        return rows[0]

    async def run(self, rule_id: UUID, *, within: float = WAIT_SECONDS) -> Record:
        """Wait for a run of a rule, and return the only one that there is."""
        runs = await until(partial(self.runs, rule_id), "a run of the rule", within=within)
        assert len(runs) == 1
        return runs[0]

    async def failed(self, rule_id: UUID) -> str:
        """Wait until a rule has a `last_error`, and return it."""

        async def probe() -> str | None:
            error: str | None = (await self.row(rule_id))["last_error"]
            return error

        return await until(probe, "a last_error")

    async def fired(self, rule_id: UUID, count: int) -> None:
        """Wait until a rule has so many receipts, all of them processed."""

        async def probe() -> bool:
            receipts = await self.receipts(rule_id)
            return len(receipts) == count and all(row["processed_at"] for row in receipts)

        await until(probe, f"{count} receipts, processed")

    async def drained(self, *rule_ids: UUID, within: float = WAIT_SECONDS) -> None:
        """Wait until rules have no pending receipt."""

        async def probe() -> bool:
            pending = await self.value(
                "SELECT count(*) FROM issue_wakeup_receipt"
                " WHERE wakeup_id = ANY ($1) AND processed_at IS NULL",
                list(rule_ids),
            )
            return bool(pending == 0)

        await until(probe, "every receipt is processed", within=within)

    async def engine_sessions(self) -> list[Record]:
        """Return what the server says about every session of this database that is not its own."""
        return await self(
            "SELECT pid, application_name, state, query, state_change, query_start,"
            "       wait_event_type, wait_event, clock_timestamp() - query_start AS age"
            "  FROM pg_stat_activity WHERE datname = current_database()"
            "   AND backend_type = 'client backend' AND pid <> ALL ($1)",
            self.backends,
        )


@asynccontextmanager
async def foreign(url: str, *, connections: int = 6) -> AsyncIterator[Psql]:
    """Connect a foreign writer, and open the loop that everything else of a test runs beside."""
    # One row that fifty writers update: PostgreSQL lets some of them wait for most of a minute.
    lanes = {_LANE: LaneLimits(connections=connections, statement_ms=120_000)}
    async with open_loop(), Database.open(url, lanes=lanes) as database:
        psql = Psql(database)
        rows = await psql("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        psql.backends = [row["pid"] for row in rows]
        yield psql
