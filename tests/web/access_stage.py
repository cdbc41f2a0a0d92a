"""A workspace with somebody of every sort in it, and outsiders, for requests over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from uuid import UUID

import attrs
import httpx

from engine.app import Engine
from engine.domain.commands.runs import RegisterDaemon, RuntimeDraft
from engine.domain.commands.tracker import AddMember, CreateAgent, CreateWorkspace
from engine.domain.principal import Principal
from engine.service.tokens import TokenPrefix, mint
from tests.engine.foreign import Psql, foreign
from tests.engine.world import running
from tests.web.conftest import Server, serving

NAMED: Final = "X-Workspace-ID"
DAEMON: Final = "d1"
OPEN: Final = "open"
PRIVATE: Final = "private"
_STRANGERS: Final = ("outsider", "instance")
_ROLES: Final = {
    "owner": "owner",
    "admin": "admin",
    "creator": "member",
    "member": "member",
    "outsider": "member",
    "instance": "member",
}


@attrs.define(kw_only=True)
class Stage:
    """A server over an engine, and who there is to call it.

    `people` are principals by the names of the matrix; `root` is the first owner, who makes what
    the creator may not make. `clients` call as everybody but runs, and name the workspace. The
    agents `OPEN`, which every member may wake, and `PRIVATE` are the creator's.
    """

    engine: Engine
    server: Server
    sql: Psql
    workspace_id: UUID
    runtime_id: UUID
    people: Mapping[str, Principal]
    clients: Mapping[str, httpx.AsyncClient]
    agents: Mapping[str, UUID]
    counted: int = 0

    def number(self) -> int:
        """Return a number that nobody got before."""
        self.counted += 1
        return self.counted

    def client(self, token: str) -> httpx.AsyncClient:
        """Return a client that shows a token and names the workspace."""
        return self.server.client(token, **{NAMED: str(self.workspace_id)})

    async def run(
        self,
        issue_id: UUID,
        status: str,
        *,
        agent: str = OPEN,
        originator_id: UUID | None = None,
        rule_id: UUID | None = None,
    ) -> Mapping[str, Any]:
        """Write a run as its daemon left it; returns `id`, `agent_id` and `dispatched_at`."""
        (row,) = await self.sql(
            "WITH run AS ("
            "  INSERT INTO agent_task_queue (issue_id, agent_id, runtime_id, status, dispatched_at,"
            "    started_at, completed_at, originator_user_id, context)"
            "  VALUES ($1, $2, $3, $4::text, wakeful_now(),"
            "    CASE WHEN $4 <> 'dispatched' THEN wakeful_now() END,"
            "    CASE WHEN $4 = 'completed' THEN wakeful_now() END,"
            "    $5, jsonb_strip_nulls(jsonb_build_object('wakeup_id', $6::uuid)))"
            "  RETURNING *"
            "), lease AS ("
            "  INSERT INTO run_lease (task_id, expires_at)"
            "  SELECT id, wakeful_now() + interval '1 hour' FROM run WHERE completed_at IS NULL)"
            " SELECT id, agent_id, dispatched_at FROM run",
            issue_id,
            self.agents[agent],
            self.runtime_id,
            status,
            originator_id,
            rule_id,
        )
        return row

    async def run_token(
        self, issue_id: UUID, originator_id: UUID | None, rule_id: UUID | None = None
    ) -> str:
        """Return the token of a new run that goes on, for a person or for nobody."""
        run = await self.run(issue_id, "running", originator_id=originator_id, rule_id=rule_id)
        minted = mint(TokenPrefix.RUN)
        await self.sql(
            "INSERT INTO task_token (token_hash, task_id, agent_id, workspace_id, user_id,"
            " dispatched_at, expires_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, wakeful_now() + interval '1 day')",
            minted.hash,
            run["id"],
            run["agent_id"],
            self.workspace_id,
            originator_id,
            run["dispatched_at"],
        )
        return minted.text

    async def end_runs(self) -> None:
        """Let every run of the open agent that goes on come to its end."""
        await self.sql(
            "UPDATE agent_task_queue SET status = 'completed', completed_at = wakeful_now()"
            " WHERE agent_id = $1 AND status = 'running'",
            self.agents[OPEN],
        )


@asynccontextmanager
async def staged(url: str) -> AsyncIterator[Stage]:
    """Start everything over an empty database, and let everybody in."""
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(running(url))
        sql = await stack.enter_async_context(foreign(url))
        server = await stack.enter_async_context(serving(engine))
        made = await engine.bootstrap()
        root = await engine.authenticate(made.member_token)
        tokens = await _invite(engine, root)
        for name in _STRANGERS:
            await _move_out(engine, sql, await engine.authenticate(tokens[name]), name)
        people = {name: await engine.authenticate(token) for name, token in tokens.items()}
        daemon = await engine.authenticate(made.daemon_token)
        offered = (RuntimeDraft(name="laptop", provider="exec"),)
        registered = await engine.submit(daemon, RegisterDaemon(daemon_id=DAEMON, runtimes=offered))
        runtime_id = registered.runtimes[0].id
        named = {NAMED: str(made.workspace_id)}
        shown = {**tokens, "daemon": made.daemon_token, "nobody": None}
        yield Stage(
            engine=engine,
            server=server,
            sql=sql,
            workspace_id=made.workspace_id,
            runtime_id=runtime_id,
            people={**people, "root": root},
            clients={
                name: await stack.enter_async_context(server.client(token, **named))
                for name, token in shown.items()
            },
            agents=await _hire(engine, sql, root, people["creator"].user_id, runtime_id),
        )


async def _invite(engine: Engine, root: Principal) -> dict[str, str]:
    """Make everybody a member; returns their tokens."""
    tokens = {}
    for name, role in _ROLES.items():
        person = AddMember(email=f"{name}@example.com", name=name.title(), role=role)
        tokens[name] = (await engine.submit(root, person)).token
    return tokens


async def _move_out(engine: Engine, sql: Psql, person: Principal, name: str) -> None:
    """Leave a member nothing but a workspace of its own, and the instance to who administrates it.

    So nothing but that office speaks for the latter.
    """
    home = await engine.submit(
        person, CreateWorkspace(name=name, slug=name, issue_prefix=name[:3].upper())
    )
    await sql(
        "DELETE FROM member WHERE user_id = $1 AND workspace_id <> $2", person.user_id, home.id
    )
    await sql(
        "UPDATE app_user SET instance_admin = $2 WHERE id = $1",
        person.user_id,
        name == "instance",
    )


async def _hire(
    engine: Engine, sql: Psql, root: Principal, owner_id: UUID | None, runtime_id: UUID
) -> dict[str, UUID]:
    """Make the two agents for their owner, who may not bind them to a runtime; returns the ids."""
    agents = {}
    for name, visibility in ((OPEN, "workspace"), (PRIVATE, "private")):
        agent = CreateAgent(name=name, visibility=visibility, runtime_id=runtime_id)
        agents[name] = (await engine.submit(root, agent)).id
    await sql("UPDATE agent SET owner_id = $1", owner_id)
    return agents
