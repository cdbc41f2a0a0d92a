"""Use cases of squads. Every member makes, changes and retires them.

The leader is an agent that whoever names it may see, and can work; it runs what the squad is
assigned (`summons`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.catalogue import (
    ArchiveSquad,
    CreateSquad,
    GetSquad,
    ListSquads,
    SquadMember,
    UnarchiveSquad,
    UpdateSquad,
)
from engine.domain.views import Page
from engine.domain.views.catalogue import SquadMemberView, SquadView
from engine.errors import invalid
from engine.service import standing
from engine.service.agents import member_behind
from engine.service.catalogue import manage_entry, one_of_a_name, read_entry
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("squads")
_agents: Final = queries.load("agents")
_members: Final = queries.load("members")
_NAME_INDEX: Final = "squad_workspace_name_idx"
_WHAT: Final = "squad"
_MEMBER_TYPES: Final = ("member", "agent")


@serves(ListSquads)
async def list_squads(work: Work, query: ListSquads) -> Page[SquadView]:
    """Return the squads of a workspace."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session, _sql.list, workspace_id, limit=query.limit, offset=query.offset
    )
    return Page(items=await _views(work.session, rows), total=total)


@serves(GetSquad)
async def get_squad(work: Work, query: GetSquad) -> SquadView:
    """Return one squad. Raises 404."""
    return await _read(work, query.squad_id)


@serves(CreateSquad)
async def create_squad(work: Work, command: CreateSquad) -> SquadView:
    """Make a squad.

    Locks its agents KEY SHARE. Raises 403 for a run, 404, 400 for a field, `agent_unavailable` for
    an archived leader, 409 for a taken name.
    """
    standing.require_person(work)
    place = await standing.stand_in(work, command.workspace_id)
    name = fields.line("name", command.name)
    instructions = _instructions(command.instructions)
    await _require_leader(work, place.workspace_id, command.leader_id)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        squad_id: UUID = await work.session.fetchval(
            _sql.insert, place.workspace_id, name, command.leader_id, instructions
        )
    await _set_members(work, place.workspace_id, squad_id, command.members)
    return await _read(work, squad_id)


@serves(UpdateSquad)
async def update_squad(work: Work, command: UpdateSquad) -> SquadView:
    """Change a squad; what is not sent stays. Locks it NO KEY UPDATE. Raises as above."""
    workspace_id, row = await _manage(work, command.squad_id)
    name, leader_id, instructions = row["name"], row["leader_id"], row["instructions"]
    if command.name is not UNSET:
        name = fields.line("name", command.name)
    if command.instructions is not UNSET:
        instructions = _instructions(command.instructions)
    if command.leader_id is not UNSET and command.leader_id != leader_id:
        leader_id = command.leader_id
        await _require_leader(work, workspace_id, leader_id)
    with one_of_a_name(_NAME_INDEX, _WHAT):
        await work.session.execute(_sql.update, command.squad_id, name, leader_id, instructions)
    if command.members is not UNSET:
        await _set_members(work, workspace_id, command.squad_id, command.members)
    return await _read(work, command.squad_id)


@serves(ArchiveSquad)
async def archive_squad(work: Work, command: ArchiveSquad) -> SquadView:
    """Retire a squad: issues keep it, no other gets it. Locks and raises as above."""
    await _manage(work, command.squad_id)
    await work.session.execute(_sql.archive, command.squad_id)
    return await _read(work, command.squad_id)


@serves(UnarchiveSquad)
async def unarchive_squad(work: Work, command: UnarchiveSquad) -> SquadView:
    """Take a retired squad back. Locks and raises as above."""
    await _manage(work, command.squad_id)
    await work.session.execute(_sql.unarchive, command.squad_id)
    return await _read(work, command.squad_id)


# --- Who is in it -------------------------------------------------------------------------------


async def _require_leader(work: Work, workspace_id: UUID, agent_id: UUID) -> None:
    """Check that the caller may make this agent a leader, and hold it against removal."""
    row = await work.session.fetchrow(
        _agents.assignable,
        workspace_id,
        agent_id,
        member_behind(work, workspace_id),
        work.caller.agent_id,
    )
    if row is None:
        raise invalid("leader_id", "there is no such agent")
    if row["is_archived"]:
        raise invalid("leader_id", "the agent is archived", code="agent_unavailable")


async def _set_members(
    work: Work, workspace_id: UUID, squad_id: UUID, members: Sequence[SquadMember]
) -> None:
    """Replace the members of a squad, each of whom the caller must see; twice counts once."""
    wanted = list(dict.fromkeys(members))
    if len(wanted) > limits.SQUAD_MEMBERS_MAX:
        raise invalid("members", f"a squad has at most {limits.SQUAD_MEMBERS_MAX} members")
    for each in wanted:
        fields.choice("members.type", each.type, _MEMBER_TYPES)
    people = [each.id for each in wanted if each.type == "member"]
    agents = [each.id for each in wanted if each.type == "agent"]
    if await work.session.fetchval(_members.count_members, workspace_id, people) != len(people):
        raise invalid("members", "a member is named by the user id of a member of the workspace")
    seen = await work.session.fetch(
        _agents.visible,
        workspace_id,
        agents,
        member_behind(work, workspace_id),
        work.caller.agent_id,
    )
    if len(seen) != len(agents):
        raise invalid("members", "there is no such agent")
    await work.session.execute(_sql.remove_members, squad_id)
    await work.session.execute(
        _sql.add_members,
        squad_id,
        [each.type for each in wanted],
        [each.id for each in wanted],
    )


def _instructions(value: str) -> str:
    return fields.text("instructions", value, bytes_max=limits.SQUAD_INSTRUCTIONS_BYTES_MAX)


# --- Rows ---------------------------------------------------------------------------------------


async def _manage(work: Work, squad_id: UUID) -> tuple[UUID, Record]:
    place, row = await manage_entry(work, _sql.get, _sql.lock, squad_id, _WHAT)
    return place.workspace_id, row


async def _read(work: Work, squad_id: UUID) -> SquadView:
    row = await read_entry(work, _sql.get, squad_id, _WHAT)
    return (await _views(work.session, [row]))[0]


async def _views(session: Session, rows: Sequence[Record]) -> tuple[SquadView, ...]:
    members = defaultdict(list)
    for each in await session.fetch(_sql.members, [row["id"] for row in rows]):
        members[each["squad_id"]].append(SquadMemberView(type=each["type"], id=each["id"]))
    names = [field.name for field in attrs.fields(SquadView) if field.name != "members"]
    views = []
    for row in rows:
        values: dict[str, Any] = {name: row[name] for name in names}
        views.append(SquadView(**values, members=tuple(members[row["id"]])))
    return tuple(views)
