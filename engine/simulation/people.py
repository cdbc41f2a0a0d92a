"""People of a simulated world: they do what members do, through the engine's front door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from engine.domain.commands import Command
from engine.domain.commands.tracker import CreateComment, CreateIssue, UpdateIssue
from engine.domain.commands.wakeups import CreateRule, DisableRule, EnableRule
from engine.domain.principal import Principal
from engine.domain.rules import RuleDraft
from engine.domain.views.tracker import IssueView
from engine.domain.views.wakeups import RuleView

if TYPE_CHECKING:
    from engine.simulation.world import World


@attrs.frozen(kw_only=True, eq=False)
class Person:
    """A member of the world's workspace; every method commits, or raises as the engine does."""

    name: str
    principal: Principal
    world: World

    @property
    def id(self) -> UUID:
        """The id of the user, which filters and assignees name."""
        assert self.principal.user_id is not None
        return self.principal.user_id

    async def submit(self, command: Command) -> Any:
        """Ask the engine for any change (`engine.domain.commands`)."""
        return await self.world.submit(self.principal, command)

    async def create_issue(self, title: str, **fields: Any) -> IssueView:
        """Create an issue; `fields` are those of `CreateIssue`."""
        command = CreateIssue(workspace_id=self.world.workspace_id, title=title, **fields)
        view: IssueView = await self.submit(command)
        return view

    async def update_issue(self, issue_id: UUID, **fields: Any) -> IssueView:
        """Change an issue; `fields` are those of `UpdateIssue`, `status` for instance."""
        view: IssueView = await self.submit(UpdateIssue(issue_id=issue_id, **fields))
        return view

    async def comment(self, issue_id: UUID, body: str) -> UUID:
        """Say something on an issue; return the id of the comment."""
        view = await self.submit(CreateComment(issue_id=issue_id, body=body))
        comment_id: UUID = view.id
        return comment_id

    async def add_rule(
        self, issue_id: UUID, agent_id: UUID, instruction: str, **fields: Any
    ) -> RuleView:
        """Leave a wakeup rule; `fields` are those of `RuleDraft`: kind, mode, schedule, filters.

        Only an event rule has to say its mode: the other kinds have one each.
        """
        draft = RuleDraft(agent_id=agent_id, instruction=instruction, **fields)
        view: RuleView = await self.submit(CreateRule(issue_id=issue_id, draft=draft))
        return view

    async def disable_rule(self, rule: RuleView) -> RuleView:
        """Switch a rule off."""
        command = DisableRule(issue_id=rule.issue_id, rule_id=rule.id)
        view: RuleView = await self.submit(command)
        return view

    async def enable_rule(self, rule: RuleView, **fields: Any) -> RuleView:
        """Switch a rule on again as it is now; `fields` are those of `EnableRule`."""
        stored = await self.world.rule(rule)
        command = EnableRule(
            issue_id=rule.issue_id, rule_id=rule.id, revision=stored.revision, **fields
        )
        view: RuleView = await self.submit(command)
        return view
