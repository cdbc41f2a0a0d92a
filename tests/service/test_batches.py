"""Reports on many runs in one call: each has the outcome that it would have alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from engine import limits
from engine.domain.commands.runs import (
    CancelRun,
    CompleteRun,
    CompleteRuns,
    FailRun,
    StartRun,
    StartRuns,
    WaitLocalDirectory,
)
from engine.domain.commands.tracker import CreateComment, CreateToken
from engine.domain.decision import RECOVERY_WAIT
from engine.domain.views.runs import ClaimedRun
from engine.errors import WakefulError
from tests.service.runs_seed import Floor, floor, refused
from tests.sql.psql_session import PsqlSession

__all__ = ["floor"]

LONG_AGO: Final = timedelta(seconds=1)
NO_TIME: Final = datetime(2030, 1, 1, tzinfo=UTC)
PREPARING: Final = ("dispatched", "waiting_local_directory")
STATES: Final = (
    "dispatched",
    "waiting_local_directory",
    "running",
    "completed",
    "failed",
    "cancelled",
    "stale",
    "unknown",
    "foreign",
    "commented",
    "checked_in",
    "asked",
    "queued",
)


async def claimed(floor: Floor, **changes: Any) -> ClaimedRun:
    """Return a claimed run on an issue of its own, where each fact of a run is listened to."""
    issue_id = await floor.issue()
    await floor.wakeup(
        issue_id=issue_id, agent_id=floor.world.b, kind="event", mode="continuous", enabled=True,
        event_types=["task.started", "task.completed", "comment.created"],
    )  # fmt: skip
    await floor.enqueue(issue_id=issue_id, **changes)
    return await floor.claim_one()


async def many(floor: Floor, count: int) -> list[ClaimedRun]:
    return [await claimed(floor) for _ in range(count)]


async def in_state(floor: Floor, state: str) -> tuple[UUID, datetime]:
    """Bring a run into a state and return it with the generation that a report names."""
    if state == "unknown":
        return floor.world.issue, NO_TIME
    if state == "queued":
        return (await floor.enqueue(issue_id=await floor.issue())).id, NO_TIME
    run = await (asked if state == "asked" else claimed)(floor)
    assert run.dispatched_at is not None
    if state == "stale":
        return run.id, run.dispatched_at - LONG_AGO
    if state not in PREPARING:
        await floor.start(run)
    await bring(floor, run, state)
    return run.id, run.dispatched_at


async def asked(floor: Floor) -> ClaimedRun:
    """Return a claimed run that answers a comment."""
    issue_id = await floor.issue()
    comment = await floor.execute(
        floor.world.m, CreateComment(issue_id=issue_id, body="How is it?")
    )
    await floor.enqueue(issue_id=issue_id, reason="mention", trigger_comment_id=comment.id)
    return await floor.claim_one()


async def bring(floor: Floor, run: ClaimedRun, state: str) -> None:
    """Take the last step to a state."""
    match state:
        case "waiting_local_directory":
            await floor.report(WaitLocalDirectory(run_id=run.id, reason="busy"))
        case "completed":
            await floor.report(CompleteRun(run_id=run.id, output="before"))
        case "failed":
            await floor.report(FailRun(run_id=run.id))
        case "cancelled":
            await floor.execute(floor.world.m, CancelRun(run_id=run.id))
        case "foreign":
            await floor.sql(
                "UPDATE agent_task_queue SET runtime_id = $2 WHERE id = $1",
                run.id,
                await foreign_runtime(floor),
            )
        case "commented":
            agent = await floor.execute.authenticate(run.token)
            await floor.execute(agent, CreateComment(issue_id=run.issue_id, body="own words"))
        case "checked_in":
            await floor.sql(
                "UPDATE agent_task_queue"
                "   SET context = context || jsonb_build_object('wakeup_checkin', 1) WHERE id = $1",
                run.id,
            )


async def foreign_runtime(floor: Floor) -> UUID:
    """Return a runtime of another daemon in the same workspace."""
    made = await floor.execute(
        floor.world.o,
        CreateToken(workspace_id=floor.world.workspace_id, name="second", kind="daemon"),
    )
    second = await floor.execute.authenticate(made.token)
    await floor.sql(
        "INSERT INTO daemon (workspace_id, daemon_id, token_id) VALUES ($1, 'daemon-2', $2)"
        " ON CONFLICT DO NOTHING",
        floor.world.workspace_id,
        second.token_id,
    )
    (row,) = await floor.sql(
        "INSERT INTO agent_runtime (workspace_id, daemon_id, name, provider, last_seen_at)"
        " VALUES ($1, 'daemon-2', gen_random_uuid(), 'test', wakeful_now()) RETURNING id",
        floor.world.workspace_id,
    )
    identifier: UUID = row["id"]
    return identifier


async def alone(floor: Floor, report: StartRun | CompleteRun) -> tuple[str | None, str | None]:
    """Make a report by itself and return the run's status, or the code of the refusal."""
    try:
        return (await floor.report(report)).status, None
    except WakefulError as error:
        return None, error.code


async def traces(floor: Floor, run_id: UUID) -> dict[str, Any]:
    """Return all that a report leaves behind, without ids and times of its own."""
    (row,) = await floor.sql(
        """
        SELECT q.status, q.result, q.wait_reason, q.started_at IS NOT NULL AS has_started,
               q.completed_at IS NOT NULL AS has_ended,
               EXISTS (SELECT FROM run_lease l WHERE l.task_id = q.id) AS is_leased,
               EXISTS (SELECT FROM task_token k WHERE k.task_id = q.id) AS has_token,
               ARRAY(SELECT a.action || ' ' || a.actor_type || ' ' || (a.actor_id = q.agent_id)
                       FROM activity_log a
                      WHERE a.details ->> 'task_id' = q.id::text ORDER BY a.created_at) AS told,
               ARRAY(SELECT c.author_type || ' ' || c.content
                            || ' ' || coalesce((c.source_task_id = q.id)::text, 'by hand')
                            || ' ' || coalesce((c.parent_id = q.trigger_comment_id)::text, 'root')
                       FROM comment c WHERE c.issue_id = q.issue_id ORDER BY c.id) AS said,
               ARRAY(SELECT x.event_type || ' ' || (x.payload ->> 'coalesced_count')
                            || ' ' || (x.payload ->> 'actor_type')
                       FROM issue_wakeup_receipt x JOIN issue_wakeup r ON r.id = x.wakeup_id
                      WHERE r.issue_id = q.issue_id ORDER BY 1) AS facts
          FROM agent_task_queue q WHERE q.id = $1
        """,
        run_id,
    )
    return dict(row.items())


@pytest.mark.parametrize("kind", ["start", "complete"])
async def test_many_reports_are_what_each_is_alone(floor: Floor, kind: str) -> None:
    """W-104, W-113: in one call or in many, reports have the same outcomes and leave the same."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 1000 WHERE id = $1", floor.world.a)

    def report(run: tuple[UUID, datetime]) -> StartRun | CompleteRun:
        run_id, generation = run
        if kind == "start":
            return StartRun(run_id=run_id, dispatched_at=generation)
        page, output = "https://a.example/1", " It swims. \n"
        return CompleteRun(run_id=run_id, output=output, pr_url=page, dispatched_at=generation)

    one_by_one = [report(await in_state(floor, state)) for state in STATES[:-1]]
    together = [report(await in_state(floor, state)) for state in STATES[:-1]]
    one_by_one.append(report(await in_state(floor, "queued")))
    together.append(report(await in_state(floor, "queued")))
    expected = [await alone(floor, each) for each in one_by_one]
    command = (StartRuns if kind == "start" else CompleteRuns)(reports=tuple(together))  # type: ignore[arg-type] # of the kind
    outcomes = await floor.report(command)
    assert [each.id for each in outcomes] == [each.run_id for each in together]
    assert [(each.status, each.code) for each in outcomes] == expected
    codes = {code for _, code in expected}
    wanted = {"invalid_transition", "stale_claim", "not_found", "daemon_mismatch", None}
    assert codes == wanted
    for first, second, state in zip(one_by_one, together, STATES, strict=True):
        if state != "unknown":
            assert await traces(floor, second.run_id) == await traces(floor, first.run_id), state
    left = await traces(floor, together[0 if kind == "start" else 2].run_id)
    assert left["facts"], "a rule heard of it"
    assert (left["said"] != []) == (kind == "complete")
    again = await floor.report(command)
    assert [(each.status, each.code) for each in again] == expected
    for first, second, state in zip(one_by_one, together, STATES, strict=True):
        if state != "unknown":
            assert await traces(floor, second.run_id) == await traces(floor, first.run_id), state


async def test_ends_of_many_free_their_agent_and_open_what_waited(floor: Floor) -> None:
    """W-071, W-101: ends in one call tell waiting claims, and only the issues where facts wait."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 10 WHERE id = $1", floor.world.a)
    wakeups = []
    for _ in range(3):
        issue_id = await floor.issue()
        wakeups.append(await floor.wakeup(issue_id=issue_id))
        await floor.fire(wakeups[-1])
    runs = [await floor.claim_one() for _ in wakeups]
    await floor.wait_for(wakeups[1])
    waits = next(run.issue_id for run in runs if run.wakeup_id == wakeups[1])
    starts = tuple(StartRun(run_id=run.id, dispatched_at=run.dispatched_at) for run in runs)  # type: ignore[arg-type] # claimed
    await floor.report(StartRuns(reports=starts))
    assert floor.execute.opened == (waits,)
    ends = tuple(CompleteRun(run_id=run.id) for run in runs)
    await floor.report(CompleteRuns(reports=ends))
    assert floor.execute.opened == (waits,)
    assert floor.execute.work is not None
    assert floor.execute.work.issues == set()
    assert floor.execute.work.runtimes == {floor.world.runtime_id}


async def test_a_bad_field_refuses_its_run_alone(floor: Floor) -> None:
    """W-113: an output that cannot be stored is that run's outcome; the run beside it ends."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 10 WHERE id = $1", floor.world.a)
    first, second, third = await many(floor, 3)
    for run in (first, second, third):
        await floor.start(run)
    outcomes = await floor.report(
        CompleteRuns(
            reports=(
                CompleteRun(run_id=first.id, output="a\0b"),
                CompleteRun(run_id=second.id, output="fine"),
                CompleteRun(run_id=third.id, pr_url=" "),
            )
        )
    )
    assert [each.code for each in outcomes] == ["invalid_input", None, "invalid_input"]
    assert [await floor.status(run.id) for run in (first, second, third)] == [
        "running",
        "completed",
        "running",
    ]


async def test_the_first_of_two_reports_on_one_run_counts(floor: Floor) -> None:
    """W-113: two reports on one run in one call are a report and its repetition."""
    run = await claimed(floor)
    await floor.start(run)
    twice = tuple(CompleteRun(run_id=run.id, output=text) for text in ("first", "second"))
    outcomes = await floor.report(CompleteRuns(reports=twice))
    assert [each.status for each in outcomes] == ["completed"] * 2
    rows = await floor.sql("SELECT content FROM comment")
    assert [row["content"] for row in rows] == ["first"]


async def test_a_call_has_a_bound(floor: Floor) -> None:
    """api.md: more than a hundred reports in one call are refused as a whole, none is fine."""
    report = CompleteRun(run_id=floor.world.issue)
    too_many = CompleteRuns(reports=(report,) * (limits.CLAIM_TASKS_MAX + 1))
    assert await refused(floor, floor.world.daemon, too_many) == "invalid_input"
    assert await floor.report(CompleteRuns(reports=())) == ()
    most = await floor.report(CompleteRuns(reports=(report,) * limits.CLAIM_TASKS_MAX))
    assert {each.code for each in most} == {"not_found"}
    for caller in (floor.world.m, floor.world.o):
        assert await refused(floor, caller, StartRuns(reports=())) == "not_allowed"


async def test_a_start_among_many_unmarks_its_rule(floor: Floor) -> None:
    """W-253: a rule that waited for the recovery of a claim says so no longer once it starts."""
    wakeup_id = await floor.wakeup()
    await floor.fire(wakeup_id)
    run = await floor.claim_one()
    await floor.sql(
        "UPDATE issue_wakeup SET last_error = $2 WHERE id = $1", wakeup_id, RECOVERY_WAIT
    )
    assert run.dispatched_at is not None
    start = StartRun(run_id=run.id, dispatched_at=run.dispatched_at)
    await floor.report(StartRuns(reports=(start,)))
    (row,) = await floor.sql("SELECT last_error FROM issue_wakeup WHERE id = $1", wakeup_id)
    assert row["last_error"] is None


@pytest.mark.parametrize(
    "lock",
    [
        "SELECT FROM agent_task_queue WHERE id = '{run}' FOR UPDATE",
        "SELECT FROM issue WHERE id = '{issue}' FOR UPDATE",
    ],
    ids=["run", "issue"],
)
async def test_what_others_hold_keeps_nobody_waiting(
    floor: Floor, database_url: str, lock: str
) -> None:
    """W-077: a run that somebody holds is `contention` at once; the others of the call start."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 10 WHERE id = $1", floor.world.a)
    held, free = await many(floor, 2)
    starts = tuple(
        StartRun(run_id=run.id, dispatched_at=run.dispatched_at)  # type: ignore[arg-type] # claimed
        for run in (held, free)
    )
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {lock.format(run=held.id, issue=held.issue_id)}")
        outcomes = await floor.report(StartRuns(reports=starts))
        assert [each.code for each in outcomes] == ["contention", None]
        writer.ask("COMMIT")
    outcomes = await floor.report(StartRuns(reports=starts))
    assert [each.status for each in outcomes] == ["running", "running"]
