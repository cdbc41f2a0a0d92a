"""A workspace that is written to from all sides until it is deleted, with its daemon."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final
from uuid import UUID

import attrs

from engine.app import Engine
from engine.domain.commands.runs import RegisterDaemon, RuntimeDraft
from engine.domain.commands.tracker import CreateAgent, CreateIssue, CreateWorkspace
from engine.domain.commands.wakeups import CreateRule
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.domain.rules import RuleDraft
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import DAEMON, World

AGENTS: Final = 3  # each on a runtime of its own
STATUS: Final = "issue.status_changed"
FAILED: Final = "task.failed"
_TOKEN: Final = (
    "INSERT INTO access_token (kind, name, user_id, workspace_id, token_hash)"
    " VALUES ('daemon', 'daemon', $1, $2, sha256($3::text::bytea)) RETURNING id"
)


@attrs.define(kw_only=True, eq=False)
class Town:
    """One workspace; `busy` counts who is writing to an issue, or to the workspace, just now.

    `gone` are the issues that were deleted, with the number of runs that they had then; `met`
    counts the deletions that began while somebody was writing there.
    """

    name: str
    workspace_id: UUID
    owner: Principal
    daemon: Principal
    agents: list[UUID]
    runtimes: list[UUID]
    issues: list[UUID] = attrs.field(factory=list)
    busy: Counter[UUID] = attrs.field(factory=Counter)
    gone: dict[UUID, int] = attrs.field(factory=dict)
    met: int = 0
    is_gone: bool = False
    written_until: float = 0.0

    def an_issue(self, random: Random) -> UUID:
        """Return one of the issues, the older ones rather than the others: they go first."""
        return self.issues[min(random.randrange(len(self.issues)), random.randrange(8))]


async def found(engine: Engine, psql: Psql, world: World, name: str, *, issues: int) -> Town:
    """Make a workspace with a daemon, three agents and issues with rules."""
    made = await engine.submit(
        world.o, CreateWorkspace(name=name, slug=name, issue_prefix=name.upper())
    )
    owner = attrs.evolve(world.o, roles={made.id: Role.OWNER})
    token_id = await psql.value(_TOKEN, owner.user_id, made.id, name)
    daemon = Principal(kind=PrincipalKind.DAEMON, workspace_id=made.id, token_id=token_id)
    offered = tuple(RuntimeDraft(name=f"r{n}", provider="test") for n in range(AGENTS))
    registered = await engine.submit(daemon, RegisterDaemon(daemon_id=DAEMON, runtimes=offered))
    runtimes = [each.id for each in registered.runtimes]
    agents = [
        (
            await engine.submit(
                owner,
                CreateAgent(
                    workspace_id=made.id,
                    name=f"{name}{number}",
                    runtime_id=runtime_id,
                    max_concurrent_tasks=10,
                ),
            )
        ).id
        for number, runtime_id in enumerate(runtimes)
    ]
    town = Town(
        name=name,
        workspace_id=made.id,
        owner=owner,
        daemon=attrs.evolve(daemon, daemon_id=DAEMON),
        agents=agents,
        runtimes=runtimes,
    )
    for _ in range(issues):
        await settle(engine, town)
    return town


async def settle(engine: Engine, town: Town) -> UUID:
    """Add an issue on which two agents wait for comments, and for whatever else goes on."""
    new = CreateIssue(workspace_id=town.workspace_id, title=f"{town.name} has work")
    issue_id: UUID = (await engine.submit(town.owner, new)).id
    for agent_id, events in zip(town.agents, ((COMMENT,), (COMMENT, STATUS, FAILED)), strict=False):
        draft = rule_for(agent_id, *events)
        await engine.submit(town.owner, CreateRule(issue_id=issue_id, draft=draft))
    town.issues.append(issue_id)
    return issue_id


def rule_for(agent_id: UUID, *events: str) -> RuleDraft:
    """Return a continuous rule on these events."""
    return RuleDraft(
        agent_id=agent_id,
        instruction="look",
        kind="event",
        mode="continuous",
        event_types=events or (COMMENT,),
    )
