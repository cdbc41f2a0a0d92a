"""A run once more, because somebody asks for it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import engine.service.reruns  # noqa: F401 - registers its use case
from engine.domain.commands.runs import CompleteRun, FailRun, RerunIssue
from engine.domain.views.runs import ClaimedRun, RunView
from tests.service.conftest import RunOf
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]


async def finished(floor: Floor, run: ClaimedRun) -> UUID:
    await floor.start(run)
    await floor.report(CompleteRun(run_id=run.id, output="done"))
    return run.id


def asking(floor: Floor, run_id: UUID | None = None) -> RerunIssue:
    return RerunIssue(issue_id=floor.world.issue, task_id=run_id)


async def rerun(floor: Floor, run_id: UUID | None = None) -> RunView:
    view = await floor.execute(floor.world.m, asking(floor, run_id))
    assert isinstance(view, RunView)
    return view


def told(kind: str, count: int = 1) -> dict[str, Any]:
    """Return the evidence of one fact."""
    payload = {"event_id": kind, "event_type": kind, "coalesced_count": count}
    return {
        "version": 1,
        "instruction": "look again",
        "facts": [{"event_type": kind, "payload": payload}],
        "legacy": "",
        "omitted": False,
    }


async def test_a_finished_wakeup_run_is_run_once_more(floor: Floor) -> None:
    """W-111: the creator reruns a wakeup run; what waits in the scope is cancelled, and claimed."""
    wakeup = await floor.wakeup()
    await floor.fire(wakeup)
    first = await finished(floor, await floor.claim_one())
    older = await floor.fire(wakeup)
    elsewhere = await floor.enqueue()
    again = await rerun(floor, first)
    assert (again.rerun_of_task_id, again.wakeup_id, again.attempt) == (first, wakeup, 1)
    assert (again.status, again.originator_user_id) == ("queued", floor.world.m.user_id)
    assert await floor.status(older) == "cancelled"
    assert await floor.status(elsewhere.id) == "queued", "another scope"
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {floor.world.runtime_id}
    (row,) = await floor.sql(
        "SELECT accountable_user_id, originator_source, comment_thread_id FROM agent_task_queue"
        " WHERE id = $1",
        again.id,
    )
    assert tuple(row.values()) == (floor.world.m.user_id, "direct_human", wakeup)
    await floor.sql("DELETE FROM agent_task_queue WHERE id = $1", elsewhere.id)
    assert (await floor.claim_one()).id == again.id, "the claim gate lets it through"


async def test_facts_of_a_cancelled_run_go_along(floor: Floor) -> None:
    """W-111: a rerun carries what the cancelled run was to tell: no input is lost by asking."""
    wakeup = await floor.wakeup(kind="event", mode="continuous", event_types=["comment.created"])
    await floor.fire(wakeup, wakeup_evidence=told("comment.created", 2))
    first = await finished(floor, await floor.claim_one())
    await floor.fire(wakeup, wakeup_evidence=told("issue.updated", 3))
    again = await rerun(floor, first)
    facts = again.context["wakeup_evidence"]["facts"]
    counts = {fact["event_type"]: fact["payload"]["coalesced_count"] for fact in facts}
    assert counts["issue.updated"] == 3
    assert "issue.updated" in again.handoff_note


async def test_notes_and_comments_of_a_cancelled_run_go_along(floor: Floor) -> None:
    """W-111: of ordinary runs the note, and the comments that asked for them, go along once."""
    await floor.enqueue(note="first")
    first = await finished(floor, await floor.claim_one())
    await floor.enqueue(note="second")
    again = await rerun(floor, first)
    assert again.handoff_note == "first\n\nsecond"
    last = await rerun(floor, again.id)
    assert last.handoff_note == "first\n\nsecond", "a waiting run that is named replaces itself"
    assert await floor.status(again.id) == "cancelled"


async def test_a_claimed_run_of_the_scope_is_cancelled(floor: Floor) -> None:
    """W-111: a claim that was not started gives way, its credential ends, deferred runs go too."""
    await floor.enqueue()
    first = await finished(floor, await floor.claim_one())
    await floor.enqueue()
    claimed = await floor.claim_one()
    behind = await floor.enqueue()
    again = await rerun(floor, first)
    assert await floor.status(claimed.id) == await floor.status(behind.id) == "cancelled"
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert (await floor.claim_one()).id == again.id


async def test_without_a_name_it_is_the_latest_that_ended(floor: Floor) -> None:
    """W-111: without `task_id` the issue's latest finished run is run once more."""
    assert await refused(floor, floor.world.m, asking(floor)) == "invalid_transition"
    await floor.enqueue()
    await finished(floor, await floor.claim_one())
    await floor.enqueue(agent_id=floor.world.b)
    run = await floor.claim_one()
    await floor.report(FailRun(run_id=run.id))
    assert (await rerun(floor)).rerun_of_task_id == run.id


async def test_who_may_rerun(floor: Floor) -> None:
    """W-111: 403 for who may not invoke the agent, and for a wakeup run of somebody else."""
    wakeup = await floor.wakeup()
    await floor.fire(wakeup)
    first = await finished(floor, await floor.claim_one())
    for person in (floor.world.n, floor.world.g):
        assert await refused(floor, person, asking(floor, first)) == "cannot_invoke_agent"
    await floor.enqueue(agent_id=floor.world.p, originator_user_id=floor.world.o.user_id)
    private = await finished(floor, await floor.claim_one())
    assert await refused(floor, floor.world.m, asking(floor, private)) == "cannot_invoke_agent"
    assert await refused(floor, floor.world.s, asking(floor, first)) == "not_found"
    assert not await floor.sql("SELECT FROM agent_task_queue WHERE rerun_of_task_id IS NOT NULL")


async def test_an_agent_reruns_for_its_person(floor: Floor, run_of: RunOf) -> None:
    """W-111: an agent's rerun has the authority of the person behind it, and says who asked."""
    await floor.enqueue()
    first = await finished(floor, await floor.claim_one())
    agent = await run_of(floor.world.b, floor.world.issue, floor.world.m.user_id)
    again = await floor.execute(agent, asking(floor, first))
    assert again.originator_user_id == floor.world.m.user_id
    (row,) = await floor.sql(
        "SELECT originator_source, delegated_from_task_id FROM agent_task_queue WHERE id = $1",
        again.id,
    )
    assert tuple(row.values()) == ("delegation", agent.run_id)
    nobody = await run_of(floor.world.b, floor.world.other_issue, None)
    assert await refused(floor, nobody, asking(floor, first)) in ("no_human_principal", "not_found")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE issue_wakeup SET disabled_at = wakeful_now()", "wakeup_disabled"),
        ("DELETE FROM issue_wakeup", "wakeup_disabled"),
        ("UPDATE issue_wakeup SET revision = 2", "stale_revision"),
        ("UPDATE agent SET archived_at = wakeful_now() WHERE name = 'A'", "agent_unavailable"),
        ("UPDATE agent_task_queue SET status = 'running'", "invalid_transition"),
    ],
)
async def test_a_rerun_that_could_not_be_claimed_is_refused(
    floor: Floor, change: str, code: str
) -> None:
    """W-111, W-106: what the claim would refuse is refused when it is asked for."""
    await floor.fire(await floor.wakeup())
    first = await finished(floor, await floor.claim_one())
    await floor.sql(change)
    assert await refused(floor, floor.world.m, asking(floor, first)) == code


async def test_a_run_of_another_issue_is_not_there(floor: Floor) -> None:
    """W-111: `task_id` names a run of this issue."""
    other = await floor.enqueue(issue_id=floor.world.other_issue)
    assert await refused(floor, floor.world.m, asking(floor, other.id)) == "invalid_input"
