from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.catalogue import (
    ArchiveSquad,
    CreateSquad,
    GetSquad,
    SquadMember,
    UnarchiveSquad,
    UpdateSquad,
)
from engine.domain.commands.tracker import (
    ArchiveAgent,
    CreateIssue,
    ListIssues,
    ListMembers,
    RemoveMember,
    UpdateAgent,
    UpdateIssue,
)
from engine.domain.views.catalogue import SquadView
from tests.service.conftest import Executor, RunOf, Sql, World, runs_of


def made(world: World, **fields: Any) -> CreateSquad:
    command = CreateSquad(workspace_id=world.workspace_id, name="Ops", leader_id=world.a)
    return attrs.evolve(command, **fields)


def assignment(squad: SquadView, issue_id: UUID) -> UpdateIssue:
    return UpdateIssue(issue_id=issue_id, assignee_type="squad", assignee_id=squad.id)


# --- The catalogue ------------------------------------------------------------------------------


async def test_a_squad_has_a_leader_and_members(execute: Executor, world: World) -> None:
    """Members keep their order, twice counts once, a change replaces them all, or leaves them."""
    assert world.n.user_id is not None
    n, b = SquadMember(type="member", id=world.n.user_id), SquadMember(type="agent", id=world.b)
    squad = await execute(world.m, made(world, members=(n, b, n), instructions="Be quick."))
    assert [(each.type, each.id) for each in squad.members] == [
        ("member", world.n.user_id),
        ("agent", world.b),
    ]
    assert (squad.leader_id, squad.instructions) == (world.a, "Be quick.")
    squad = await execute(world.n, UpdateSquad(squad_id=squad.id, leader_id=world.b))
    assert (squad.leader_id, len(squad.members), squad.instructions) == (world.b, 2, "Be quick.")
    squad = await execute(world.n, UpdateSquad(squad_id=squad.id, members=(b, n)))
    assert [each.type for each in squad.members] == ["agent", "member"]
    squad = await execute(world.n, UpdateSquad(squad_id=squad.id, members=()))
    assert squad.members == ()


async def test_a_bad_field_is_named(execute: Executor, world: World) -> None:
    """Leader and members must be there for the caller, instructions short; the field is named."""
    squad = await execute(world.m, made(world, name="Good"))
    stranger, unknown = world.s.user_id, UUID(int=1)
    assert stranger is not None
    bad: tuple[tuple[str, Any], ...] = (
        ("leader_id", unknown),
        ("leader_id", world.p),
        ("members", (SquadMember(type="member", id=stranger),)),
        ("members", (SquadMember(type="member", id=world.a),)),
        ("members", (SquadMember(type="agent", id=unknown),)),
        ("members", (SquadMember(type="agent", id=world.p),)),
        ("members", tuple(SquadMember(type="agent", id=UUID(int=n)) for n in range(101))),
        ("members.type", (SquadMember(type="squad", id=squad.id),)),
        ("instructions", "x" * 16_385),
        ("instructions", "nul\x00"),
    )
    for field, value in bad:
        name = field.partition(".")[0]
        make = made(world, **{name: value})
        wrong: dict[str, Any] = {name: value}
        change = attrs.evolve(UpdateSquad(squad_id=squad.id), **wrong)
        for command in (make, change):
            assert await execute.refused(world.m, command, field=field) == "invalid_input", field
    await execute(world.o, ArchiveAgent(agent_id=world.b))
    for command in (
        made(world, leader_id=world.b),
        UpdateSquad(squad_id=squad.id, leader_id=world.b),
    ):
        assert await execute.refused(world.m, command, field="leader_id") == "agent_unavailable"


async def test_a_private_agent_leads_by_whom_it_admits(execute: Executor, world: World) -> None:
    """W-012: only who may see a private agent makes it leader; others still change the rest."""
    squad = await execute(world.o, made(world, leader_id=world.p))
    view = await execute(world.m, UpdateSquad(squad_id=squad.id, name="New", leader_id=world.p))
    assert (view.name, view.leader_id) == ("New", world.p)


async def test_who_has_left_is_no_member(execute: Executor, world: World) -> None:
    """A person who leaves the workspace is not shown among a squad's members any more."""
    assert world.n.user_id is not None
    member = SquadMember(type="member", id=world.n.user_id)
    squad = await execute(world.m, made(world, members=(member,)))
    people = await execute(world.o, ListMembers(workspace_id=world.workspace_id))
    (membership,) = (each.id for each in people.items if each.user_id == world.n.user_id)
    await execute(world.o, RemoveMember(workspace_id=world.workspace_id, member_id=membership))
    assert (await execute(world.m, GetSquad(squad_id=squad.id))).members == ()


# --- Assignments --------------------------------------------------------------------------------


async def test_an_assignment_queues_a_run_of_the_leader(
    execute: Executor, sql: Sql, world: World
) -> None:
    """Assigned to a squad, new or old, an issue gets one run of its leader, who is told so."""
    squad = await execute(world.m, made(world, instructions="Delegate."))
    new = await execute(
        world.n,
        CreateIssue(
            workspace_id=world.workspace_id,
            title="New",
            assignee_type="squad",
            assignee_id=squad.id,
        ),
    )
    for _ in range(2):
        view = await execute(world.n, assignment(squad, world.issue))
    assert (view.assignee_type, view.assignee_id) == ("squad", squad.id)
    for issue_id in (new.id, world.issue):
        (run,) = await runs_of(sql, issue_id)
        assert (run["agent_id"], run["status"]) == (world.a, "queued")
        assert run["originator_user_id"] == world.n.user_id
        assert run["context"] == {
            "reason": "assignment",
            "squad_id": str(squad.id),
            "is_leader_task": True,
        }
        assert (
            run["handoff_note"]
            == f"You lead the squad Ops ({squad.id}) on this issue.\n\nDelegate."
        )
    page = await execute(world.n, ListIssues(workspace_id=world.workspace_id, assignee=squad.id))
    assert {each.id for each in page.items} == {new.id, world.issue}
    (entry, _) = await sql(
        "SELECT details FROM activity_log WHERE action = 'issue_assigned' ORDER BY issue_id"
    )
    assert (entry["details"]["assignee_type"], entry["details"]["assignee_id"]) == (
        "squad",
        str(squad.id),
    )


async def test_a_leader_with_a_pending_run_is_called_into_it(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-081: the assignment joins the leader's queued run, which then leads the squad."""
    squad = await execute(world.m, made(world))
    direct = UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.a)
    await execute(world.m, direct)
    await execute(world.m, assignment(squad, world.issue))
    (run,) = await runs_of(sql, world.issue)
    assert run["context"]["squad_id"] == str(squad.id)
    assert run["handoff_note"].startswith("You lead the squad Ops")


async def test_a_claimed_run_of_the_leader_is_followed_by_another(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-081: while the leader's run is claimed, the assignment waits as the next one, once."""
    squad = await execute(world.m, made(world))
    direct = UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.a)
    nobody = UpdateIssue(issue_id=world.issue, assignee_id=None)
    await execute(world.m, direct)
    await sql("UPDATE agent_task_queue SET status = 'dispatched', dispatched_at = wakeful_now()")
    for _ in range(2):
        await execute(world.m, nobody)
        await execute(world.m, assignment(squad, world.issue))
    claimed, waiting = await runs_of(sql, world.issue)
    assert (claimed["status"], "squad_id" in claimed["context"]) == ("dispatched", False)
    assert (waiting["status"], waiting["context"]["squad_id"]) == ("deferred", str(squad.id))


async def test_who_cannot_be_assigned_is_refused(execute: Executor, sql: Sql, world: World) -> None:
    """An unknown or archived squad is 400, one whose leader is archived `agent_unavailable`."""
    squad = await execute(world.m, made(world))
    give = assignment(squad, world.issue)
    unknown = attrs.evolve(give, assignee_id=UUID(int=1))
    assert await execute.refused(world.m, unknown, field="assignee_id") == "invalid_input"
    await execute(world.m, ArchiveSquad(squad_id=squad.id))
    assert await execute.refused(world.m, give, field="assignee_id") == "invalid_input"
    await execute(world.m, UnarchiveSquad(squad_id=squad.id))
    await execute(world.o, ArchiveAgent(agent_id=world.a))
    assert await execute.refused(world.m, give, field="assignee_id") == "agent_unavailable"
    assert await sql("SELECT FROM agent_task_queue") == []


async def test_a_squad_of_another_workspace_is_none(execute: Executor, world: World) -> None:
    """A squad is assigned to issues of its own workspace alone."""
    squad = await execute(world.m, made(world))
    make = CreateIssue(title="Theirs", assignee_type="squad", assignee_id=squad.id)
    assert await execute.refused(world.s, make, field="assignee_id") == "invalid_input"


async def test_an_archived_squad_stays_on_its_issues(execute: Executor, world: World) -> None:
    """What was assigned before stays so, and can still be changed."""
    squad = await execute(world.m, made(world))
    await execute(world.m, assignment(squad, world.issue))
    await execute(world.m, ArchiveSquad(squad_id=squad.id))
    view = await execute(world.m, attrs.evolve(assignment(squad, world.issue), title="Other"))
    assert (view.title, view.assignee_id) == ("Other", squad.id)


async def test_nobody_is_called_without_the_right_or_a_runtime(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """An assignment stands without a run: private leader, no runtime, closed, the leader itself."""
    private = await execute(world.o, made(world, name="Private", leader_id=world.p))
    view = await execute(world.m, assignment(private, world.issue))
    assert view.assignee_id == private.id
    idle = await execute(world.m, made(world, name="Idle", leader_id=world.b))
    await execute(world.o, UpdateAgent(agent_id=world.b, runtime_id=None))
    await execute(world.m, assignment(idle, world.issue))
    squad = await execute(world.m, made(world))
    closing = attrs.evolve(assignment(squad, world.issue), status="done")
    await execute(world.m, closing)
    assert await sql("SELECT FROM agent_task_queue") == []
    run = await run_of(world.a, world.other_issue, world.m.user_id)
    await execute(run, assignment(squad, world.other_issue))
    assert [each["id"] for each in await runs_of(sql, world.other_issue)] == [run.run_id]
    await execute(world.o, assignment(private, world.other_issue))
    assert len(await runs_of(sql, world.other_issue)) == 2
