"""Ordinary runs come into the queue: merging, scopes, races."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from engine import limits
from engine.errors import WakefulError
from engine.service.enqueue import QueuedRun
from tests.service.runs_seed import Floor, floor

__all__ = ["floor"]


async def comment(floor: Floor, parent_id: UUID | None = None) -> UUID:
    """Insert a comment that calls nobody, and return its id."""
    (row,) = await floor.sql(
        "INSERT INTO comment (issue_id, workspace_id, content, parent_id) VALUES ($1, $2, 'x', $3)"
        " RETURNING id",
        floor.world.issue,
        floor.world.workspace_id,
        parent_id,
    )
    identifier: UUID = row["id"]
    return identifier


async def row_of(floor: Floor, run: QueuedRun) -> dict[str, object]:
    (row,) = await floor.sql("SELECT * FROM agent_task_queue WHERE id = $1", run.id)
    return dict(row.items())


async def test_a_request_becomes_a_queued_run(floor: Floor) -> None:
    """A request makes a queued run on the agent's runtime, with issue's priority and its origin."""
    await floor.sql("UPDATE issue SET priority = 'high' WHERE id = $1", floor.world.issue)
    asked = await comment(floor)
    run = await floor.enqueue(reason="mention", trigger_comment_id=asked, note="please  look")
    row = await row_of(floor, run)
    assert (run.created, run.status, run.runtime_id) == (True, "queued", floor.world.runtime_id)
    assert (row["priority"], row["runtime_id"]) == (3, floor.world.runtime_id)
    assert (row["trigger_comment_id"], row["comment_thread_id"]) == (asked, asked)
    assert row["trigger_summary"] == "Mentioned in a comment: please look"
    assert row["handoff_note"] == "please  look"
    assert row["originator_user_id"] == row["accountable_user_id"] == floor.world.m.user_id
    assert (row["trigger_evidence_kind"], row["trigger_evidence_ref_id"]) == ("comment", asked)
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {floor.world.runtime_id}


async def test_requests_of_one_scope_merge(floor: Floor) -> None:
    """W-098: a second request of the scope joins the queued run: note, comment, higher priority."""
    root = await comment(floor)
    first = await floor.enqueue(trigger_comment_id=root, note="one")
    answer = await comment(floor, parent_id=root)
    await floor.sql("UPDATE issue SET priority = 'urgent' WHERE id = $1", floor.world.issue)
    for _ in range(2):
        second = await floor.enqueue(trigger_comment_id=answer, reason="reply", note="two")
        assert (second.id, second.created) == (first.id, False)
    row = await row_of(floor, first)
    assert row["handoff_note"] == "one\n\ntwo\n\ntwo"
    assert row["context"] == {"reason": "assignment", "coalesced_comment_ids": [str(answer)]}
    assert row["priority"] == 4


async def test_other_scopes_and_agents_have_runs_of_their_own(floor: Floor) -> None:
    """W-098: other threads, other agents and other issues queue side by side."""
    runs = [
        await floor.enqueue(),
        await floor.enqueue(trigger_comment_id=await comment(floor)),
        await floor.enqueue(trigger_comment_id=await comment(floor)),
        await floor.enqueue(agent_id=floor.world.b),
        await floor.enqueue(issue_id=floor.world.other_issue),
    ]
    assert all(run.created for run in runs)
    assert len({run.id for run in runs}) == len(runs)


async def test_ordinary_requests_ignore_wakeup_runs(floor: Floor) -> None:
    """W-112: with a wakeup run queued, a comment makes a run of its own, also in its thread."""
    thread = await comment(floor)
    wakeup = await floor.fire(await floor.wakeup(parent_comment_id=thread))
    run = await floor.enqueue(trigger_comment_id=thread, reason="reply")
    assert run.created
    assert await floor.status(wakeup) == "queued"


async def test_a_request_behind_a_claim_is_kept(floor: Floor) -> None:
    """W-098: behind a claimed run a request waits as one deferred run, which later ones join."""
    first = await floor.enqueue(note="one")
    claimed = await floor.claim_one()
    assert claimed.id == first.id
    second = await floor.enqueue(note="two")
    third = await floor.enqueue(note="three")
    assert (second.created, second.status) == (True, "deferred")
    assert (third.id, third.created) == (second.id, False)
    assert (await row_of(floor, second))["handoff_note"] == "two\n\nthree"
    assert (await row_of(floor, first))["handoff_note"] == "one", "a claimed prompt is immutable"


async def test_what_has_no_room_in_a_run_gets_another(floor: Floor) -> None:
    """A note that would make the pending run's too long is kept in a run behind it."""
    half = "n" * (limits.NOTE_BYTES_MAX // 2)
    first = await floor.enqueue(note=half)
    second = await floor.enqueue(note=half)
    assert (second.created, second.status) == (True, "deferred")
    assert (await row_of(floor, first))["handoff_note"] == half


async def test_a_request_for_later_is_deferred(floor: Floor) -> None:
    """A request with a time in the future is deferred beside the queued run; a past time is now."""
    (row,) = await floor.sql(
        "SELECT wakeful_now() - interval '1 h' AS past, wakeful_now() + interval '1 h' AS future"
    )
    queued = await floor.enqueue(fire_at=row["past"])
    later = await floor.enqueue(fire_at=row["future"])
    assert (queued.status, later.status, later.created) == ("queued", "deferred", True)
    assert (await floor.enqueue()).id == queued.id


@pytest.mark.parametrize("change", ["archived_at = wakeful_now()", "runtime_id = NULL"])
async def test_an_unavailable_agent_gets_no_run(floor: Floor, change: str) -> None:
    """An agent that is archived or has no runtime is `agent_unavailable`; nothing is written."""
    await floor.sql(f"UPDATE agent SET {change} WHERE id = $1", floor.world.a)
    with pytest.raises(WakefulError) as caught:
        await floor.enqueue()
    assert caught.value.code == "agent_unavailable"
    assert caught.value.details == {"field": "agent_id"}
    assert "wakeful daemon --agent NAME --exec COMMAND" in caught.value.message
    assert not await floor.sql("SELECT FROM agent_task_queue")


async def test_an_agent_of_another_workspace_is_not_there(floor: Floor) -> None:
    """An agent and an issue of different workspaces have no run together."""
    with pytest.raises(WakefulError) as caught:
        await floor.enqueue(agent_id=floor.world.issue)
    assert caught.value.code == "not_found"


async def test_racing_requests_all_end_in_one_run(floor: Floor) -> None:
    """W-081: of many requests at once one makes the run, the others join it, and none fails."""
    comments = [await comment(floor) for _ in range(3)]
    root = comments[0]
    answers = [await comment(floor, parent_id=root) for _ in range(20)]
    runs: list[QueuedRun] = []

    async def ask(comment_id: UUID) -> None:
        runs.append(await floor.enqueue(trigger_comment_id=comment_id, reason="reply"))

    async with trio.open_nursery() as nursery:
        for each in answers:
            nursery.start_soon(ask, each)
    assert sum(run.created for run in runs) == 1
    assert len({run.id for run in runs}) == 1
    row = await row_of(floor, runs[0])
    context = row["context"]
    assert isinstance(context, dict)
    kept = [str(row["trigger_comment_id"]), *context["coalesced_comment_ids"]]
    assert sorted(kept) == sorted(map(str, answers))


async def test_requests_racing_with_a_claim_are_kept(floor: Floor) -> None:
    """W-081: whatever a claim takes meanwhile, every request is in some run, and none fails."""
    answers = [await comment(floor)]
    answers += [await comment(floor, parent_id=answers[0]) for _ in range(15)]

    async def ask(comment_id: UUID) -> None:
        await floor.enqueue(trigger_comment_id=comment_id, reason="reply")

    async def take() -> None:
        for run in await floor.claim():
            await floor.start(run)

    async with trio.open_nursery() as nursery:
        for number, each in enumerate(answers):
            nursery.start_soon(ask, each)
            if number % 4 == 0:
                nursery.start_soon(take)
    rows = await floor.sql("SELECT trigger_comment_id AS first, context FROM agent_task_queue")
    kept = [str(row["first"]) for row in rows]
    kept += [each for row in rows for each in row["context"].get("coalesced_comment_ids", [])]
    assert sorted(kept) == sorted(map(str, answers))
