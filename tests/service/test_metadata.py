from __future__ import annotations

from uuid import UUID

import pytest
import trio

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.tracker import (
    CreateIssue,
    GetIssue,
    PatchMetadata,
    UpdateIssue,
)
from tests.service.conftest import Executor, RunOf, Sql, World


async def told(sql: Sql) -> list[list[str]]:
    """Return the keys that timelines name, oldest entry first."""
    rows = await sql(
        "SELECT details FROM activity_log WHERE action = 'issue_metadata_changed'"
        " ORDER BY created_at, id"
    )
    return [row["details"]["changed_fields"] for row in rows]


async def test_a_patch_is_merged(execute: Executor, sql: Sql, world: World) -> None:
    """RFC 7396: what is sent replaces, null removes, objects merge; the result is answered."""
    steps = (
        ({"a": 1, "b": {"c": [1], "d": "e"}}, {"a": 1, "b": {"c": [1], "d": "e"}}, ["a", "b"]),
        ({"a": None, "b": {"c": None, "f": True}}, {"b": {"d": "e", "f": True}}, ["a", "b"]),
        ({"b": 1.5, "z": {"y": None}}, {"b": 1.5, "z": {}}, ["b", "z"]),
    )
    for patch, result, _ in steps:
        command = PatchMetadata(issue_id=world.issue, patch=patch)
        assert await execute(world.m, command) == result
        view = await execute(world.n, GetIssue(issue_id=world.issue))
        assert view.metadata == result
    assert view.revision == 4
    assert await told(sql) == [changed for _, _, changed in steps]


async def test_once_more_changes_nothing(execute: Executor, sql: Sql, world: World) -> None:
    """W-043: a patch that leaves everything as it is is no entry and no new revision."""
    for patch in ({"a": 1, "b": True}, {"a": 1.0}, {"c": None}, {}, {"b": True, "a": 1}):
        command = PatchMetadata(issue_id=world.issue, patch=patch)
        assert await execute(world.m, command) == {"a": 1, "b": True}
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).revision == 2
    await execute(world.m, UpdateIssue(issue_id=world.issue, metadata={"b": True, "a": 1.0}))
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).revision == 2
    assert await told(sql) == [["a", "b"]]


async def test_values_stay_out_of_the_timeline(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-044: however metadata change, entries name keys and who did it, never what is kept."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    secret = "marker-of-a-value"
    await execute(run, PatchMetadata(issue_id=world.issue, patch={"token": secret}))
    await execute(run, UpdateIssue(issue_id=world.issue, metadata={"other": {"token": secret}}))
    assert await told(sql) == [["token"], ["other", "token"]]
    rows = await sql("SELECT to_jsonb(l)::text AS row FROM activity_log l")
    assert all(secret not in row["row"] for row in rows)
    (actor,) = await sql(
        "SELECT DISTINCT actor_type, actor_id FROM activity_log"
        " WHERE action = 'issue_metadata_changed'"
    )
    assert (actor["actor_type"], actor["actor_id"]) == ("agent", world.a)


@pytest.mark.parametrize("field", ["size", "depth", "keys", "key"])
async def test_bounds_hold_wherever_metadata_come_in(
    execute: Executor, world: World, field: str
) -> None:
    """Too large, too deep, too many keys, too long a key: 400 for `metadata`, nothing changes."""
    deep: dict[str, object] = {}
    for _ in range(16):
        deep = {"a": deep}
    values: dict[str, dict[str, object]] = {
        "size": {"a": "x" * 65_536},
        "depth": deep,
        "keys": {str(number): number for number in range(101)},
        "key": {"k" * 101: 1},
    }
    value = values[field]
    for command in (
        CreateIssue(workspace_id=world.workspace_id, title="N", metadata=value),
        UpdateIssue(issue_id=world.issue, metadata=value),
        PatchMetadata(issue_id=world.issue, patch=value),
    ):
        assert await execute.refused(world.m, command, field="metadata") == "invalid_input"
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).metadata == {}


async def test_the_sum_of_patches_is_bounded(execute: Executor, world: World) -> None:
    """It is the result that must be within bounds: patches cannot pile up beyond them."""
    half = "x" * 40_000
    await execute(world.m, PatchMetadata(issue_id=world.issue, patch={"a": half}))
    more = PatchMetadata(issue_id=world.issue, patch={"b": half})
    assert await execute.refused(world.m, more, field="metadata") == "invalid_input"
    swap = PatchMetadata(issue_id=world.issue, patch={"a": None, "b": half})
    assert await execute(world.m, swap) == {"b": half}


async def test_what_somebody_else_stored_does_not_hold_up_the_rest(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An issue whose metadata are out of bounds, by another writer, can still be changed."""
    stored = {str(number): 1 for number in range(101)}
    await sql("UPDATE issue SET metadata = $2 WHERE id = $1", world.issue, stored)
    view = await execute(world.m, UpdateIssue(issue_id=world.issue, title="Renamed"))
    assert (view.title, view.metadata) == ("Renamed", stored)
    left = await execute(world.m, PatchMetadata(issue_id=world.issue, patch={"0": None}))
    assert len(left) == 100


async def test_patches_at_once_lose_nothing(execute: Executor, world: World) -> None:
    """Each patch is merged into what the one before it left, also when they come together."""

    async def patch(number: int) -> None:
        command = PatchMetadata(issue_id=world.issue, patch={str(number): number})
        await Executor(execute.database)(world.m, command)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(patch, number)
    view = await execute(world.m, GetIssue(issue_id=world.issue))
    assert view.metadata == {str(number): number for number in range(6)}


async def test_strangers_find_no_metadata(execute: Executor, world: World) -> None:
    """W-191: whoever may not read the issue gets 404, a daemon 403."""
    command = PatchMetadata(issue_id=world.issue, patch={"a": 1})
    assert await execute.refused(world.s, command) == "not_found"
    assert await execute.refused(world.daemon, command) == "not_allowed"
    unknown = PatchMetadata(issue_id=UUID(int=1), patch={"a": 1})
    assert await execute.refused(world.m, unknown) == "not_found"
