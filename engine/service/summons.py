"""Agents that a change calls to work: by an assignment, a mention or a reply."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from engine.domain.issue_drafts import IssueDraft
from engine.domain.principal import PrincipalKind
from engine.errors import WakefulError, invalid
from engine.service.agents import member_behind
from engine.service.enqueue import OrdinaryRun, RunReason, enqueue_run
from engine.service.registry import Work
from engine.storage import queries

_agents: Final = queries.load("agents")
_members: Final = queries.load("members")


async def check_assignee(work: Work, workspace_id: UUID, draft: IssueDraft) -> UUID | None:
    """Check that the assignee of `draft` is there; return the agent that an assignment calls.

    Nobody is called where the person behind the call may not invoke the agent, and an agent
    without a runtime is not. Locks the assignee KEY SHARE. Raises 400 for an assignee that the
    caller cannot see, and `agent_unavailable` for an archived agent.
    """
    if draft.assignee_id is None:
        return None
    person = member_behind(work, workspace_id)
    if draft.assignee_type == "member":
        if not await work.session.fetchval(_members.is_member, workspace_id, draft.assignee_id):
            raise invalid("assignee_id", "there is no such member; it is the id of the user")
        return None
    row = await work.session.fetchrow(
        _agents.assignable, workspace_id, draft.assignee_id, person, work.caller.agent_id
    )
    if row is None:
        raise invalid("assignee_id", "there is no such agent")
    if row["is_archived"]:
        raise invalid("assignee_id", "the agent is archived", code="agent_unavailable")
    return draft.assignee_id if row["may_invoke"] and row["has_runtime"] else None


async def summon(
    work: Work,
    agent_id: UUID,
    issue_id: UUID,
    reason: RunReason,
    *,
    comment_id: UUID | None = None,
) -> None:
    """Queue an ordinary run of an agent with the authority of the person behind the call.

    An agent that has just become unavailable is passed over: the change itself stands.
    """
    is_run = work.caller.kind is PrincipalKind.RUN
    draft = OrdinaryRun(
        agent_id=agent_id,
        issue_id=issue_id,
        reason=reason,
        trigger_comment_id=comment_id,
        originator_user_id=work.caller.person_id,
        originator_source="delegation" if is_run else "direct_human",
        delegated_from_task_id=work.caller.run_id,
    )
    try:
        await enqueue_run(work, draft)
    except WakefulError as error:
        if error.code != "agent_unavailable":
            raise
