"""What a daemon reports on the runs that it claimed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from engine import limits
from engine.domain.commands.runs import (
    AppendMessages,
    CancelRun,
    CompleteRun,
    FailRun,
    GetRun,
    GetRunStatus,
    RenewLease,
    ReportProgress,
    StartRun,
    WaitLocalDirectory,
)
from engine.domain.commands.tracker import CreateComment, CreateToken, DeleteIssue
from engine.domain.views.runs import ClaimedRun
from engine.errors import WakefulError
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]


async def claimed(floor: Floor, **changes: Any) -> ClaimedRun:
    await floor.enqueue(**changes)
    return await floor.claim_one()


async def running(floor: Floor, **changes: Any) -> ClaimedRun:
    run = await claimed(floor, **changes)
    await floor.start(run)
    return run


async def comments(floor: Floor) -> list[dict[str, Any]]:
    rows = await floor.sql("SELECT * FROM comment ORDER BY id")
    return [dict(row.items()) for row in rows]


async def told(floor: Floor, run_id: UUID) -> list[tuple[str, str]]:
    rows = await floor.sql(
        "SELECT action, actor_type FROM activity_log"
        " WHERE details ->> 'task_id' = $1 AND action LIKE 'run_%' ORDER BY created_at",
        str(run_id),
    )
    return [(row["action"], row["actor_type"]) for row in rows]


# --- Preparing ----------------------------------------------------------------------------------


async def test_a_renewed_lease_keeps_a_claim(floor: Floor) -> None:
    """W-105: renewed every 15 s for 3 minutes a claim is not taken over, and then starts."""
    run = await claimed(floor)
    for _ in range(12):
        await floor.pass_seconds(15)
        await floor.beat()
        await floor.report(RenewLease(run_id=run.id))
        assert await floor.claim() == ()
    await floor.start(run)
    assert await floor.status(run.id) == "running"


async def test_a_lease_is_renewed_only_while_preparing(floor: Floor) -> None:
    """W-105: renewing the lease of an unknown run is 404, of one not being prepared 400."""
    unknown = RenewLease(run_id=floor.world.issue)
    assert await refused(floor, floor.world.daemon, unknown) == "not_found"
    run = await running(floor)
    command = RenewLease(run_id=run.id)
    assert await refused(floor, floor.world.daemon, command) == "invalid_transition"
    assert not await floor.sql("SELECT FROM run_lease")


async def test_waiting_for_a_directory(floor: Floor) -> None:
    """W-097: a claim may wait for its directory, keeps agent and issue busy, and then starts."""
    run = await claimed(floor)
    view = await floor.report(WaitLocalDirectory(run_id=run.id, reason="used by another run"))
    assert (view.status, view.wait_reason) == ("waiting_local_directory", "used by another run")
    await floor.report(RenewLease(run_id=run.id))
    await floor.fire(await floor.wakeup())
    await floor.pass_seconds(120)
    await floor.beat()
    assert await floor.claim() == ()
    started = await floor.start(run)
    assert (started.status, started.wait_reason) == ("running", None)


# --- Starting -----------------------------------------------------------------------------------


async def test_a_start_names_its_generation(floor: Floor) -> None:
    """W-104: a start with another generation is `stale_claim` and starts nothing."""
    run = await claimed(floor)
    assert run.dispatched_at is not None
    other = StartRun(run_id=run.id, dispatched_at=run.dispatched_at + timedelta(microseconds=1))
    assert await refused(floor, floor.world.daemon, other) == "stale_claim"
    assert await floor.status(run.id) == "dispatched"
    view = await floor.start(run)
    assert (view.status, view.dispatched_at) == ("running", run.dispatched_at)
    assert view.started_at is not None
    assert not await floor.sql("SELECT FROM run_lease")


async def test_a_repeated_start_changes_nothing(floor: Floor) -> None:
    """W-104: the start of a claim that already runs is answered alike, and told once."""
    run = await claimed(floor)
    assert await floor.start(run) == await floor.start(run)
    assert await told(floor, run.id) == [("run_started", "agent")]


async def test_forbidden_transitions(floor: Floor) -> None:
    """W-097: completing a queued or claimed run and starting a completed one are 400."""
    queued = await floor.enqueue()
    complete = CompleteRun(run_id=queued.id)
    assert await refused(floor, floor.world.daemon, complete) == "invalid_transition"
    fail = FailRun(run_id=queued.id)
    assert await refused(floor, floor.world.daemon, fail) == "invalid_transition"
    run = await floor.claim_one()
    assert run.dispatched_at is not None
    assert await refused(floor, floor.world.daemon, complete) == "invalid_transition"
    await floor.start(run)
    await floor.report(complete)
    start = StartRun(run_id=run.id, dispatched_at=run.dispatched_at)
    wait = WaitLocalDirectory(run_id=run.id, reason="x")
    for command in (start, wait, fail, ReportProgress(run_id=run.id, summary="x")):
        assert await refused(floor, floor.world.daemon, command) == "invalid_transition"
    assert await floor.status(run.id) == "completed"


async def test_the_start_of_a_wakeup_run_looks_at_its_rule(floor: Floor) -> None:
    """W-100: facts that waited for the start are looked at when it comes, and only those."""
    for waits in (True, False):
        wakeup_id = await floor.wakeup()
        await floor.fire(wakeup_id)
        run = await floor.claim_one()
        if waits:
            await floor.wait_for(wakeup_id)
        await floor.start(run)
        assert floor.execute.work is not None
        opened = {*floor.execute.opened, *floor.execute.work.issues}
        assert opened == ({floor.world.issue} if waits else set())
        await floor.report(CompleteRun(run_id=run.id))
        opened = {*floor.execute.opened, *floor.execute.work.issues}
        assert opened == ({floor.world.issue} if waits else set())
        await floor.sql("DELETE FROM issue_wakeup_receipt")


# --- Ends ---------------------------------------------------------------------------------------


async def test_completing_posts_the_output_once(floor: Floor) -> None:
    """W-112, W-113: a run without a comment gets one from its output, however often it reports."""
    run = await running(floor)
    command = CompleteRun(
        run_id=run.id,
        output=" all is well \n",
        pr_url="https://example.com/1",
        dispatched_at=run.dispatched_at,
    )
    views = [await floor.report(command) for _ in range(3)]
    assert [view.status for view in views] == ["completed"] * 3
    assert views[0] == views[2]
    assert views[0].result == {"output": " all is well \n", "pr_url": "https://example.com/1"}
    (comment,) = await comments(floor)
    assert (comment["author_type"], comment["author_id"]) == ("agent", floor.world.a)
    assert (comment["content"], comment["source_task_id"]) == ("all is well", run.id)
    assert await told(floor, run.id) == [("run_started", "agent"), ("run_completed", "agent")]
    assert not await floor.sql("SELECT FROM task_token")
    with pytest.raises(WakefulError):
        await floor.execute.authenticate(run.token)


async def test_an_agent_that_wrote_gets_no_second_comment(floor: Floor) -> None:
    """W-112: an agent that commented since the start is not repeated; an older comment is."""
    run = await running(floor)
    agent = await floor.execute.authenticate(run.token)
    await floor.execute(agent, CreateComment(issue_id=floor.world.issue, body="done"))
    await floor.report(CompleteRun(run_id=run.id, output="done, as I said"))
    assert [comment["content"] for comment in await comments(floor)] == ["done"]
    second = await running(floor)
    await floor.report(CompleteRun(run_id=second.id, output="again"))
    assert [comment["content"] for comment in await comments(floor)] == ["done", "again"]


async def test_the_fallback_answers_in_the_thread(floor: Floor) -> None:
    """W-112: the comment from the output replies to the comment that asked for the run."""
    asked = await floor.execute(
        floor.world.m, CreateComment(issue_id=floor.world.issue, body="hello")
    )
    run = await running(floor, reason="mention", trigger_comment_id=asked.id)
    await floor.report(CompleteRun(run_id=run.id, output="hello yourself"))
    assert (await comments(floor))[-1]["parent_id"] == asked.id


async def test_a_comment_run_and_a_wakeup_run_take_turns(floor: Floor) -> None:
    """W-112: a comment beside a queued wakeup run makes a run of its own, and each one comments."""
    fired = await floor.fire(await floor.wakeup())
    mention = f"[@A](mention://agent/{floor.world.a}) hello"
    await floor.execute(floor.world.m, CreateComment(issue_id=floor.world.issue, body=mention))
    own = await floor.claim_one()
    assert own.id == fired, "the older one first"
    await floor.start(own)
    assert await floor.claim() == (), "one at a time"
    agent = await floor.execute.authenticate(own.token)
    await floor.execute(agent, CreateComment(issue_id=floor.world.issue, body="my own words"))
    await floor.report(CompleteRun(run_id=own.id, output="the output"))
    other = await floor.claim_one()
    assert other.id != fired
    await floor.start(other)
    await floor.report(CompleteRun(run_id=other.id, output="an answer"))
    written = [each for each in await comments(floor) if each["author_type"] == "agent"]
    assert [(each["content"], each["source_task_id"]) for each in written] == [
        ("my own words", own.id),
        ("an answer", other.id),
    ]


async def test_no_output_no_comment(floor: Floor) -> None:
    """W-112: blank output makes no comment; one that is too long is cut between characters."""
    await floor.report(CompleteRun(run_id=(await running(floor)).id, output=" \n"))
    assert await comments(floor) == []
    long = "é" * limits.COMMENT_BYTES_MAX
    view = await floor.report(CompleteRun(run_id=(await running(floor)).id, output=long))
    assert view.result["output"] == long
    (comment,) = await comments(floor)
    assert comment["content"] == "é" * (limits.COMMENT_BYTES_MAX // 2)


async def test_failing_says_why_once(floor: Floor) -> None:
    """W-113: a failure is stored once with reason and error; without a reason it is the agent's."""
    run = await claimed(floor)
    command = FailRun(run_id=run.id, error="x" * 9_999, dispatched_at=run.dispatched_at)
    views = [await floor.report(command) for _ in range(3)]
    assert views[0] == views[2]
    assert (views[0].status, views[0].failure_reason) == ("failed", "agent_error")
    assert views[0].error == "x" * limits.RUN_ERROR_CHARS_MAX
    assert await told(floor, run.id) == [("run_failed", "agent")]
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert await comments(floor) == []


async def test_an_end_of_another_claim_is_stale(floor: Floor) -> None:
    """W-104: reports that name another generation end nothing."""
    run = await running(floor)
    assert run.dispatched_at is not None
    other = run.dispatched_at - timedelta(seconds=1)
    for command in (
        CompleteRun(run_id=run.id, dispatched_at=other),
        FailRun(run_id=run.id, dispatched_at=other),
    ):
        assert await refused(floor, floor.world.daemon, command) == "stale_claim"
    assert await floor.status(run.id) == "running"


async def test_an_old_claim_does_not_end_the_new_one(floor: Floor) -> None:
    """W-104: after a redelivery to the same daemon, reports of the lost claim are `stale_claim`."""
    lost = await claimed(floor)
    await floor.pass_seconds(91)
    await floor.beat()
    new = await floor.claim_one()
    assert (new.id, new.dispatched_at != lost.dispatched_at) == (lost.id, True)
    generation = lost.dispatched_at
    wait = WaitLocalDirectory(run_id=lost.id, reason="busy", dispatched_at=generation)
    fail = FailRun(run_id=lost.id, dispatched_at=generation)
    for command in (wait, fail):
        assert await refused(floor, floor.world.daemon, command) == "stale_claim"
    await floor.start(new)
    complete = CompleteRun(run_id=lost.id, dispatched_at=generation)
    for ending in (complete, fail):
        assert await refused(floor, floor.world.daemon, ending) == "stale_claim"
    view = await floor.report(CompleteRun(run_id=new.id, dispatched_at=new.dispatched_at))
    assert view.status == "completed"


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
async def test_a_run_outlives_its_issue(floor: Floor, end: str, is_started: bool) -> None:
    """W-189: a run claimed before its issue was deleted goes on, ends, and frees its agent."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 1 WHERE id = $1", floor.world.a)
    run = await (running if is_started else claimed)(floor)
    await floor.execute(floor.world.m, DeleteIssue(issue_id=floor.world.issue))
    other = await floor.enqueue(issue_id=floor.world.other_issue)
    assert await floor.claim() == ()
    if not is_started:
        await floor.start(run)
    await floor.report(ReportProgress(run_id=run.id, summary="almost done"))
    if end == "cancel":
        assert (await floor.execute(floor.world.m, GetRun(run_id=run.id))).status == "running"
        view = await floor.execute(floor.world.m, CancelRun(run_id=run.id))
        assert view.status == "cancelled"
    else:
        complete = CompleteRun(run_id=run.id, output="a word")
        fail = FailRun(run_id=run.id, error="a word")
        view = await floor.report(complete if end == "complete" else fail)
        assert view.status == ("completed" if end == "complete" else "failed")
    assert await comments(floor) == [], "there is nothing to comment on"
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert [each.id for each in await floor.claim()] == [other.id]


async def test_an_end_wakes_waiting_claims(floor: Floor) -> None:
    """W-101: the end of a run tells the claims of its runtime that its agent is free."""
    for command in (CompleteRun, FailRun):
        run = await running(floor)
        await floor.report(command(run_id=run.id))
        assert floor.execute.work is not None
        assert floor.execute.work.runtimes == {floor.world.runtime_id}


async def test_an_end_is_a_fact_once(floor: Floor) -> None:
    """W-113: however often an end is reported, a rule that listens hears of it once."""
    await floor.wakeup(
        kind="event", mode="continuous", enabled=True, event_types=["task.completed"]
    )
    run = await running(floor, agent_id=floor.world.b)
    for _ in range(3):
        await floor.report(CompleteRun(run_id=run.id))
    (receipt,) = await floor.sql("SELECT payload FROM issue_wakeup_receipt")
    assert receipt["payload"]["coalesced_count"] == 1
    assert receipt["payload"]["source_task_id"] == str(run.id)


# --- On the way ---------------------------------------------------------------------------------


async def test_progress_is_replaced(floor: Floor) -> None:
    """The newest progress report replaces the one before it."""
    run = await running(floor)
    await floor.report(ReportProgress(run_id=run.id, summary="reading", step=1, total=3))
    await floor.report(ReportProgress(run_id=run.id, summary="writing", step=2, total=3))
    (row,) = await floor.sql("SELECT summary, step, total FROM run_progress")
    assert tuple(row.values()) == ("writing", 2, 3)
    for bad in ({"summary": " "}, {"summary": "x", "step": -1}):
        command = ReportProgress(run_id=run.id, **bad)
        assert await refused(floor, floor.world.daemon, command) == "invalid_input"


async def test_lines_are_objects_and_bounded(floor: Floor) -> None:
    """A transcript takes JSON objects, a bounded number at once, and none before the claim."""
    queued = await floor.enqueue()
    early = AppendMessages(run_id=queued.id, lines=({},))
    assert await refused(floor, floor.world.daemon, early) == "invalid_transition"
    run = await floor.claim_one()
    many: tuple[dict[str, str], ...] = ({},) * (limits.MESSAGE_LINES_MAX + 1)
    for lines in (many, ({"text": "\0"},)):
        command = AppendMessages(run_id=run.id, lines=lines)
        assert await refused(floor, floor.world.daemon, command) == "invalid_input"


async def test_a_daemon_asks_for_the_status(floor: Floor) -> None:
    """A running daemon learns of a cancel by asking for the status; the lane is not a person's."""
    run = await running(floor)
    assert (await floor.report(GetRunStatus(run_id=run.id))).status == "running"
    await floor.execute(floor.world.m, CancelRun(run_id=run.id))
    assert (await floor.report(GetRunStatus(run_id=run.id))).status == "cancelled"
    assert await refused(floor, floor.world.daemon, GetRun(run_id=run.id)) == "not_allowed"


async def test_reports_come_from_the_daemon_of_the_run(floor: Floor) -> None:
    """W-102: reports by people, by other daemons and from other workspaces reach no run."""
    run = await running(floor)
    command = CompleteRun(run_id=run.id)
    made = await floor.execute(
        floor.world.o,
        CreateToken(workspace_id=floor.world.workspace_id, name="second", kind="daemon"),
    )
    second = await floor.execute.authenticate(made.token)
    assert await refused(floor, second, command) == "daemon_mismatch"
    (elsewhere,) = floor.world.s.workspace_ids
    made = await floor.execute(
        floor.world.s, CreateToken(workspace_id=elsewhere, name="third", kind="daemon")
    )
    third = await floor.execute.authenticate(made.token)
    assert await refused(floor, third, command) == "not_found"
    assert await refused(floor, floor.world.m, command) == "not_allowed"
    agent = await floor.execute.authenticate(run.token)
    assert await refused(floor, agent, command) == "not_allowed"
    assert await floor.status(run.id) == "running"
