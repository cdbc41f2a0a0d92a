"""Runs as people and agents use them."""

from __future__ import annotations

from uuid import UUID

import pytest

from engine.domain.access import may_read
from engine.domain.commands.runs import (
    AppendMessages,
    CancelRun,
    CompleteRun,
    CreateRun,
    GetRun,
    ListRunMessages,
    ListRuns,
    StartRun,
    WaitLocalDirectory,
)
from engine.domain.views import Page
from engine.domain.views.runs import RunView
from engine.errors import WakefulError
from tests.service.conftest import RunOf
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]


async def list_runs(floor: Floor, **changes: object) -> Page[RunView]:
    page = await floor.execute(
        floor.world.m,
        ListRuns(issue_id=floor.world.issue, **changes),  # type: ignore[arg-type] # by name
    )
    assert isinstance(page, Page)
    return page


async def test_wakeup_runs_are_listed_and_stopped_like_others(floor: Floor) -> None:
    """W-094: a wakeup run is in the issue's list beside ordinary runs, and a cancel ends it."""
    ordinary = await floor.create()
    wakeup_id = await floor.wakeup()
    fired = await floor.fire(wakeup_id)
    page = await list_runs(floor)
    assert [run.id for run in page.items] == [fired, ordinary.id]
    assert [run.wakeup_id for run in page.items] == [wakeup_id, None]
    assert page.total == 2
    await floor.wait_for(wakeup_id)
    cancelled = await floor.execute(floor.world.m, CancelRun(run_id=fired))
    assert (cancelled.status, await floor.status(fired)) == ("cancelled", "cancelled")
    assert floor.execute.opened == (floor.world.issue,)


async def test_a_list_is_filtered_and_paged(floor: Floor) -> None:
    """Runs are listed by status and in pages; `total` counts the whole list."""
    for _ in range(3):
        run = await floor.create()
        await floor.execute(floor.world.m, CancelRun(run_id=run.id))
    await floor.create()
    page = await list_runs(floor, status="cancelled", limit=2, offset=2)
    assert (len(page.items), page.total) == (1, 3)
    assert (await list_runs(floor, status="queued")).total == 1
    command = ListRuns(issue_id=floor.world.issue, status="asleep")
    assert await refused(floor, floor.world.m, command) == "invalid_input"


async def test_a_run_asked_for_by_hand(floor: Floor) -> None:
    """A run by hand carries note, person and reason; asked again it merges into itself (W-098)."""
    run = await floor.create(note=" look at the log ")
    assert run.created
    assert (run.status, run.handoff_note) == ("queued", "look at the log")
    assert run.trigger_summary == "Started by hand: look at the log"
    assert run.originator_user_id == floor.world.m.user_id
    assert run.context == {"reason": "by_hand"}
    again = await floor.create(note="and at the clock")
    assert (again.id, again.created) == (run.id, False)
    assert again.handoff_note == "look at the log\n\nand at the clock"


async def test_a_run_may_ask_for_a_run(floor: Floor, run_of: RunOf) -> None:
    """A run queues another one in the name of its person; without one it may not (W-192)."""
    agent = await run_of(floor.world.b, floor.world.issue, floor.world.m.user_id)
    command = CreateRun(issue_id=floor.world.issue, agent_id=floor.world.a)
    run = await floor.execute(agent, command)
    (row,) = await floor.sql(
        "SELECT originator_source, delegated_from_task_id FROM agent_task_queue WHERE id = $1",
        run.id,
    )
    assert tuple(row.values()) == ("delegation", agent.run_id)
    orphan = await run_of(floor.world.a, floor.world.other_issue, None)
    assert await refused(floor, orphan, command) == "no_human_principal"


async def test_who_may_not_see_or_invoke_gets_no_run(floor: Floor) -> None:
    """Strangers and daemons do not reach the runs of an issue; others' private agents are 403."""
    world = floor.world
    private = CreateRun(issue_id=world.issue, agent_id=world.p)
    open_agent = CreateRun(issue_id=world.issue, agent_id=world.a)
    assert await refused(floor, world.m, private) == "cannot_invoke_agent"
    assert await refused(floor, world.g, private) == "cannot_invoke_agent"
    assert await refused(floor, world.s, open_agent) == "not_found"
    assert await refused(floor, world.daemon, open_agent) == "not_allowed"
    run = await floor.execute(world.o, private)
    assert await refused(floor, world.m, CancelRun(run_id=run.id)) == "cannot_invoke_agent"
    for command in (GetRun(run_id=run.id), CancelRun(run_id=run.id)):
        assert await refused(floor, world.s, command) == "not_found"
    assert await refused(floor, world.s, ListRuns(issue_id=world.issue)) == "not_found"
    assert may_read(world.m, world.workspace_id)
    assert (await floor.execute(world.m, GetRun(run_id=run.id))).agent_id == world.p


@pytest.mark.parametrize(("agent", "code"), [("archived_at = wakeful_now()", "agent_unavailable")])
async def test_by_hand_an_unavailable_agent_is_an_error(
    floor: Floor, agent: str, code: str
) -> None:
    """A run by hand of an archived agent is 400, of one that is not there 404."""
    await floor.sql(f"UPDATE agent SET {agent} WHERE id = $1", floor.world.a)
    command = CreateRun(issue_id=floor.world.issue, agent_id=floor.world.a)
    assert await refused(floor, floor.world.m, command) == code
    unknown = CreateRun(issue_id=floor.world.issue, agent_id=floor.world.issue)
    assert await refused(floor, floor.world.m, unknown) == "not_found"


async def arrange(floor: Floor, status: str) -> UUID:
    """Bring a run of agent A on issue I into this state, as its daemon does."""
    (row,) = await floor.sql("SELECT wakeful_now() + interval '1 h' AS later")
    run = await floor.create(fire_at=row["later"] if status == "deferred" else None)
    if status in {"queued", "deferred"}:
        return run.id
    claimed = await floor.claim_one()
    assert claimed.dispatched_at is not None
    if status == "waiting_local_directory":
        await floor.report(WaitLocalDirectory(run_id=run.id, reason="busy"))
    if status in {"running", "completed"}:
        await floor.start(claimed)
    if status == "completed":
        await floor.report(CompleteRun(run_id=run.id))
    return run.id


@pytest.mark.parametrize(
    "status", ["queued", "deferred", "dispatched", "waiting_local_directory", "running"]
)
async def test_every_unfinished_run_can_be_cancelled(floor: Floor, status: str) -> None:
    """W-097: a run is cancelled from each unfinished state, once, with its token and its lease."""
    run_id = await arrange(floor, status)
    assert await floor.status(run_id) == status
    for _ in range(2):
        run = await floor.execute(floor.world.m, CancelRun(run_id=run_id))
        assert run.status == "cancelled"
        assert run.completed_at is not None
    assert not await floor.sql("SELECT FROM run_lease UNION ALL SELECT FROM task_token")
    told = await floor.sql(
        "SELECT actor_type, actor_id FROM activity_log"
        " WHERE action = 'run_cancelled' AND details ->> 'task_id' = $1",
        str(run_id),
    )
    assert [tuple(row.values()) for row in told] == [("member", floor.world.m.user_id)]


async def test_cancelling_tells_who_waits(floor: Floor) -> None:
    """A cancel wakes the claims of the runtime: what the run kept back can be claimed now."""
    run_id = await arrange(floor, "running")
    await floor.execute(floor.world.m, CancelRun(run_id=run_id))
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {floor.world.runtime_id}


async def test_a_finished_run_cannot_be_cancelled(floor: Floor) -> None:
    """W-097: a completed run stays completed; the cancel is 400 and not a change."""
    run_id = await arrange(floor, "completed")
    command = CancelRun(run_id=run_id)
    assert await refused(floor, floor.world.m, command) == "invalid_transition"
    assert await floor.status(run_id) == "completed"


async def test_a_daemon_learns_of_a_cancel(floor: Floor) -> None:
    """W-097: a run cancelled after its claim cannot be started any more."""
    await floor.create()
    claimed = await floor.claim_one()
    assert claimed.dispatched_at is not None
    await floor.execute(floor.world.m, CancelRun(run_id=claimed.id))
    with pytest.raises(WakefulError) as caught:
        await floor.report(StartRun(run_id=claimed.id, dispatched_at=claimed.dispatched_at))
    assert caught.value.code == "invalid_transition"


async def test_a_transcript_is_read_in_pages(floor: Floor) -> None:
    """The lines of a transcript come in the order in which they were sent."""
    run_id = await arrange(floor, "running")
    lines = tuple({"text": str(number)} for number in range(5))
    await floor.report(AppendMessages(run_id=run_id, lines=lines[:3]))
    await floor.report(AppendMessages(run_id=run_id, lines=lines[3:]))
    page = await floor.execute(floor.world.m, ListRunMessages(run_id=run_id, limit=3, offset=1))
    assert [message.line for message in page.items] == list(lines[1:4])
    assert page.total == 5
