"""What the tests of simulated worlds share: an issue with an agent, and looks at a rule."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import attrs

from engine.domain.views.runs import RunView
from engine.domain.views.wakeups import RuleView
from engine.simulation import Agent, Daemon, Person, Work, World


@attrs.frozen(kw_only=True)
class Scene:
    """One person, one agent on one daemon, one issue."""

    world: World
    ann: Person
    daemon: Daemon
    agent: Agent
    issue_id: UUID

    async def rule(self, **fields: Any) -> RuleView:
        """Have Ann leave a rule for the agent."""
        return await self.ann.add_rule(self.issue_id, self.agent.id, "look", **fields)

    async def runs(self, rule: RuleView) -> list[RunView]:
        """Return the runs of a rule, oldest first."""
        return await self.world.runs(self.issue_id, rule=rule)


async def scene(world: World, work: Work | None = None, *, online: bool = True) -> Scene:
    """Set a scene; a daemon that is not `online` has left before anything happens."""
    ann = await world.person("Ann")
    daemon = await world.daemon("laptop")
    agent = await world.agent("Checker", daemon, work)
    issue = await ann.create_issue("Is it done?")
    if not online:
        await daemon.go_offline()
    return Scene(world=world, ann=ann, daemon=daemon, agent=agent, issue_id=issue.id)


def facts(run: RunView) -> list[dict[str, Any]]:
    """Return the facts that woke a run."""
    found: list[dict[str, Any]] = run.context["wakeup_evidence"]["facts"]
    return found


def planned(run: RunView) -> datetime:
    """Return the planned time of the only fact of a run."""
    (fact,) = facts(run)
    return datetime.fromisoformat(fact["payload"]["occurred_at"])
