"""Agents that a change calls to work: by an assignment, to a squad too, a mention or a reply."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from engine.domain.issue_drafts import IssueDraft
from engine.domain.principal import PrincipalKind
from engine.errors import WakefulError, invalid
from engine.service.agents import member_behind
from engine.service.enqueue import OrdinaryRun, RunReason, enqueue_run
from engine.service.registry import Work
from engine.storage import queries

_agents: Final = queries.load("agents")
_members: Final = queries.load("members")
_squads: Final = queries.load("squads")


@attrs.frozen(kw_only=True)
class Called:
    """An agent that an assignment calls; `squad_id` is the squad that it leads, if that is it.

    `note` is what its run is told: for a leader which squad it leads, and how.
    """

    agent_id: UUID
    squad_id: UUID | None = None
    note: str = ""


async def check_assignee(work: Work, workspace_id: UUID, draft: IssueDraft) -> Called | None:
    """Check that the assignee of `draft` is there; return the agent that an assignment calls.

    Nobody is called where the person behind the call may not invoke the agent, and an agent
    without a runtime is not. Locks the assignee KEY SHARE, a squad with its leader. Raises 400 for
    an assignee that the caller cannot see or that is archived, and `agent_unavailable` for an
    archived agent, also one that leads a squad.
    """
    assignee_id = draft.assignee_id
    if assignee_id is None:
        return None
    match draft.assignee_type:
        case "member":
            if not await work.session.fetchval(_members.is_member, workspace_id, assignee_id):
                raise invalid("assignee_id", "there is no such member; it is the id of the user")
            return None
        case "squad":
            return await _check_squad(work, workspace_id, assignee_id)
        case _:
            return await _check_agent(work, workspace_id, assignee_id)


async def _check_agent(work: Work, workspace_id: UUID, agent_id: UUID) -> Called | None:
    row = await work.session.fetchrow(
        _agents.assignable,
        workspace_id,
        agent_id,
        member_behind(work, workspace_id),
        work.caller.agent_id,
    )
    if row is None:
        raise invalid("assignee_id", "there is no such agent")
    if row["is_archived"]:
        raise invalid("assignee_id", "the agent is archived", code="agent_unavailable")
    return Called(agent_id=agent_id) if row["may_invoke"] and row["has_runtime"] else None


async def _check_squad(work: Work, workspace_id: UUID, squad_id: UUID) -> Called | None:
    row = await work.session.fetchrow(
        _squads.assignable, workspace_id, squad_id, member_behind(work, workspace_id)
    )
    if row is None:
        raise invalid("assignee_id", "there is no such squad")
    if row["is_archived"]:
        raise invalid("assignee_id", "the squad is archived")
    if row["has_archived_leader"]:
        raise invalid("assignee_id", "the squad's leader is archived", code="agent_unavailable")
    if not (row["may_invoke"] and row["has_runtime"]):
        return None
    note = f"You lead the squad {row['name']} ({squad_id}) on this issue."
    if instructions := row["instructions"].strip():
        note = f"{note}\n\n{instructions}"
    return Called(agent_id=row["leader_id"], squad_id=squad_id, note=note)


async def summon_assignee(work: Work, called: Called, issue_id: UUID) -> None:
    """Queue the run of the agent that an assignment calls; see `summon`."""
    await _summon(
        work,
        OrdinaryRun(
            agent_id=called.agent_id,
            issue_id=issue_id,
            reason=RunReason.ASSIGNMENT,
            note=called.note,
            squad_id=called.squad_id,
        ),
    )


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
    await _summon(
        work,
        OrdinaryRun(
            agent_id=agent_id, issue_id=issue_id, reason=reason, trigger_comment_id=comment_id
        ),
    )


async def _summon(work: Work, draft: OrdinaryRun) -> None:
    is_run = work.caller.kind is PrincipalKind.RUN
    draft = attrs.evolve(
        draft,
        originator_user_id=work.caller.person_id,
        originator_source="delegation" if is_run else "direct_human",
        delegated_from_task_id=work.caller.run_id,
    )
    try:
        await enqueue_run(work, draft)
    except WakefulError as error:
        if error.code != "agent_unavailable":
            raise
