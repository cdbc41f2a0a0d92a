from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from engine.domain.commands.tracker import (
    CreateComment,
    CreateIssue,
    CreateWorkspace,
    DeleteWorkspace,
    FindWorkspace,
    GetWorkspace,
    ListWorkspaces,
    UpdateWorkspace,
)
from engine.domain.principal import Role
from engine.errors import WakefulError
from tests.service.conftest import Executor, RunOf, Sql, World


async def test_the_creator_owns_a_new_workspace(execute: Executor, world: World) -> None:
    """Whoever makes a workspace becomes its owner."""
    made = await execute(
        world.m, CreateWorkspace(name=" Second ", slug="second-1", issue_prefix="SE")
    )
    assert (made.name, made.slug, made.issue_prefix, made.settings) == (
        "Second",
        "second-1",
        "SE",
        {},
    )
    again = await execute.authenticate(world.tokens["m"])
    assert again.roles[made.id] is Role.OWNER
    listed = await execute(again, ListWorkspaces())
    assert [each.slug for each in listed.items] == ["main", "second-1"]
    assert listed.total == 2


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", {"name": "  "}),
        ("name", {"name": "two\nlines"}),
        ("slug", {"slug": "Upper"}),
        ("slug", {"slug": "a--b"}),
        ("slug", {"slug": "0198f2f0-0000-7000-8000-000000000000"}),
        ("issue_prefix", {"issue_prefix": "wf"}),
        ("issue_prefix", {"issue_prefix": "ABCDEFGHIJK"}),
    ],
)
async def test_a_bad_field_is_named(
    execute: Executor, world: World, field: str, values: dict[str, Any]
) -> None:
    """A workspace that cannot be stored is refused, and the field is named."""
    good = CreateWorkspace(name="N", slug="ok", issue_prefix="OK")
    command = attrs.evolve(good, **values)
    assert await execute.refused(world.m, command, field=field) == "invalid_input"


async def test_a_slug_is_taken_once(execute: Executor, world: World) -> None:
    """The second workspace with a slug is a conflict."""
    command = CreateWorkspace(name="Main", slug="main", issue_prefix="MA")
    assert await execute.refused(world.m, command, field="slug") == "conflict"


async def test_settings_are_changed_key_by_key(execute: Executor, world: World) -> None:
    """A key that is sent replaces that setting, null removes it, others stay; members may not."""
    workspace = world.workspace_id
    for settings in ({"kept": 1, "gone": True}, {"gone": None, "new": [1]}):
        view = await execute(world.g, UpdateWorkspace(workspace_id=workspace, settings=settings))
    assert view.settings == {"kept": 1, "new": [1]}
    view = await execute(world.g, UpdateWorkspace(workspace_id=workspace, name="Renamed"))
    assert (view.name, view.settings) == ("Renamed", {"kept": 1, "new": [1]})
    command = UpdateWorkspace(workspace_id=workspace, name="Mine")
    assert await execute.refused(world.m, command) == "not_allowed"
    assert (await execute(world.m, GetWorkspace(workspace_id=workspace))).name == "Renamed"


async def test_a_workspace_is_found_by_slug_and_id(execute: Executor, world: World) -> None:
    """The header takes slug or id, of the caller's own workspaces only; a daemon's is its one."""
    for caller in (world.m, world.daemon):
        for ref in ("main", str(world.workspace_id), str(world.workspace_id).upper()):
            assert await execute(caller, FindWorkspace(ref=ref)) == world.workspace_id
        for ref in ("elsewhere", "nowhere", str(UUID(int=1))):
            assert await execute.refused(caller, FindWorkspace(ref=ref)) == "not_found"


async def test_strangers_learn_nothing(execute: Executor, world: World) -> None:
    """W-191: to whoever is no member, a workspace does not exist."""
    workspace = world.workspace_id
    for command in (
        GetWorkspace(workspace_id=workspace),
        UpdateWorkspace(workspace_id=workspace, name="Mine"),
        DeleteWorkspace(workspace_id=workspace),
    ):
        assert await execute.refused(world.s, command) == "not_found"


RULE = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous',"
    " '{comment.created}') RETURNING id"
)
LEFT_OVER = (
    "SELECT t.name, t.rows FROM (VALUES"
    " ('workspace', (SELECT count(*) FROM workspace WHERE id = $1)),"
    " ('member', (SELECT count(*) FROM member WHERE workspace_id = $1)),"
    " ('token', (SELECT count(*) FROM access_token WHERE workspace_id = $1)),"
    " ('daemon', (SELECT count(*) FROM daemon WHERE workspace_id = $1)),"
    " ('runtime', (SELECT count(*) FROM agent_runtime WHERE workspace_id = $1)),"
    " ('agent', (SELECT count(*) FROM agent WHERE workspace_id = $1)),"
    " ('issue', (SELECT count(*) FROM issue WHERE workspace_id = $1)),"
    " ('comment', (SELECT count(*) FROM comment WHERE workspace_id = $1)),"
    " ('activity', (SELECT count(*) FROM activity_log WHERE workspace_id = $1)),"
    " ('rule', (SELECT count(*) FROM issue_wakeup WHERE workspace_id = $1)),"
    " ('receipt', (SELECT count(*) FROM issue_wakeup_receipt)),"
    " ('run', (SELECT count(*) FROM agent_task_queue)),"
    " ('run token', (SELECT count(*) FROM task_token WHERE workspace_id = $1))"
    ") t (name, rows) WHERE t.rows > 0"
)


async def test_deleting_a_workspace_leaves_nothing(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-189: with a workspace go its issues, rules, receipts, runs and credentials; only owners."""
    await run_of(world.a, world.issue, world.m.user_id)
    await sql(RULE, world.workspace_id, world.issue, world.a, world.m.user_id)
    await execute(world.m, CreateComment(issue_id=world.issue, body="@A @B look"))
    assert len(await sql("SELECT FROM issue_wakeup_receipt")) == 1
    command = DeleteWorkspace(workspace_id=world.workspace_id)
    assert await execute.refused(world.g, command) == "not_allowed"
    await execute(world.o, command)
    assert await sql(LEFT_OVER, world.workspace_id) == []
    assert (await execute.authenticate(world.tokens["m"])).roles == {}
    assert await execute.refused(world.o, command) == "not_found"


async def test_a_workspace_is_deleted_while_others_write(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-189, W-190: under load deleting ends in nothing left, and writers in 404, never in 500."""
    await sql(RULE, world.workspace_id, world.issue, world.a, world.m.user_id)
    written = 0
    refusals = set()
    gone = trio.Event()
    under_way = trio.Event()

    async def write(body: str) -> None:
        nonlocal written
        while not gone.is_set():
            writer = Executor(execute.database)
            try:
                await writer(world.m, CreateComment(issue_id=world.issue, body=body))
                await writer(world.m, CreateIssue(workspace_id=world.workspace_id, title="More"))
            except WakefulError as error:
                refusals.add(error.code)
                return
            written += 1
            if written >= 6:
                under_way.set()

    async with trio.open_nursery() as nursery:
        for body in ("hello", "@A please", "@B please"):
            nursery.start_soon(write, body)
        await under_way.wait()
        deleter = Executor(execute.database)
        await deleter(world.o, DeleteWorkspace(workspace_id=world.workspace_id))
        gone.set()
    assert written >= 6
    assert refusals == {"not_found"}
    assert await sql(LEFT_OVER, world.workspace_id) == []
