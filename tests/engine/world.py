"""What the tests of the engine share: a seeded world, a running engine, and its callers.

The engine under test is the real one over a real database. Tests look at it from outside: they
use its facade as the web server does, and see the database through `tests.engine.foreign`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
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
from tests.engine.foreign import COMMENT, WAIT_SECONDS, Psql, foreign

NEVER: Final = 100_000.0  # seconds: no sweep within a test
DAEMON: Final = "daemon-1"


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
    await engine.submit(world.daemon, StartRun(run_id=run.id, dispatched_at=run.dispatched_at))


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


@asynccontextmanager
async def stage(url: str, *, connections: int = 6) -> AsyncIterator[tuple[Psql, World]]:
    """Seed an empty database and connect a foreign writer, for tests without these fixtures."""
    async with foreign(url, connections=connections) as psql:
        async with running(url) as seeder:
            world = await seed(seeder)
        yield psql, world
