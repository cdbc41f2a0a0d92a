"""Use cases of members.

Whoever adds a new person gets that person's first token once, to hand over. A person who is known
already keeps the credentials they have, and nobody else is given one: not by inviting the people of
another workspace, nor by removing somebody and adding them again.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from engine.domain import fields
from engine.domain.commands.tracker import AddMember, ListMembers, RemoveMember
from engine.domain.principal import Role
from engine.domain.views import Page
from engine.domain.views.tracker import MemberView, NewMemberView
from engine.errors import WakefulError, not_found
from engine.service import standing, tokens
from engine.service.registry import Work, serves
from engine.service.standing import Standing
from engine.storage import queries
from engine.storage.database import ConstraintViolation, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("members")


@serves(ListMembers)
async def list_members(work: Work, query: ListMembers) -> Page[MemberView]:
    """Return the members of a workspace that the caller may read."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    rows, total = await fetch_page(
        work.session, _sql.list, workspace_id, limit=query.limit, offset=query.offset
    )
    items = tuple(
        MemberView(
            id=row["id"],
            user_id=row["user_id"],
            email=row["email"],
            name=row["name"],
            role=Role(row["role"]),
            created_at=row["created_at"],
        )
        for row in rows
    )
    return Page(items=items, total=total)


@serves(AddMember)
async def add_member(work: Work, command: AddMember) -> NewMemberView:
    """Make somebody a member, for owners and admins; an owner is made by owners only.

    Writes user, membership and token. Raises 403, 404, 400 for a field, 409 for a member.
    """
    standing.require_person(work)
    place = await standing.stand_in(work, command.workspace_id)
    standing.require_administrator(place)
    email = fields.email("email", command.email)
    name = fields.line("name", command.name)
    role = Role(fields.choice("role", command.role, [each.value for each in Role]))
    if role is Role.OWNER:
        _require_owner(place)
    user_id, name, is_new = await find_or_add_person(work.session, email, name)
    try:
        member = await work.session.fetchrow(_sql.insert, place.workspace_id, user_id, role)
    except ConstraintViolation:
        raise WakefulError("conflict", "the person is a member already", field="email") from None
    assert member is not None, "an insert returns its row"
    token = None
    if is_new:
        token = (await tokens.insert_member_token(work.session, user_id, name)).text
    return NewMemberView(
        id=member["id"],
        user_id=user_id,
        email=email,
        name=name,
        role=role,
        created_at=member["created_at"],
        token=token,
    )


async def find_or_add_person(
    session: Session, email: str, name: str, *, instance_admin: bool = False
) -> tuple[UUID, str, bool]:
    """Return id and name of the user with this address, and whether this call made the user."""
    added: UUID | None = await session.fetchval(_sql.insert_person, email, name, instance_admin)
    if added is not None:
        return added, name, True
    row = await session.fetchrow(_sql.find_person, email)
    assert row is not None, "users are never removed"
    return row["id"], row["name"], False


@serves(RemoveMember)
async def remove_member(work: Work, command: RemoveMember) -> None:
    """End a membership: one's own, or for owners and admins another's; an owner's by owners only.

    Daemon tokens that the person made for the workspace end with it, and the person's own tokens
    once no workspace is left that they open. Locks workspace, owners, the member and the caller,
    all before the caller's role is read: of two who remove each other the second finds itself
    outside. Raises 403, 404, and 409 for the last owner.
    """
    user_id = standing.require_person(work)
    workspace_id = standing.read_workspace(work, command.workspace_id)
    rows = await work.session.fetch(_sql.lock_owners, workspace_id, command.member_id, user_id)
    place = await standing.stand_in(work, workspace_id)
    member = next((row for row in rows if row["id"] == command.member_id), None)
    if member is None:
        raise not_found("member")
    if member["user_id"] != user_id:
        standing.require_administrator(place)
        if member["role"] == Role.OWNER:
            _require_owner(place)
    if member["role"] == Role.OWNER and sum(row["role"] == Role.OWNER for row in rows) == 1:
        raise WakefulError("conflict", "the last owner cannot leave", field="member_id")
    await work.session.execute(_sql.delete, command.member_id)
    await tokens.revoke_with_membership(work.session, member["user_id"], place.workspace_id)


def _require_owner(place: Standing) -> None:
    if place.role is not Role.OWNER:
        raise WakefulError("not_allowed", "only an owner may do this to an owner")
