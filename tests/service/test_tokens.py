from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import attrs
import pytest

from engine.domain.commands.tracker import Authenticate, CreateToken, ListTokens, RevokeToken
from engine.domain.principal import NOBODY, PrincipalKind
from engine.service.tokens import token_hash
from tests.service.conftest import Executor, Sql, World


async def test_a_token_is_shown_once_and_works(execute: Executor, world: World) -> None:
    """A new token makes its bearer the person, or a daemon; no list shows it again."""
    workspace = world.workspace_id
    own = await execute(world.m, CreateToken(name="laptop", kind="member"))
    person = await execute.authenticate(own.token)
    assert (person.user_id, person.token_id) == (world.m.user_id, own.id)
    made = await execute(world.m, CreateToken(workspace_id=workspace, name="box", kind="daemon"))
    daemon = await execute.authenticate(made.token)
    assert (daemon.kind, daemon.workspace_id) == (PrincipalKind.DAEMON, workspace)
    assert daemon.daemon_id is None
    page = await execute(world.m, ListTokens(workspace_id=workspace))
    assert [each.name for each in page.items] == ["box", "laptop", "M"]
    assert not hasattr(page.items[0], "token")


async def test_a_token_can_have_an_end(execute: Executor, sql: Sql, world: World) -> None:
    """The lifetime counts from the database's clock, and the token is refused from its end on."""
    made = await execute(world.m, CreateToken(name="short", kind="member", expires_in_seconds=60))
    assert made.expires_at - made.created_at == pytest.approx(
        timedelta(seconds=60), abs=timedelta(seconds=1)
    )
    assert (await execute.authenticate(made.token)).token_id == made.id
    await sql("UPDATE access_token SET expires_at = wakeful_now() WHERE id = $1", made.id)
    command = Authenticate(token_hash=token_hash(made.token))
    assert await execute.refused(NOBODY, command) == "not_authenticated"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", {"name": " "}),
        ("kind", {"kind": "run"}),
        ("expires_in_seconds", {"expires_in_seconds": 0}),
        ("expires_in_seconds", {"expires_in_seconds": True}),
        ("expires_in_seconds", {"expires_in_seconds": 10**9}),
    ],
)
async def test_a_bad_token_is_refused(
    execute: Executor, world: World, field: str, values: dict[str, Any]
) -> None:
    """A token needs a name, a kind that people may make, and a lifetime of at least a second."""
    command = attrs.evolve(CreateToken(name="n", kind="member"), **values)
    assert await execute.refused(world.m, command, field=field) == "invalid_input"


async def test_everybody_ends_their_own_tokens(execute: Executor, world: World) -> None:
    """A revoked token is refused at once; nobody ends another person's, not even an owner."""
    own = await execute(world.m, CreateToken(name="laptop", kind="member"))
    command = RevokeToken(token_id=own.id)
    for other in (world.n, world.g, world.o, world.s):
        assert await execute.refused(other, command) == "not_found"
    await execute(world.m, command)
    assert await execute.refused(NOBODY, Authenticate(token_hash=token_hash(own.token))) == (
        "not_authenticated"
    )
    assert await execute.refused(world.m, command) == "not_found"
    assert await execute.refused(world.m, RevokeToken(token_id=UUID(int=1))) == "not_found"


async def test_daemon_tokens_are_the_workspaces_business(execute: Executor, world: World) -> None:
    """Admins see and end every daemon token of their workspace, members those that they made."""
    workspace = world.workspace_id
    made = await execute(world.m, CreateToken(workspace_id=workspace, name="box", kind="daemon"))
    assert [t.name for t in (await execute(world.n, ListTokens(workspace_id=workspace))).items] == [
        "N"
    ]
    assert [t.name for t in (await execute(world.g, ListTokens(workspace_id=workspace))).items] == [
        "box",
        "G",
        "first start",
    ]
    command = RevokeToken(token_id=made.id)
    assert await execute.refused(world.n, command) == "not_found"
    assert await execute.refused(world.s, command) == "not_found"
    await execute(world.g, command)
    assert await execute.refused(NOBODY, Authenticate(token_hash=token_hash(made.token))) == (
        "not_authenticated"
    )
