"""A hostile client, driven by the description of the API, against a real server and database.

20,000 requests by default, more with WAKEFUL_FUZZ_REQUESTS (`make fuzz`); a run that fails prints
its seed, which WAKEFUL_FUZZ_SEED sets.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import attrs
import trio

from engine.app import Engine
from engine.domain.principal import PrincipalKind
from engine.errors import KINDS
from engine.storage.database import Database, Lane, Session
from engine.storage.queries import Query
from tests.engine.world import running
from tests.fuzz.connection import Answer, Connection
from tests.fuzz.operations import OPERATIONS
from tests.fuzz.requests import Credential, Request, World, acceptable, refusable
from tests.web.conftest import Server, serving

REQUESTS: Final = int(os.environ.get("WAKEFUL_FUZZ_REQUESTS", "20000"))
SEED: Final = int(os.environ.get("WAKEFUL_FUZZ_SEED", "20270328"))
CLIENTS: Final = 6
SHOWN_MAX: Final = 12
ANSWER_SECONDS_MAX: Final = 20
# What a server may say when too much goes on at once; the request may be repeated.
BUSY: Final = frozenset({"contention", "overloaded", "budget_exceeded"})
SECRETS: Final = ("Traceback", "asyncpg", "SQLSTATE 4", "engine/", "SELECT ", "INSERT ")
TABLES: Final = Query(
    "test.tables",
    "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r'"
    " AND c.relnamespace = 'public'::regnamespace ORDER BY 1",
)


@attrs.define
class Findings:
    """What was sent and answered, and what must not have been."""

    statuses: Counter[int] = attrs.field(factory=Counter)
    operations: Counter[str] = attrs.field(factory=Counter)
    kinds: Counter[str] = attrs.field(factory=Counter)
    wrong: list[str] = attrs.field(factory=list)

    def judge(self, request: Request, answer: Answer) -> Any:
        """Note what is wrong with an answer; return its JSON value, None if there is none."""
        self.statuses[answer.status] += 1
        self.operations[request.operation.name] += 1
        value = answer.json() if answer.body and "json" in answer.media_type else None
        problems = list(_problems(request, answer, value))
        if problems:
            self.wrong.append(
                f"{request}\n  -> {answer.status} {answer.body[:300]!r}\n  {problems}"
            )
        return value


def _problems(request: Request, answer: Answer, value: Any) -> Any:
    """Yield what is wrong with an answer."""
    if request.statuses is not None and answer.status not in request.statuses:
        yield f"expected {sorted(request.statuses)[:3]}"
    if answer.status < 400:
        return
    if answer.media_type != "application/problem+json" or not isinstance(value, dict):
        yield f"a refusal is a problem, not {answer.media_type}"
        return
    code = str(value.get("code"))
    if code not in KINDS or KINDS[code].status != answer.status or value["status"] != answer.status:
        yield f"{code} does not go with {answer.status}"
    if answer.status >= 500 and code not in BUSY:
        yield f"a request must not lead to {code}"
    if value.get("detail") != value.get("error"):
        yield "detail and error differ"
    if any(secret in answer.body.decode() for secret in SECRETS):
        yield "a refusal tells what is inside"
    field = str(value.get("details", {}).get("field", ""))
    if request.field is not None and field.split(".", maxsplit=1)[0] != request.field:
        yield f"the field is {request.field!r}, not {field!r}"


async def _send(
    world: World,
    findings: Findings,
    port: int,
    make: Callable[[Random, World], Request],
    seed: int,
    count: int,
) -> None:
    random = Random(seed)
    async with Connection.open(port) as connection:
        for _ in range(count):
            request = make(random, world)
            try:
                with trio.fail_after(ANSWER_SECONDS_MAX):
                    answer = await connection.ask(
                        request.method, request.target, request.headers, request.content
                    )
            except trio.TooSlowError:
                findings.wrong.append(f"{request}\n  no answer")
                return
            value = findings.judge(request, answer)
            if answer.status < 300:
                world.learn(request, value)


async def _storm(
    world: World,
    findings: Findings,
    port: int,
    make: Callable[[Random, World], Request],
    count: int,
) -> None:
    """Send `count` requests from several clients at once."""
    async with trio.open_nursery() as nursery:
        for client in range(CLIENTS):
            seed = SEED * CLIENTS + client
            nursery.start_soon(_send, world, findings, port, make, seed, count // CLIENTS)


async def _world(engine: Engine, server: Server) -> World:
    """Return a world with every kind of caller, and something of everything to begin with."""
    made = await engine.bootstrap()
    member, daemon = PrincipalKind.MEMBER, PrincipalKind.DAEMON
    world = World(
        workspace=str(made.workspace_id),
        elsewhere="elsewhere",
        credentials=[
            Credential(kind=member, token=made.member_token),
            Credential(kind=daemon, token=made.daemon_token),
            Credential(kind=None, token=None),
        ],
    )
    steps: list[tuple[str, str, dict[str, Any]]] = [
        (
            "create_workspace",
            "/workspaces",
            {"name": "E", "slug": "elsewhere", "issue_prefix": "E"},
        ),
        ("add_member", "/members", {"email": "m@example.com", "name": "M", "role": "member"}),
        ("add_member", "/members", {"email": "g@example.com", "name": "G", "role": "admin"}),
        (
            "register_daemon",
            "/daemon/register",
            {"daemon_id": "d1", "runtimes": [{"name": "laptop", "provider": "exec"}]},
        ),
    ]
    for _, path, body in steps:
        await _make(server, world, path, body)
    (runtime,) = world.ids.known["runtimes"]
    await _make(server, world, "/agents", {"name": "Builder", "runtime_id": runtime})
    (agent,) = world.ids.known["agents"]
    for number in range(3):
        await _make(server, world, "/issues", {"title": f"Issue {number}"})
    for issue in world.ids.known["issues"]:
        await _make(server, world, f"/issues/{issue}/comments", {"body": "Ahoy"}, issue=issue)
        await _make(server, world, f"/issues/{issue}/runs", {"agent_id": agent}, issue=issue)
        rule = {
            "kind": "every",
            "interval_seconds": 86_400,
            "agent_id": agent,
            "instruction": "Look.",
        }
        await _make(server, world, f"/issues/{issue}/wakeups", rule, issue=issue)
    claim = {"daemon_id": "d1", "runtime_ids": [runtime], "max_tasks": 3}
    await _make(server, world, "/daemon/tasks/claim", claim)
    outsider = {"email": "s@example.com", "name": "S", "role": "owner"}
    await _make(server, world, "/members", outsider, workspace="elsewhere")
    return world


async def _make(
    server: Server,
    world: World,
    path: str,
    body: dict[str, Any],
    *,
    issue: str | None = None,
    workspace: str | None = None,
) -> None:
    """Make something as the owner or the daemon, and let the world learn of it."""
    caller = world.credentials[1 if path.startswith("/daemon/") else 0]
    headers = {"X-Workspace-ID": workspace or world.workspace}
    async with server.client(caller.token, **headers) as client:
        response = await client.post(path, json=body)
    assert response.is_success, (path, response.text)
    fixed = [part for part in path.split("/") if part and part != issue]
    operation = next(
        each
        for each in OPERATIONS
        if each.method == "POST"
        and [part for part in each.path.split("/") if part and "{" not in part] == fixed
    )
    request = Request(operation=operation, method="POST", target=path, headers=[], issue=issue)
    world.learn(request, response.json())


async def _contents(url: str) -> dict[str, str | None]:
    """Return a digest of every table."""

    async def unit(session: Session) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for row in await session.fetch(TABLES):
            name = row["relname"]
            text = f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t"
            found[name] = await session.fetchval(Query("test.digest", text))
        return found

    async with Database.open(url) as database:
        return await database.read(Lane.BACKGROUND, unit)


def _report(findings: Findings) -> str:
    shown = "\n".join(findings.wrong[:SHOWN_MAX])
    return f"seed {SEED}: {len(findings.wrong)} wrong answers of {findings.statuses}\n{shown}"


async def test_a_hostile_client_learns_and_leaves_nothing(database_url: str) -> None:
    """Every field of every call: what is wrong in itself is a 4xx that names it, nothing stored."""
    async with running(database_url) as engine, serving(engine) as server:
        world = await _world(engine, server)
        before = await _contents(database_url)
        findings = Findings()
        await _storm(world, findings, server.port, refusable, REQUESTS // 2)
        assert not findings.wrong, _report(findings)
        assert await _contents(database_url) == before
    assert set(findings.operations) == {each.name for each in OPERATIONS}


async def test_a_curious_client_breaks_nothing(database_url: str) -> None:
    """Whatever is sent in earnest or nearly, by every kind of caller, is answered: never a 500."""
    async with running(database_url) as engine, serving(engine) as server:
        world = await _world(engine, server)
        findings = Findings()
        await _storm(world, findings, server.port, acceptable, REQUESTS // 2)
        assert not findings.wrong, _report(findings)
    assert set(findings.operations) == {each.name for each in OPERATIONS}
    assert findings.statuses[200] + findings.statuses[201] > REQUESTS // 20
