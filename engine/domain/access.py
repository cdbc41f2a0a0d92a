"""Who may read, manage and invoke, and what others see of a private agent.

Pure predicates over a principal and what was read in the caller's transaction; authority is
never kept beyond it (W-196). Reading never grants the right to manage or to invoke (W-191).
The database's `may_invoke` says the same of a person and an agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from uuid import UUID

import attrs

from engine.domain.filters import FilterActor
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.domain.records import Rule


class Visibility(StrEnum):
    """Who may see and invoke an agent: every member, or its owner and the named people."""

    WORKSPACE = "workspace"
    PRIVATE = "private"


@attrs.frozen(kw_only=True)
class AgentAccess:
    """What decides access to one agent; `invokers` are ids of users."""

    id: UUID
    workspace_id: UUID
    visibility: Visibility
    owner_id: UUID
    invokers: frozenset[UUID] = frozenset()

    def admits(self, person_id: UUID) -> bool:
        """Whether a member of the workspace with this user id may see and invoke the agent."""
        return (
            self.visibility is Visibility.WORKSPACE
            or person_id == self.owner_id
            or person_id in self.invokers
        )


def may_read(principal: Principal, workspace_id: UUID) -> bool:
    """Whether the caller may read the issues of a workspace; if not, they do not exist (W-191).

    Members read their workspaces and runs their own one. A daemon has its own routes only.
    """
    return principal.kind is not PrincipalKind.DAEMON and workspace_id in principal.workspace_ids


def is_administrator(principal: Principal, workspace_id: UUID) -> bool:
    """Whether the person behind the call owns or administrates the workspace."""
    return principal.roles.get(workspace_id) in {Role.OWNER, Role.ADMIN}


def may_manage(principal: Principal, workspace_id: UUID, created_by: UUID) -> bool:
    """Whether the caller may change a rule: its creator, or an owner or admin (W-022, W-191).

    Decided by the person behind the call, who must still be a member.
    """
    if not may_read(principal, workspace_id) or workspace_id not in principal.roles:
        return False
    return principal.person_id == created_by or is_administrator(principal, workspace_id)


def may_invoke(principal: Principal, agent: AgentAccess) -> bool:
    """Whether the person behind the call may wake the agent (W-012, W-191).

    Roles do not help: an admin cannot invoke a private agent that does not admit them (W-022).
    """
    person = principal.person_id
    return (
        person is not None
        and principal.kind is not PrincipalKind.DAEMON
        and agent.workspace_id in principal.roles
        and agent.admits(person)
    )


def may_see_agent(principal: Principal, agent: AgentAccess) -> bool:
    """Whether ids and names of the agent may be shown to the caller (W-194).

    A run sees its own agent, and whatever the person behind it sees.
    """
    if not may_read(principal, agent.workspace_id):
        return False
    if agent.visibility is Visibility.WORKSPACE or principal.agent_id == agent.id:
        return True
    return may_invoke(principal, agent)


def visible_agents(principal: Principal, agents: Iterable[AgentAccess]) -> frozenset[UUID]:
    """Return the ids of the agents that the caller may see."""
    return frozenset(agent.id for agent in agents if may_see_agent(principal, agent))


@attrs.frozen(kw_only=True)
class SourceReferences:
    """What a rule says about other agents: its filters, and who registered it.

    `filter_task_agent_id` is the agent of the watched run, `source_agent_id` the agent of the
    registering run; both are read beside the rule. Names are those of the ids.
    """

    filter_agent_id: UUID | None = None
    filter_agent_name: str | None = None
    filter_task_id: UUID | None = None
    filter_task_agent_id: UUID | None = None
    filter_actor_type: str | None = None
    filter_actor_id: UUID | None = None
    filter_actor_name: str | None = None
    source_task_id: UUID | None = None
    source_agent_id: UUID | None = None
    source_agent_name: str | None = None


def references_of(
    rule: Rule,
    *,
    filter_agent_name: str | None = None,
    filter_task_agent_id: UUID | None = None,
    filter_actor_name: str | None = None,
    source_agent_id: UUID | None = None,
    source_agent_name: str | None = None,
) -> SourceReferences:
    """Collect the references of a rule, together with what was read beside it."""
    return SourceReferences(
        filter_agent_id=rule.filter_agent_id,
        filter_agent_name=filter_agent_name,
        filter_task_id=rule.filter_task_id,
        filter_task_agent_id=filter_task_agent_id,
        filter_actor_type=rule.filter_actor_type,
        filter_actor_id=rule.filter_actor_id,
        filter_actor_name=filter_actor_name,
        source_task_id=rule.source_task_id,
        source_agent_id=source_agent_id,
        source_agent_name=source_agent_name,
    )


def redact(references: SourceReferences, visible: frozenset[UUID]) -> SourceReferences:
    """Return the references without ids and names of agents outside `visible` (W-194).

    The kind of a filtered actor stays, so that a page can say "the selected agent" (W-060). A run
    goes with its agent; a watched run of an agent that was not read is hidden.
    """
    result = references
    if result.filter_agent_id is not None and result.filter_agent_id not in visible:
        result = attrs.evolve(result, filter_agent_id=None, filter_agent_name=None)
    if result.filter_actor_type == FilterActor.AGENT and result.filter_actor_id not in visible:
        result = attrs.evolve(result, filter_actor_id=None, filter_actor_name=None)
    if result.filter_task_id is not None and result.filter_task_agent_id not in visible:
        result = attrs.evolve(result, filter_task_id=None, filter_task_agent_id=None)
    if result.source_task_id is not None and result.source_agent_id not in visible:
        result = attrs.evolve(
            result, source_task_id=None, source_agent_id=None, source_agent_name=None
        )
    return result
