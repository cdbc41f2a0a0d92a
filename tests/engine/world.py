"""What the tests of the engine share: a seeded world, a foreign writer, and ways to wait.

The engine under test is the real one over a real database. Tests look at it from outside: they
use its facade as the web server does, and see the database through `Psql`, a writer that knows
nothing of the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs
import trio

from engine.app import Engine
from engine.domain.commands.runs import ClaimRuns, RegisterDaemon, RuntimeDraft, StartRun
from engine.domain.commands.tracker import AddMember, CreateAgent, CreateComment, CreateIssue
from engine.domain.commands.wakeups import CreateRule
from engine.domain.principal import Principal
from engine.domain.rules import RuleDraft
from engine.domain.views.runs import ClaimedRun
from engine.domain.views.wakeups import RuleView
from engine.settings import Settings
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

T = TypeVar("T")

NEVER: Final = 100_000.0  # seconds: no sweep within a test
WAIT_SECONDS: Final = 10.0  # a machine shared with others: a bound, not a target
COMMENT: Final = "comment.created"
DAEMON: Final = "daemon-1"
_LANE: Final = Lane.BACKGROUND


@attrs.frozen(kw_only=True)
class World:
    """What a test starts from.

    People: owner O, admin G, members M (the usual creator) and N. Agents: A and B, open to the
    workspace, and P, private to O; all three on one runtime that is online. Issues I and K.
    """

    workspace_id: UUID
    runtime_id: UUID
    o: Principal
    g: Principal
    m: Principal
    n: Principal
    daemon: Principal
    a: UUID
    b: UUID
    p: UUID
    issue: UUID
    other_issue: UUID


async def until(
    probe: Callable[[], Awaitable[T]], what: str, *, within: float = WAIT_SECONDS
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

    async def receipt(
        self, rule: RuleView, event_type: str, payload: object, **columns: object
    ) -> UUID:
        """Write a receipt past capture, as an older version has left it."""
        values = {
            "wakeup_id": rule.id,
            "revision": rule.revision,
            "event_key": str(await self.value("SELECT gen_random_uuid()")),
            "event_type": event_type,
            "payload": payload,
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

    async def drained(self, *rule_ids: UUID, within: float = WAIT_SECONDS) -> None:
        """Wait until rules have no pending receipt."""

        async def probe() -> bool:
            pending = await self.value(
                "SELECT count(*) FROM issue_wakeup_receipt"
                " WHERE wakeup_id = ANY ($1) AND processed_at IS NULL",
                list(rule_ids),
            )
            return pending == 0

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
    lanes = {_LANE: LaneLimits(connections=connections, statement_ms=40_000)}
    async with open_loop(), Database.open(url, lanes=lanes) as database:
        psql = Psql(database)
        rows = await psql("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        psql.backends = [row["pid"] for row in rows]
        yield psql


@asynccontextmanager
async def running(url: str, **settings: Any) -> AsyncIterator[Engine]:
    """Run an engine; it never sweeps after its start unless told otherwise."""
    chosen = {"sweep_seconds": NEVER, "sweep_idle_after": NEVER, **settings}
    async with Engine.open(Settings(database_url=url, **chosen)) as engine:
        yield engine


async def seed(engine: Engine) -> World:
    """Fill an empty database through the facade, as people and a daemon would."""
    started = await engine.bootstrap()
    workspace_id = started.workspace_id
    owner = await engine.authenticate(started.member_token)
    people = {"o": owner}
    for name, role in (("g", "admin"), ("m", "member"), ("n", "member")):
        added = await engine.submit(
            owner,
            AddMember(
                workspace_id=workspace_id,
                email=f"{name}@example.com",
                name=name.upper(),
                role=role,
            ),
        )
        people[name] = await engine.authenticate(added.token)
    daemon = await engine.authenticate(started.daemon_token)
    runtimes = (RuntimeDraft(name="main", provider="test"),)
    registered = await engine.submit(daemon, RegisterDaemon(daemon_id=DAEMON, runtimes=runtimes))
    runtime_id = registered.runtimes[0].id
    agent = partial(CreateAgent, workspace_id=workspace_id, runtime_id=runtime_id)
    issue = partial(CreateIssue, workspace_id=workspace_id)
    return World(
        workspace_id=workspace_id,
        runtime_id=runtime_id,
        **people,
        daemon=daemon,
        a=(await engine.submit(owner, agent(name="A"))).id,
        b=(await engine.submit(owner, agent(name="B"))).id,
        p=(await engine.submit(owner, agent(name="P", visibility="private"))).id,
        issue=(await engine.submit(people["m"], issue(title="I"))).id,
        other_issue=(await engine.submit(people["m"], issue(title="K"))).id,
    )


async def register(
    engine: Engine,
    world: World,
    *,
    issue: UUID | None = None,
    caller: Principal | None = None,
    **fields: Any,
) -> RuleView:
    """Register a rule: by M, for agent A, on issue I, continuous on comments unless told else."""
    if "kind" not in fields:
        fields = {"kind": "event", "mode": "continuous", "event_types": (COMMENT,), **fields}
    draft = RuleDraft(**{"agent_id": world.a, "instruction": "look", **fields})
    command = CreateRule(issue_id=issue or world.issue, draft=draft)
    view: RuleView = await engine.submit(caller or world.m, command)
    return view


async def say(engine: Engine, caller: Principal, issue_id: UUID) -> UUID:
    """Comment through the engine."""
    view = await engine.submit(caller, CreateComment(issue_id=issue_id, body="a comment"))
    comment_id: UUID = view.id
    return comment_id


async def claim(engine: Engine, world: World, *, max_tasks: int = 1) -> tuple[ClaimedRun, ...]:
    """Claim as the daemon of the world, without waiting."""
    claimed: tuple[ClaimedRun, ...] = await engine.claim(
        world.daemon,
        ClaimRuns(daemon_id=DAEMON, runtime_ids=(world.runtime_id,), max_tasks=max_tasks),
    )
    return claimed


async def start(engine: Engine, world: World, run: ClaimedRun) -> None:
    """Start a claimed run."""
    assert run.dispatched_at is not None
    await engine.submit(
        world.daemon, StartRun(run_id=run.id, dispatched_at=run.dispatched_at)
    )


async def settled(engine: Engine) -> None:
    """Wait until the engine has nothing under way: what has not happened by then does not."""
    quiet = trio.Event()
    engine.ledger.call_when_idle(quiet.set)
    try:
        if engine.ledger.active:
            with trio.fail_after(WAIT_SECONDS):
                await quiet.wait()
    finally:
        engine.ledger.forget(quiet.set)
