from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

# Importing a module of use cases registers them.
import engine.service.daemons  # noqa: F401 - as above
from engine.domain.commands.runs import RegisterDaemon, RuntimeDraft
from engine.domain.commands.tracker import (
    ArchiveAgent,
    CreateAgent,
    CreateComment,
    CreateToken,
    GetAgent,
    ListAgents,
    UnarchiveAgent,
    UpdateAgent,
)
from tests.service.conftest import Executor, RunOf, Sql, World


async def test_a_new_agent_belongs_to_its_maker(execute: Executor, world: World) -> None:
    """An agent has the fields that were sent, the defaults of the rest, and its maker as owner."""
    view = await execute(world.m, CreateAgent(workspace_id=world.workspace_id, name=" Helper "))
    assert (view.name, view.owner_id, view.visibility) == ("Helper", world.m.user_id, "workspace")
    assert (view.instructions, view.invokers, view.max_concurrent_tasks) == ("", (), 6)
    assert (view.runtime, view.runtime_id, view.status) == (None, None, "offline")
    assert view.archived_at is None
    assert await execute(world.n, GetAgent(agent_id=view.id)) == view


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "x" * 201}),
        ("instructions", {"instructions": "x" * 65_537}),
        ("instructions", {"instructions": "nul\x00"}),
        ("visibility", {"visibility": "secret"}),
        ("invokers", {"invokers": (UUID(int=1),)}),
        ("runtime_id", {"runtime_id": UUID(int=1)}),
        ("max_concurrent_tasks", {"max_concurrent_tasks": 0}),
        ("max_concurrent_tasks", {"max_concurrent_tasks": 1001}),
    ],
)
async def test_a_bad_field_is_named(
    execute: Executor, world: World, field: str, values: dict[str, Any]
) -> None:
    """An agent that cannot be stored is refused, made or changed, and the field is named."""
    made = CreateAgent(workspace_id=world.workspace_id, name="N")
    assert await execute.refused(world.o, attrs.evolve(made, **values), field=field) == (
        "invalid_input"
    )
    changed = attrs.evolve(UpdateAgent(agent_id=world.a), **values)
    assert await execute.refused(world.o, changed, field=field) == "invalid_input"


async def test_a_name_is_taken_in_any_case(execute: Executor, world: World) -> None:
    """Mentions read names without regard to case, so two agents never differ in case alone."""
    made = CreateAgent(workspace_id=world.workspace_id, name="a")
    assert await execute.refused(world.o, made, field="name") == "conflict"
    changed = UpdateAgent(agent_id=world.b, name="a")
    assert await execute.refused(world.o, changed, field="name") == "conflict"


async def test_a_private_agent_is_hidden(execute: Executor, world: World) -> None:
    """W-012: whom a private agent does not admit cannot read, list or change it, admins neither."""
    for caller, names in ((world.o, ["A", "B", "P"]), (world.g, ["A", "B"]), (world.n, ["A", "B"])):
        page = await execute(caller, ListAgents(workspace_id=world.workspace_id))
        assert ([each.name for each in page.items], page.total) == (names, len(names))
    for caller in (world.g, world.n, world.s):
        for command in (
            GetAgent(agent_id=world.p),
            UpdateAgent(agent_id=world.p, name="Mine"),
            ArchiveAgent(agent_id=world.p),
            UnarchiveAgent(agent_id=world.p),
        ):
            assert await execute.refused(caller, command) == "not_found"
    assert await execute.refused(world.o, GetAgent(agent_id=UUID(int=1))) == "not_found"


async def test_invokers_see_a_private_agent(execute: Executor, world: World) -> None:
    """The people whom a private agent names see it; the list is replaced as a whole."""
    assert world.n.user_id is not None
    await execute(world.o, UpdateAgent(agent_id=world.p, invokers=(world.n.user_id,) * 2))
    view = await execute(world.n, GetAgent(agent_id=world.p))
    assert view.invokers == (world.n.user_id,)
    assert await execute.refused(world.n, UpdateAgent(agent_id=world.p, name="Q")) == "not_allowed"
    await execute(world.o, UpdateAgent(agent_id=world.p, invokers=()))
    assert await execute.refused(world.n, GetAgent(agent_id=world.p)) == "not_found"


async def test_a_run_sees_itself_and_what_its_person_sees(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-194: a run of a private agent sees that agent, other runs only with their person's eyes."""
    own = await run_of(world.p, world.issue, world.m.user_id)
    assert (await execute(own, GetAgent(agent_id=world.p))).name == "P"
    for person, total in ((world.m, 2), (world.o, 3)):
        run = await run_of(world.a, world.issue, person.user_id)
        assert (await execute(run, ListAgents())).total == total
        # One claim of an issue and agent at a time: the next one needs its own.
        await execute.end(run)
    orphan = await run_of(world.a, world.issue, None)
    assert (await execute(orphan, ListAgents())).total == 2


async def test_owners_and_admins_change_an_agent(execute: Executor, world: World) -> None:
    """What is not sent stays; an agent is changed by its owner and by owners and admins."""
    made = await execute(
        world.m, CreateAgent(workspace_id=world.workspace_id, name="Mine", instructions="Be brief.")
    )
    for caller, limit in ((world.m, 2), (world.g, 3), (world.o, 4)):
        view = await execute(caller, UpdateAgent(agent_id=made.id, max_concurrent_tasks=limit))
        assert (view.name, view.instructions) == ("Mine", "Be brief.")
        assert view.max_concurrent_tasks == limit
    assert await execute.refused(world.n, UpdateAgent(agent_id=made.id, name="No")) == "not_allowed"
    view = await execute(world.g, UpdateAgent(agent_id=made.id, runtime_id=world.runtime_id))
    assert (view.runtime.name, view.runtime.provider, view.status) == ("main", "test", "idle")
    view = await execute(world.m, UpdateAgent(agent_id=made.id, runtime_id=None))
    assert (view.runtime, view.status) == (None, "offline")


async def test_the_status_tells_what_an_agent_does(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-097: an agent is idle, working while a run is claimed, offline after 150 s silence."""
    assert (await execute(world.m, GetAgent(agent_id=world.a))).status == "idle"
    await run_of(world.a, world.issue, None, "dispatched")
    assert (await execute(world.m, GetAgent(agent_id=world.a))).status == "working"
    for seconds, status in ((149, "working"), (151, "offline")):
        await sql(
            "UPDATE agent_runtime SET last_seen_at = wakeful_now() - make_interval(secs => $1)",
            seconds,
        )
        view = await execute(world.m, GetAgent(agent_id=world.a))
        assert view.status == status
        assert view.runtime.status == ("online" if status == "working" else "offline")


async def test_an_agent_is_archived_and_comes_back(execute: Executor, world: World) -> None:
    """Archiving tells since when; a second time changes nothing; unarchiving takes it back."""
    first = await execute(world.g, ArchiveAgent(agent_id=world.a))
    assert first.archived_at is not None
    again = await execute(world.g, ArchiveAgent(agent_id=world.a))
    assert again.archived_at == first.archived_at
    assert await execute.refused(world.n, UnarchiveAgent(agent_id=world.a)) == "not_allowed"
    assert (await execute(world.g, UnarchiveAgent(agent_id=world.a))).archived_at is None
    assert execute.work is not None
    assert execute.work.runtimes == {world.runtime_id}


async def test_unclaimed_runs_follow_their_agent(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """A run that waits is handed out where its agent runs now; one at work stays where it is."""
    await run_of(world.a, world.other_issue, world.m.user_id)
    await execute(world.m, CreateComment(issue_id=world.issue, body="@A please"))
    rows = await sql(
        "INSERT INTO agent_runtime (workspace_id, daemon_id, name, provider)"
        " VALUES ($1, 'daemon-2', 'main', 'test') RETURNING id",
        world.workspace_id,
    )
    moved = rows[0]["id"]
    await execute(world.o, UpdateAgent(agent_id=world.a, runtime_id=None))
    await execute(world.o, UpdateAgent(agent_id=world.a, runtime_id=moved))
    assert execute.work is not None
    assert execute.work.runtimes == {moved}
    runs = await sql("SELECT status, runtime_id FROM agent_task_queue ORDER BY status")
    assert [(run["status"], run["runtime_id"]) for run in runs] == [
        ("queued", moved),
        ("running", world.runtime_id),
    ]


async def test_a_machine_serves_whom_its_owner_lets(execute: Executor, world: World) -> None:
    """An agent is bound to a runtime by the daemon's owner, or an owner or admin; else 403."""
    token = CreateToken(workspace_id=world.workspace_id, name="desk", kind="daemon")
    daemon = await execute.authenticate((await execute(world.m, token)).token)
    register = RegisterDaemon(
        daemon_id="desk", runtimes=(RuntimeDraft(name="main", provider="test"),)
    )
    runtime_id = (await execute(daemon, register)).runtimes[0].id
    made = CreateAgent(workspace_id=world.workspace_id, name="Mine", runtime_id=runtime_id)
    assert await execute.refused(world.n, made, field="runtime_id") == "not_allowed"
    theirs = await execute(world.n, attrs.evolve(made, runtime_id=None))
    bind = UpdateAgent(agent_id=theirs.id, runtime_id=runtime_id)
    assert await execute.refused(world.n, bind, field="runtime_id") == "not_allowed"
    assert (await execute(world.g, bind)).runtime_id == runtime_id
    assert (await execute(world.n, bind)).runtime_id == runtime_id, "it is bound already"
    assert (await execute(world.m, attrs.evolve(made, name="M's"))).runtime_id == runtime_id
    elsewhere = attrs.evolve(made, name="M's too", runtime_id=world.runtime_id)
    assert await execute.refused(world.m, elsewhere, field="runtime_id") == "not_allowed"


async def test_a_runtime_of_another_workspace_is_none(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An agent runs where its workspace has a daemon, nowhere else."""
    elsewhere = next(iter(world.s.roles))
    command = CreateAgent(workspace_id=elsewhere, name="X", runtime_id=world.runtime_id)
    assert await execute.refused(world.s, command, field="runtime_id") == "invalid_input"
    assert await sql("SELECT FROM agent WHERE name = 'X'") == []
