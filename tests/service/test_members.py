from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from engine.domain.commands.tracker import (
    AddMember,
    Authenticate,
    CreateToken,
    ListMembers,
    RemoveMember,
)
from engine.domain.principal import NOBODY, Principal, Role
from engine.errors import WakefulError
from engine.service.tokens import token_hash
from tests.service.conftest import Executor, Sql, World


async def member_id(execute: Executor, world: World, person: Principal) -> UUID:
    page = await execute(world.o, ListMembers(workspace_id=world.workspace_id))
    found = next(each.id for each in page.items if each.user_id == person.user_id)
    assert isinstance(found, UUID)
    return found


async def test_members_are_listed_by_name(execute: Executor, world: World) -> None:
    """Members see each other, by name, page by page; the total is that of the whole list."""
    workspace = world.workspace_id
    page = await execute(world.n, ListMembers(workspace_id=workspace))
    assert [(each.name, each.role) for each in page.items] == [
        ("G", "admin"),
        ("M", "member"),
        ("N", "member"),
        ("Owner", "owner"),
    ]
    page = await execute(world.n, ListMembers(workspace_id=workspace, limit=1, offset=2))
    assert ([each.name for each in page.items], page.total) == (["N"], 4)
    page = await execute(world.n, ListMembers(workspace_id=workspace, offset=99))
    assert (page.items, page.total) == ((), 4)


@pytest.mark.parametrize(
    ("field", "bounds"),
    [("limit", {"limit": 0}), ("limit", {"limit": 101}), ("offset", {"offset": -1})],
)
async def test_pages_have_bounds(
    execute: Executor, world: World, field: str, bounds: dict[str, int]
) -> None:
    """A page has 1 to 100 items and starts at 0 or later."""
    query = ListMembers(workspace_id=world.workspace_id, **bounds)
    assert await execute.refused(world.m, query, field=field) == "invalid_input"


async def test_a_new_person_gets_a_token_once(execute: Executor, world: World) -> None:
    """Adding a new person answers a token that makes its bearer that member."""
    added = await execute(
        world.g,
        AddMember(
            workspace_id=world.workspace_id, email=" New@Example.COM ", name="New", role="member"
        ),
    )
    assert (added.email, added.name, added.role) == ("new@example.com", "New", Role.MEMBER)
    assert added.token.startswith("wkm_")
    person = await execute.authenticate(added.token)
    assert (person.user_id, dict(person.roles)) == (
        added.user_id,
        {world.workspace_id: Role.MEMBER},
    )


async def test_inviting_somebody_does_not_open_their_other_workspaces(
    execute: Executor, world: World
) -> None:
    """A person known elsewhere joins with the credentials they have: no token is handed out."""
    added = await execute(
        world.g,
        AddMember(
            workspace_id=world.workspace_id, email="s@example.com", name="Other", role="member"
        ),
    )
    assert (added.token, added.name, added.user_id) == (None, "S", world.s.user_id)
    again = await execute.authenticate(world.tokens["s"])
    assert again.roles[world.workspace_id] is Role.MEMBER


@pytest.mark.parametrize(
    ("field", "values", "code"),
    [
        ("email", {"email": "nobody"}, "invalid_input"),
        ("email", {"email": "a b@example.com"}, "invalid_input"),
        ("email", {"email": "M@example.com"}, "conflict"),
        ("name", {"name": ""}, "invalid_input"),
        ("name", {"name": "nul\x00"}, "invalid_input"),
        ("role", {"role": "guest"}, "invalid_input"),
    ],
)
async def test_a_bad_member_is_refused(
    execute: Executor, world: World, field: str, values: dict[str, Any], code: str
) -> None:
    """What cannot be a member is refused, and the field is named; a member again is a conflict."""
    good = AddMember(
        workspace_id=world.workspace_id, email="x@example.com", name="X", role="member"
    )
    command = attrs.evolve(good, **values)
    assert await execute.refused(world.o, command, field=field) == code


async def test_who_may_add_whom(execute: Executor, world: World) -> None:
    """Owners and admins add members, only owners make owners, strangers find no workspace."""

    def adding(role: str) -> AddMember:
        return AddMember(
            workspace_id=world.workspace_id, email="x@example.com", name="X", role=role
        )

    assert await execute.refused(world.m, adding("member")) == "not_allowed"
    assert await execute.refused(world.g, adding("owner")) == "not_allowed"
    assert await execute.refused(world.s, adding("member")) == "not_found"
    assert (await execute(world.o, adding("owner"))).role is Role.OWNER


async def test_who_may_remove_whom(execute: Executor, world: World) -> None:
    """Members leave themselves, admins remove members, nobody but an owner removes an owner."""
    workspace = world.workspace_id

    async def removing(person: Principal) -> RemoveMember:
        found = await member_id(execute, world, person)
        return RemoveMember(workspace_id=workspace, member_id=found)

    assert await execute.refused(world.m, await removing(world.n)) == "not_allowed"
    assert await execute.refused(world.g, await removing(world.o)) == "not_allowed"
    unknown = RemoveMember(workspace_id=workspace, member_id=UUID(int=1))
    assert await execute.refused(world.g, unknown) == "not_found"
    await execute(world.m, await removing(world.m))
    await execute(world.g, await removing(world.n))
    page = await execute(world.o, ListMembers(workspace_id=workspace))
    assert [each.name for each in page.items] == ["G", "Owner"]


async def test_the_last_owner_cannot_go(execute: Executor, world: World) -> None:
    """A workspace keeps an owner: of two who leave at the same time one has to stay."""
    workspace = world.workspace_id
    added = await execute(
        world.o, AddMember(workspace_id=workspace, email="x@example.com", name="X", role="owner")
    )
    second = await execute.authenticate(added.token)
    first_id = await member_id(execute, world, world.o)
    outcomes = []

    async def leave(person: Principal, member: UUID) -> None:
        try:
            await Executor(execute.database)(
                person, RemoveMember(workspace_id=workspace, member_id=member)
            )
            outcomes.append("left")
        except WakefulError as error:
            outcomes.append(error.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave, world.o, first_id)
        nursery.start_soon(leave, second, added.id)
    assert sorted(outcomes) == ["conflict", "left"]


async def test_what_a_person_made_ends_with_their_membership(
    execute: Executor, sql: Sql, world: World
) -> None:
    """Daemon tokens go with the membership; own tokens stay while they open another workspace."""
    workspace = world.workspace_id
    await execute(
        world.g,
        AddMember(workspace_id=workspace, email="s@example.com", name="S", role="member"),
    )
    stranger = await execute.authenticate(world.tokens["s"])
    daemon = await execute(stranger, CreateToken(workspace_id=workspace, name="d", kind="daemon"))
    found = await member_id(execute, world, stranger)
    await execute(world.g, RemoveMember(workspace_id=workspace, member_id=found))
    assert workspace not in (await execute.authenticate(world.tokens["s"])).roles
    command = Authenticate(token_hash=token_hash(daemon.token))
    assert await execute.refused(NOBODY, command) == "not_authenticated"
    assert await sql(
        "SELECT FROM access_token WHERE revoked_at IS NOT NULL AND kind = 'member'"
    ) == ([])


async def test_removing_and_inviting_anew_hands_nobody_over(
    execute: Executor, sql: Sql, world: World
) -> None:
    """Who removes a person and adds them again gets no token of theirs, whoever that is."""
    workspace = world.workspace_id
    for administrator in (world.g, world.o):
        found = await member_id(execute, world, world.n)
        await execute(administrator, RemoveMember(workspace_id=workspace, member_id=found))
        added = await execute(
            administrator,
            AddMember(workspace_id=workspace, email="n@example.com", name="N", role="member"),
        )
        assert (added.user_id, added.role, added.token) == (world.n.user_id, Role.MEMBER, None)
    made = "SELECT FROM access_token WHERE user_id = $1 AND revoked_at IS NULL"
    assert await sql(made, world.n.user_id) == []
