"""A workspace to act in, and a way to call use cases as the engine does.

People: owner O, admin G, members M and N, and S, who belongs elsewhere. Agents: A and B, open to
the workspace, and P, which is private to O. Issue I is open, K is another one. `sql` is a direct
writer that knows nothing of the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from uuid import UUID

import attrs
import pytest

import engine.service.all  # noqa: F401 - importing it registers every use case
from engine.domain.commands import Command, Query
from engine.domain.commands.tracker import (
    AddMember,
    Authenticate,
    Bootstrap,
    CreateAgent,
    CreateIssue,
    CreateWorkspace,
)
from engine.domain.principal import NOBODY, Principal, Role
from engine.errors import WakefulError
from engine.service.registry import Work, service_for
from engine.service.tokens import TokenPrefix, mint, token_hash
from engine.storage import queries
from engine.storage.database import Database, Identity, Lane, Record, Session, open_loop
from engine.storage.queries import Query as Statement

Sql = Callable[..., Awaitable[list[Record]]]
RunOf = Callable[..., Awaitable[Principal]]


@attrs.define
class Executor:
    """Calls use cases, each in its transaction; `work` and `opened` are those of the last one."""

    database: Database
    work: Work | None = None
    opened: tuple[UUID, ...] = ()

    async def __call__(self, principal: Principal, command: Command | Query) -> Any:
        """Run the use case of a command as this caller and return its result, committed."""
        service = service_for(command)

        async def unit(session: Session) -> Any:
            self.work = Work(session=session, caller=principal)
            return await service.handler(self.work, command)

        if isinstance(command, Query):
            return await self.database.read(service.lane, unit)
        committed = await self.database.write(
            service.lane,
            unit,
            Identity(
                actor_type=principal.actor_type,
                actor_id=principal.actor_id,
                source_task_id=principal.run_id,
            ),
            lock_timeout_ms=service.lock_timeout_ms,
        )
        self.opened = committed.opened
        return committed.result

    async def refused(
        self, principal: Principal, command: Command | Query, *, field: str | None = None
    ) -> str:
        """Return the code with which a call is refused, for this field if one is given."""
        with pytest.raises(WakefulError) as caught:
            await self(principal, command)
        assert field is None or caught.value.details.get("field") == field
        return caught.value.code

    async def end(self, run: Principal) -> None:
        """Complete a run behind the engine's back, which makes room for another one."""
        text = "UPDATE agent_task_queue SET status = 'completed' WHERE id = $1"
        statement = Statement("test.end", text)
        await self.database.read(
            Lane.BACKGROUND, lambda session: session.execute(statement, run.run_id)
        )

    async def authenticate(self, token: str) -> Principal:
        """Return who shows this token, now."""
        found = await self(NOBODY, Authenticate(token_hash=token_hash(token)))
        assert isinstance(found, Principal)
        return found


async def runs_of(sql: Sql, issue_id: UUID) -> list[Record]:
    """Return the runs of an issue, oldest first."""
    return await sql(
        "SELECT * FROM agent_task_queue WHERE issue_id = $1 ORDER BY created_at, id", issue_id
    )


@attrs.frozen(kw_only=True)
class World:
    """What a test starts from: see the module's docstring. `tokens` are those of the people."""

    workspace_id: UUID
    runtime_id: UUID
    o: Principal
    g: Principal
    m: Principal
    n: Principal
    s: Principal
    daemon: Principal
    a: UUID
    b: UUID
    p: UUID
    issue: UUID
    other_issue: UUID
    tokens: dict[str, str]
    daemon_token: str


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The gateway as the engine opens it: identities go to the triggers, captures are merged."""
    gateway = queries.load("gateway")
    async with (
        open_loop(),
        Database.open(database_url, begin=gateway.begin, flush=gateway.flush) as opened,
    ):
        yield opened


@pytest.fixture
def execute(database: Database) -> Executor:
    return Executor(database)


@pytest.fixture
def sql(database: Database) -> Sql:
    """Run one statement like psql: on its own, without an identity. Returns its rows."""

    async def run(text: str, *args: object) -> list[Record]:
        return await database.read(
            Lane.BACKGROUND, lambda session: session.fetch(Statement("test.sql", text), *args)
        )

    return run


@pytest.fixture
async def world(execute: Executor, sql: Sql) -> World:
    started = await execute(NOBODY, Bootstrap())
    workspace = started.workspace_id
    tokens = {"o": started.member_token}
    owner = await execute.authenticate(started.member_token)
    for name, role in (("g", "admin"), ("m", "member"), ("n", "member")):
        added = await execute(
            owner,
            AddMember(
                workspace_id=workspace, email=f"{name}@example.com", name=name.upper(), role=role
            ),
        )
        tokens[name] = added.token
    tokens["s"] = await _stranger(execute, owner)
    people = {name: await execute.authenticate(token) for name, token in tokens.items()}
    runtime_id = await _runtime(execute, sql, started.daemon_token, workspace)
    agent = partial(CreateAgent, workspace_id=workspace, runtime_id=runtime_id)
    issue = partial(CreateIssue, workspace_id=workspace)
    owner = people["o"]
    return World(
        workspace_id=workspace,
        runtime_id=runtime_id,
        **people,
        daemon=await execute.authenticate(started.daemon_token),
        a=(await execute(owner, agent(name="A"))).id,
        b=(await execute(owner, agent(name="B"))).id,
        p=(await execute(owner, agent(name="P", visibility="private"))).id,
        issue=(await execute(people["m"], issue(title="I"))).id,
        other_issue=(await execute(people["m"], issue(title="K"))).id,
        tokens=tokens,
        daemon_token=started.daemon_token,
    )


async def _stranger(execute: Executor, owner: Principal) -> str:
    """Return the token of the owner of another workspace, who is in no other."""
    elsewhere = await execute(
        owner, CreateWorkspace(name="Elsewhere", slug="elsewhere", issue_prefix="ELSE")
    )
    member = await execute(
        attrs.evolve(owner, roles={elsewhere.id: Role.OWNER}),
        AddMember(workspace_id=elsewhere.id, email="s@example.com", name="S", role="owner"),
    )
    token = member.token
    assert isinstance(token, str)
    return token


async def _runtime(execute: Executor, sql: Sql, token: str, workspace_id: UUID) -> UUID:
    """Return a runtime that is online, of the daemon `daemon-1` with this token."""
    daemon = await execute.authenticate(token)
    await sql(
        "INSERT INTO daemon (workspace_id, daemon_id, token_id) VALUES ($1, 'daemon-1', $2)",
        workspace_id,
        daemon.token_id,
    )
    rows = await sql(
        "INSERT INTO agent_runtime (workspace_id, daemon_id, name, provider, last_seen_at)"
        " VALUES ($1, 'daemon-1', 'main', 'test', wakeful_now()) RETURNING id",
        workspace_id,
    )
    runtime_id = rows[0]["id"]
    assert isinstance(runtime_id, UUID)
    return runtime_id


@pytest.fixture
def run_of(execute: Executor, sql: Sql, world: World) -> RunOf:
    """Return a function that starts a run and returns who its token makes of the caller."""

    async def start(
        agent_id: UUID, issue_id: UUID, originator: UUID | None, status: str = "running"
    ) -> Principal:
        minted = mint(TokenPrefix.RUN)
        await sql(
            "WITH run AS (INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, status,"
            "   dispatched_at, started_at, originator_user_id)"
            "   VALUES ($1, $2, $3, $4, wakeful_now(), wakeful_now(), $5) RETURNING *)"
            " INSERT INTO task_token (token_hash, task_id, agent_id, workspace_id, user_id,"
            "   dispatched_at, expires_at)"
            " SELECT $6, id, agent_id, $7, $5, dispatched_at, wakeful_now() + interval '1 day'"
            "   FROM run",
            agent_id,
            issue_id,
            world.runtime_id,
            status,
            originator,
            minted.hash,
            world.workspace_id,
        )
        return await execute.authenticate(minted.text)

    return start
