"""Use cases of agents. A private agent does not exist for people whom it does not admit (W-012).

Its owner and the workspace's owners and admins change an agent, if they may see it: their role
alone opens no private agent (W-022).
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.access import Visibility
from engine.domain.commands import UNSET
from engine.domain.commands.tracker import (
    ArchiveAgent,
    CreateAgent,
    GetAgent,
    ListAgents,
    UnarchiveAgent,
    UpdateAgent,
)
from engine.domain.texts import whole_number
from engine.domain.views import Page
from engine.domain.views.tracker import AgentView, RuntimeView
from engine.errors import WakefulError, invalid, not_found
from engine.service import standing
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import ConstraintViolation, Record, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("agents")
_members: Final = queries.load("members")


def member_behind(work: Work, workspace_id: UUID) -> UUID | None:
    """Return the person behind the call while they are a member of the workspace, else None."""
    return work.caller.person_id if workspace_id in work.caller.roles else None


@serves(ListAgents)
async def list_agents(work: Work, query: ListAgents) -> Page[AgentView]:
    """Return the agents that the caller may see."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session,
        _sql.list,
        *_seen_by(work, workspace_id, None),
        limit=query.limit,
        offset=query.offset,
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetAgent)
async def get_agent(work: Work, query: GetAgent) -> AgentView:
    """Return one agent. Raises 404 for one that the caller may not see."""
    standing.refuse_daemon(work)
    return await _read(work, query.agent_id)


@serves(CreateAgent)
async def create_agent(work: Work, command: CreateAgent) -> AgentView:
    """Make an agent that belongs to the calling person.

    Raises 403 for anybody but a person and for a runtime that is not theirs to lend, 404, 400 for
    a field, 409 for a taken name.
    """
    owner_id = standing.require_person(work)
    place = await standing.stand_in(work, command.workspace_id)
    draft = _AgentDraft(
        name=command.name,
        instructions=command.instructions,
        visibility=command.visibility,
        runtime_id=command.runtime_id,
        max_concurrent_tasks=command.max_concurrent_tasks,
    ).checked()
    await _require_runtime(work, place, draft.runtime_id)
    try:
        agent_id = await work.session.fetchval(
            _sql.insert,
            place.workspace_id,
            owner_id,
            draft.name,
            draft.instructions,
            draft.visibility,
            draft.runtime_id,
            draft.max_concurrent_tasks,
        )
    except ConstraintViolation:
        raise _name_taken() from None
    await _set_invokers(work.session, agent_id, place.workspace_id, command.invokers)
    return await _read(work, agent_id)


@serves(UpdateAgent)
async def update_agent(work: Work, command: UpdateAgent) -> AgentView:
    """Change an agent; what is not sent stays. Unclaimed runs follow it to a new runtime.

    Locks the agent NO KEY UPDATE, then those runs. Raises 403, also for a runtime that is not the
    caller's to lend, 404, 400 for a field, 409 for a taken name.
    """
    place, row = await _manage(work, command.agent_id)
    sent = {
        field.name: getattr(command, field.name)
        for field in attrs.fields(_AgentDraft)
        if getattr(command, field.name) is not UNSET
    }
    kept = {field.name: row[field.name] for field in attrs.fields(_AgentDraft)}
    draft = _AgentDraft(**{**kept, **sent}).checked()
    is_moved = draft.runtime_id != row["runtime_id"]
    if is_moved:
        await _require_runtime(work, place, draft.runtime_id)
    try:
        await work.session.execute(
            _sql.update,
            command.agent_id,
            draft.name,
            draft.instructions,
            draft.visibility,
            draft.runtime_id,
            draft.max_concurrent_tasks,
        )
    except ConstraintViolation:
        raise _name_taken() from None
    if draft.runtime_id is not None and is_moved:
        await work.session.execute(_sql.move_runs, command.agent_id, draft.runtime_id)
        work.queued(draft.runtime_id)
    if command.invokers is not UNSET:
        await _set_invokers(work.session, command.agent_id, place.workspace_id, command.invokers)
    return await _read(work, command.agent_id)


@serves(ArchiveAgent)
async def archive_agent(work: Work, command: ArchiveAgent) -> AgentView:
    """Retire an agent: from now on it gets no run, and its queued runs are not handed out."""
    await _manage(work, command.agent_id)
    await work.session.execute(_sql.archive, command.agent_id)
    return await _read(work, command.agent_id)


@serves(UnarchiveAgent)
async def unarchive_agent(work: Work, command: UnarchiveAgent) -> AgentView:
    """Take a retired agent back; what it has missed is not made up for."""
    _, row = await _manage(work, command.agent_id)
    await work.session.execute(_sql.unarchive, command.agent_id)
    work.queued(row["runtime_id"])
    return await _read(work, command.agent_id)


@attrs.frozen(kw_only=True)
class _AgentDraft:
    """The columns of an agent that its people set; `checked` returns them as stored."""

    name: str
    instructions: str
    visibility: str
    runtime_id: UUID | None
    max_concurrent_tasks: int

    def checked(self) -> _AgentDraft:
        return attrs.evolve(
            self,
            name=fields.line("name", self.name),
            instructions=fields.text(
                "instructions", self.instructions, bytes_max=limits.INSTRUCTIONS_BYTES_MAX
            ),
            visibility=fields.choice(
                "visibility", self.visibility, [each.value for each in Visibility]
            ),
            max_concurrent_tasks=whole_number(
                "max_concurrent_tasks",
                self.max_concurrent_tasks,
                low=1,
                high=limits.CONCURRENT_TASKS_MAX,
                code="invalid_input",
            ),
        )


async def _manage(work: Work, agent_id: UUID) -> tuple[standing.Standing, Record]:
    """Return an agent that the caller may change, locked NO KEY UPDATE, and where it stands."""
    user_id = standing.require_person(work)
    workspace_id = (await _read(work, agent_id)).workspace_id
    place = await standing.stand_in(work, workspace_id)
    row = await work.session.fetchrow(_sql.lock, agent_id)
    if row is None:
        raise not_found("agent")
    if row["owner_id"] != user_id:
        standing.require_administrator(place)
    return place, row


async def _require_runtime(work: Work, place: standing.Standing, runtime_id: UUID | None) -> None:
    """Check that the caller may bind an agent to this runtime, whose machine its runs will use.

    That is for the owner of the daemon, and for owners and admins of the workspace: 403.
    """
    if runtime_id is None:
        return
    is_own = await work.session.fetchval(
        _sql.lent_runtime, runtime_id, place.workspace_id, work.caller.user_id
    )
    if is_own is None:
        raise invalid("runtime_id", "there is no such runtime in the workspace")
    if not is_own and not place.is_administrator:
        raise WakefulError(
            "not_allowed",
            "only the owner of its daemon, or an owner or admin, may bind an agent to this runtime",
            field="runtime_id",
        )


async def _set_invokers(
    session: Session, agent_id: UUID, workspace_id: UUID, invokers: tuple[UUID, ...]
) -> None:
    """Replace the people whom a private agent admits; each must be a member."""
    wanted = sorted(set(invokers))
    if len(wanted) > limits.INVOKERS_MAX:
        raise invalid("invokers", f"at most {limits.INVOKERS_MAX} people can be named")
    if await session.fetchval(_members.count_members, workspace_id, wanted) != len(wanted):
        raise invalid("invokers", "each must be the user id of a member")
    await session.execute(_sql.remove_invokers, agent_id, wanted)
    await session.execute(_sql.add_invokers, agent_id, wanted)


def _name_taken() -> WakefulError:
    return WakefulError("conflict", "another agent has this name", field="name")


def _seen_by(work: Work, workspace_id: UUID, agent_id: UUID | None) -> tuple[object, ...]:
    """Return the leading arguments of `agents.list` for this caller."""
    return (
        workspace_id,
        agent_id,
        member_behind(work, workspace_id),
        work.caller.agent_id,
        limits.RUNTIME_OFFLINE_SECONDS,
    )


async def _read(work: Work, agent_id: UUID) -> AgentView:
    workspace_id = await work.session.fetchval(_sql.place, agent_id)
    row = None
    if workspace_id in work.caller.workspace_ids:
        row = await work.session.fetchrow(_sql.list, *_seen_by(work, workspace_id, agent_id), 1, 0)
    if row is None:
        raise not_found("agent")
    return _view(row)


def _view(row: Record) -> AgentView:
    values: dict[str, Any] = {
        name: row[name]
        for name in (
            "id",
            "workspace_id",
            "name",
            "instructions",
            "owner_id",
            "runtime_id",
            "max_concurrent_tasks",
            "archived_at",
            "created_at",
            "updated_at",
        )
    }
    at_work = "working" if row["is_working"] else "idle"
    return AgentView(
        visibility=Visibility(row["visibility"]),
        invokers=tuple(row["invokers"]),
        runtime=_runtime(row),
        status=at_work if row["is_online"] else "offline",
        **values,
    )


def _runtime(row: Record) -> RuntimeView | None:
    if row["runtime_id"] is None:
        return None
    return RuntimeView(
        id=row["runtime_id"],
        name=row["runtime_name"],
        provider=row["provider"],
        status="online" if row["is_online"] else "offline",
        last_seen_at=row["last_seen_at"],
    )
