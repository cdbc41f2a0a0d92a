"""What statuses, squads, labels, properties and projects have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import attrs

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands import Command, Query, catalogue
from engine.domain.principal import Principal
from tests.service.conftest import Executor, RunOf, World


@attrs.frozen
class Sort:
    """A sort of entries: what makes a small one, and the commands about one by its id."""

    name: str
    make: Callable[[World, str], Any]
    listed: type[Any]
    get: type[Query]
    update: type[Command]
    archive: type[Command] | None
    unarchive: type[Command] | None
    by_administrators: bool = False
    by_runs: bool = False

    def about(self, command: type[Any], entry_id: UUID, **fields: Any) -> Any:
        """Return a command about one entry."""
        return command(**{f"{self.name}_id": entry_id}, **fields)

    def changes(self, entry_id: UUID) -> list[Any]:
        """Return every change of an entry that there is."""
        rest = [each for each in (self.archive, self.unarchive) if each is not None]
        if not rest:
            rest = [catalogue.DeleteLabel]
        return [
            self.about(self.update, entry_id, name="Changed"),
            *(self.about(each, entry_id) for each in rest),
        ]

    def __str__(self) -> str:
        return self.name


def _status(world: World, name: str) -> Command:
    key = re.sub(r"\W+", "_", name.strip().lower())
    return catalogue.CreateStatus(
        workspace_id=world.workspace_id, key=key, name=name, category="todo"
    )


def _squad(world: World, name: str) -> Command:
    return catalogue.CreateSquad(workspace_id=world.workspace_id, name=name, leader_id=world.a)


SORTS: Final = (
    Sort(
        "status",
        _status,
        catalogue.ListStatuses,
        catalogue.GetStatus,
        catalogue.UpdateStatus,
        catalogue.ArchiveStatus,
        catalogue.UnarchiveStatus,
        by_administrators=True,
    ),
    Sort(
        "squad",
        _squad,
        catalogue.ListSquads,
        catalogue.GetSquad,
        catalogue.UpdateSquad,
        catalogue.ArchiveSquad,
        catalogue.UnarchiveSquad,
    ),
    Sort(
        "label",
        lambda world, name: catalogue.CreateLabel(workspace_id=world.workspace_id, name=name),
        catalogue.ListLabels,
        catalogue.GetLabel,
        catalogue.UpdateLabel,
        None,
        None,
        by_runs=True,
    ),
    Sort(
        "property",
        lambda world, name: catalogue.CreateProperty(workspace_id=world.workspace_id, name=name),
        catalogue.ListProperties,
        catalogue.GetProperty,
        catalogue.UpdateProperty,
        catalogue.ArchiveProperty,
        catalogue.UnarchiveProperty,
    ),
    Sort(
        "project",
        lambda world, name: catalogue.CreateProject(workspace_id=world.workspace_id, name=name),
        catalogue.ListProjects,
        catalogue.GetProject,
        catalogue.UpdateProject,
        catalogue.ArchiveProject,
        catalogue.UnarchiveProject,
    ),
)


async def names_of(execute: Executor, caller: Principal, sort: Sort, **page: int) -> list[str]:
    """Return the names of a list, without the built-in statuses."""
    found = await execute(caller, sort.listed(**page))
    return [each.name for each in found.items if getattr(each, "id", None) is not None]


async def test_an_entry_is_made_read_and_changed(execute: Executor, world: World) -> None:
    """An entry has what was sent, is read by every member, and keeps what a change leaves out."""
    for sort in SORTS:
        made = await execute(world.g, sort.make(world, " Zebra "))
        assert (made.name, made.workspace_id) == ("Zebra", world.workspace_id)
        await execute(world.g, sort.make(world, "apple"))
        assert await names_of(execute, world.n, sort) == ["apple", "Zebra"]
        assert await execute(world.n, sort.about(sort.get, made.id)) == made
        same = await execute(world.g, sort.about(sort.update, made.id))
        assert attrs.evolve(same, updated_at=made.updated_at) == made
        changed = await execute(world.g, sort.about(sort.update, made.id, name="Yak"))
        assert changed.name == "Yak"
        assert attrs.evolve(changed, name="Zebra", updated_at=made.updated_at) == made


async def test_entries_are_listed_in_pages(execute: Executor, world: World) -> None:
    """Lists are in the order of names, in any case, in pages, with the total of the whole list."""
    for sort in SORTS:
        first = (await execute(world.g, sort.listed())).total
        for name in ("b", "A", "c"):
            await execute(world.g, sort.make(world, name))
        page = await execute(world.n, sort.listed(limit=2, offset=first + 1))
        assert ([each.name for each in page.items], page.total) == (["b", "c"], first + 3)
        page = await execute(world.n, sort.listed(offset=first + 3))
        assert (page.items, page.total) == ((), first + 3)


async def test_a_name_is_taken_in_any_case(execute: Executor, world: World) -> None:
    """Two entries of a workspace never have names that differ in case alone, archived or not."""
    for sort in SORTS:
        made = await execute(world.g, sort.make(world, "Alpha"))
        other = await execute(world.g, sort.make(world, "Beta"))
        again = sort.make(world, "ALPHA")
        if sort.name == "status":
            again = attrs.evolve(again, key="another_key")
        assert await execute.refused(world.g, again, field="name") == "conflict"
        change = sort.about(sort.update, other.id, name="aLPHA")
        assert await execute.refused(world.g, change, field="name") == "conflict"
        assert (
            await execute(world.g, sort.about(sort.update, made.id, name="alpha"))
        ).name == "alpha"
        if sort.archive is not None:
            await execute(world.g, sort.about(sort.archive, made.id))
            assert await execute.refused(world.g, again, field="name") == "conflict"


async def test_a_bad_name_is_refused(execute: Executor, world: World) -> None:
    """A name is one line of 1 to 200 characters, on making and on changing; else it is named."""
    for sort in SORTS:
        made = await execute(world.g, sort.make(world, "Good"))
        for name in ("", " ", "x" * 201, "two\nlines", "nul\x00"):
            bad = attrs.evolve(sort.make(world, "Bad"), name=name)
            assert await execute.refused(world.g, bad, field="name") == "invalid_input"
            change = sort.about(sort.update, made.id, name=name)
            assert await execute.refused(world.g, change, field="name") == "invalid_input"


async def test_an_entry_is_archived_and_taken_back(execute: Executor, world: World) -> None:
    """An archived entry stays in lists, archived twice keeps the first time, and comes back."""
    for sort in SORTS:
        if sort.archive is None or sort.unarchive is None:
            assert sort.name == "label"
            continue
        made = await execute(world.g, sort.make(world, "Old"))
        assert made.archived_at is None
        first = await execute(world.g, sort.about(sort.archive, made.id))
        assert first.archived_at is not None
        again = await execute(world.g, sort.about(sort.archive, made.id))
        assert again.archived_at == first.archived_at
        assert await names_of(execute, world.n, sort) == ["Old"]
        back = await execute(world.g, sort.about(sort.unarchive, made.id))
        assert back.archived_at is None


async def test_strangers_find_nothing(execute: Executor, world: World) -> None:
    """W-191: whoever is no member gets 404 for an entry and its list, and so does an unknown id."""
    for sort in SORTS:
        made = await execute(world.g, sort.make(world, "Secret"))
        commands = [sort.about(sort.get, made.id), *sort.changes(made.id)]
        for command in (
            *commands,
            sort.make(world, "Mine"),
            sort.listed(workspace_id=world.workspace_id),
        ):
            assert await execute.refused(world.s, command) == "not_found", command
        for command in (sort.about(sort.get, UUID(int=1)), *sort.changes(UUID(int=1))):
            assert await execute.refused(world.o, command) == "not_found", command
        assert [each.id for each in (await execute(world.s, sort.listed())).items if each.id] == []


async def test_who_may_change_a_catalogue(execute: Executor, world: World, run_of: RunOf) -> None:
    """Owners and admins change statuses, members the rest; a run makes labels, a daemon nothing."""
    run = await run_of(world.a, world.issue, world.o.user_id)
    for sort in SORTS:
        made = await execute(world.g, sort.make(world, "Made"))
        for caller, makes, changes in (
            (world.m, not sort.by_administrators, not sort.by_administrators),
            (run, sort.by_runs, False),
            (world.daemon, False, False),
            (world.o, True, True),
        ):
            command = sort.make(world, f"By {id(caller)}")
            if makes:
                await execute(caller, command)
            else:
                assert await execute.refused(caller, command) == "not_allowed"
            for change in sort.changes(made.id):
                if not changes:
                    assert await execute.refused(caller, change) == "not_allowed"
                elif not isinstance(change, catalogue.DeleteLabel):
                    await execute(caller, change)
        assert await execute(run, sort.about(sort.get, made.id)) is not None
        assert await execute.refused(world.daemon, sort.listed()) == "not_allowed"
