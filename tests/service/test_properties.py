from __future__ import annotations

from typing import Any
from uuid import UUID

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.catalogue import (
    ArchiveProperty,
    CreateProperty,
    UnarchiveProperty,
    UpdateProperty,
)
from engine.domain.commands.tracker import ClearProperty, GetIssue, SetProperty
from engine.domain.views.catalogue import PropertyView
from tests.service.conftest import Executor, RunOf, Sql, World


async def property_of(
    execute: Executor, world: World, kind: str = "text", *options: str
) -> PropertyView:
    """Return a property named after its type."""
    config = {"options": list(options)} if options else {}
    view = await execute(
        world.m,
        CreateProperty(workspace_id=world.workspace_id, name=kind, type=kind, config=config),
    )
    assert isinstance(view, PropertyView)
    return view


def setting(prop: PropertyView, issue_id: UUID, value: Any) -> SetProperty:
    return SetProperty(issue_id=issue_id, property_id=prop.id, value=value)


async def test_values_stand_on_their_issue(execute: Executor, world: World) -> None:
    """A value of each type is kept as JSON under the property's id; the next one replaces it."""
    wanted: dict[str, Any] = {}
    for kind, options, first, second in (
        ("text", (), "one", "two"),
        ("number", (), 1, 1.5),
        ("boolean", (), True, False),
        ("date", (), "2030-01-01", "2030-01-02"),
        ("select", ("low", "high"), "low", "high"),
        ("multi_select", ("a", "b", "c"), ["b"], ["a", "c"]),
    ):
        prop = await property_of(execute, world, kind, *options)
        assert (prop.type, prop.archived_at) == (kind, None)
        for value in (first, second):
            await execute(world.n, setting(prop, world.issue, value))
        wanted[str(prop.id)] = second
    view = await execute(world.m, GetIssue(issue_id=world.issue))
    assert repr(sorted(view.properties.items())) == repr(sorted(wanted.items()))
    assert view.revision == 13


async def test_once_more_changes_nothing(execute: Executor, sql: Sql, world: World) -> None:
    """W-043: the same value again, and clearing nothing, is no entry and no new revision."""
    prop = await property_of(execute, world, "number")
    for value in (1, 1, 1.0):
        await execute(world.m, setting(prop, world.issue, value))
    clear = ClearProperty(issue_id=world.issue, property_id=prop.id)
    for _ in range(2):
        await execute(world.m, clear)
    view = await execute(world.m, GetIssue(issue_id=world.issue))
    assert (view.properties, view.revision) == ({}, 3)
    entries = await sql("SELECT * FROM activity_log WHERE action = 'issue_property_changed'")
    assert [each["actor_id"] for each in entries] == 2 * [world.m.user_id]
    assert [each["details"] for each in entries] == 2 * [
        {"property_id": str(prop.id), "name": "number"}
    ]


async def test_a_value_stays_out_of_the_timeline(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-044: an entry names the property and who changed it, a run's agent too, never the value."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    prop = await property_of(execute, world)
    await execute(run, setting(prop, world.issue, "marker-of-a-value"))
    (entry,) = await sql("SELECT * FROM activity_log WHERE action = 'issue_property_changed'")
    assert (entry["actor_type"], entry["actor_id"]) == ("agent", world.a)
    rows = await sql("SELECT to_jsonb(l)::text AS row FROM activity_log l")
    assert all("marker-of-a-value" not in row["row"] for row in rows)


async def test_a_value_is_judged_by_its_property_as_it_is_now(
    execute: Executor, world: World
) -> None:
    """A bad value is 400 for `value`; one whose option has gone stays, and is not given again."""
    prop = await property_of(execute, world, "select", "low", "high")
    for value in ("LOW", 1, None, ["low"], True):
        command = setting(prop, world.issue, value)
        assert await execute.refused(world.m, command, field="value") == "invalid_input"
    await execute(world.m, setting(prop, world.issue, "low"))
    view = await execute(world.m, UpdateProperty(property_id=prop.id, config={"options": ["high"]}))
    assert (view.name, view.type, view.config) == ("select", "select", {"options": ["high"]})
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).properties == {
        str(prop.id): "low"
    }
    command = setting(prop, world.other_issue, "low")
    assert await execute.refused(world.m, command, field="value") == "invalid_input"


async def test_a_bad_definition_is_named(execute: Executor, world: World) -> None:
    """An unknown type, and a configuration that does not go with the type, is 400 by its field."""
    prop = await property_of(execute, world)
    for field, values in (
        ("type", {"type": "texts"}),
        ("config", {"config": {"options": ["a"]}}),
        ("config", {"type": "select"}),
        ("config", {"type": "select", "config": {"options": ["a", "a"]}}),
    ):
        command = CreateProperty(workspace_id=world.workspace_id, name="N", **values)
        assert await execute.refused(world.m, command, field=field) == "invalid_input"
    change = UpdateProperty(property_id=prop.id, config={"options": ["a"]})
    assert await execute.refused(world.m, change, field="config") == "invalid_input"


async def test_an_archived_property_is_only_cleared(execute: Executor, world: World) -> None:
    """Values of an archived property stay and can be taken away; none is set until it is back."""
    prop = await property_of(execute, world)
    await execute(world.m, setting(prop, world.issue, "kept"))
    await execute(world.m, ArchiveProperty(property_id=prop.id))
    command = setting(prop, world.issue, "new")
    assert await execute.refused(world.m, command, field="property_id") == "invalid_input"
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).properties != {}
    await execute(world.m, ClearProperty(issue_id=world.issue, property_id=prop.id))
    assert (await execute(world.m, GetIssue(issue_id=world.issue))).properties == {}
    await execute(world.m, UnarchiveProperty(property_id=prop.id))
    await execute(world.m, command)


async def test_what_is_not_there_is_not_found(execute: Executor, world: World) -> None:
    """W-191: an issue, or a property, of another workspace is 404, for strangers and members."""
    prop = await property_of(execute, world)
    foreign = await execute(world.s, CreateProperty(name="Theirs"))
    for caller, issue_id, property_id in (
        (world.s, world.issue, prop.id),
        (world.s, world.issue, foreign.id),
        (world.m, world.issue, foreign.id),
        (world.m, world.issue, UUID(int=1)),
        (world.m, UUID(int=1), prop.id),
    ):
        about: dict[str, Any] = {"issue_id": issue_id, "property_id": property_id}
        for command in (SetProperty(**about, value="x"), ClearProperty(**about)):
            assert await execute.refused(caller, command) == "not_found"


async def test_an_issue_holds_only_so_much(execute: Executor, sql: Sql, world: World) -> None:
    """All values of an issue have at most 65,536 bytes: the one that is too many is refused."""
    rows = await sql(
        "INSERT INTO issue_property (workspace_id, name)"
        " SELECT $1, 'P' || n FROM generate_series(1, 16) n RETURNING id",
        world.workspace_id,
    )
    filled = {str(row["id"]): "x" * 4_000 for row in rows}
    await sql("UPDATE issue SET properties = $2 WHERE id = $1", world.issue, filled)
    prop = await property_of(execute, world)
    command = setting(prop, world.issue, "x" * 4_000)
    assert await execute.refused(world.m, command, field="value") == "invalid_input"
    await execute(world.m, setting(prop, world.issue, "short"))
    view = await execute(world.m, GetIssue(issue_id=world.issue))
    assert view.properties == {**filled, str(prop.id): "short"}
