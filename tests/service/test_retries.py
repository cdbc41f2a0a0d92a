"""Which failures are tried again, and with what (W-110)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from engine.domain.commands.runs import FailRun
from tests.service.runs_seed import Floor, floor

__all__ = ["floor"]

NETWORK = "agent_error.provider_network"


async def fail(floor: Floor, reason: str | None, times: int = 1) -> UUID:
    """Claim and start a run, report its failure, and return it."""
    run = await floor.claim_one()
    await floor.start(run)
    for _ in range(times):
        await floor.report(FailRun(run_id=run.id, error="oh", failure_reason=reason))
    return run.id


async def retry_of(floor: Floor, run_id: UUID) -> dict[str, Any] | None:
    found = await floor.sql("SELECT * FROM agent_task_queue WHERE retry_of_task_id = $1", run_id)
    assert len(found) <= 1, "never two"
    return dict(found[0].items()) if found else None


@pytest.mark.parametrize(
    ("reason", "is_retried"),
    [
        ("timeout", True),
        ("runtime_offline", True),
        ("runtime_recovery", True),
        ("codex_semantic_inactivity", True),
        ("skill_bundle_unavailable", True),
        (NETWORK, True),
        (None, False),
        ("agent_error", False),
        ("invalid_task_identity", False),
        ("queued_expired", False),
        ("something else", False),
    ],
)
async def test_reasons_that_are_tried_again(
    floor: Floor, reason: str | None, is_retried: bool
) -> None:
    """W-110: what failed for reasons of its surroundings is queued anew, once and at once."""
    await floor.enqueue(note="mind the gap")
    failed = await fail(floor, reason, times=3)
    again = await retry_of(floor, failed)
    assert (again is not None) is is_retried
    assert floor.execute.work is not None
    assert (await floor.claim() != ()) is is_retried


async def test_a_retry_carries_everything_on(floor: Floor) -> None:
    """W-110: a retry has note, context, joined notes and attribution of the first attempt."""
    fired = await floor.fire(
        await floor.wakeup(),
        wakeup_evidence={"facts": [1]},
        wakeup_chain=["a"],
        wakeup_joined=[{"note": "x"}],
        wakeup_checkin={"note": "done"},
    )
    await floor.sql(
        "UPDATE agent_task_queue SET accountable_user_id = originator_user_id, priority = 3,"
        " originator_source = 'trigger_owner', trigger_evidence_kind = 'issue_wakeup',"
        " trigger_evidence_ref_id = wakeup_id, delegated_from_task_id = gen_random_uuid(),"
        " trigger_summary = 'Wakeup: look'"
    )
    failed = await fail(floor, "timeout")
    assert failed == fired
    (first,) = await floor.sql("SELECT * FROM agent_task_queue WHERE id = $1", fired)
    again = await retry_of(floor, fired)
    assert again is not None
    for name in (
        "agent_id",
        "issue_id",
        "runtime_id",
        "priority",
        "handoff_note",
        "trigger_summary",
        "trigger_comment_id",
        "comment_thread_id",
        "originator_user_id",
        "accountable_user_id",
        "originator_source",
        "trigger_evidence_kind",
        "trigger_evidence_ref_id",
        "delegated_from_task_id",
        "wakeup_id",
    ):
        assert again[name] == first[name], name
    assert again["context"] == {
        name: value for name, value in first["context"].items() if name != "wakeup_checkin"
    }, "a check-in was about the first attempt"
    assert (again["attempt"], again["status"], again["started_at"]) == (2, "queued", None)
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {floor.world.runtime_id}


async def test_attempts_end(floor: Floor) -> None:
    """W-110: after as many attempts as allowed a failure is the end."""
    await floor.enqueue()
    first = await fail(floor, "timeout")
    second = await fail(floor, "timeout")
    assert (await retry_of(floor, first) or {})["id"] == second
    assert await retry_of(floor, second) is None


async def test_the_line_to_a_provider_is_tried_three_times(floor: Floor) -> None:
    """W-110: a broken line gets three attempts, the last one a few seconds later."""
    await floor.enqueue()
    first = await fail(floor, NETWORK)
    second = await fail(floor, NETWORK)
    last = await retry_of(floor, second)
    assert last is not None
    assert (last["attempt"], last["max_attempts"], last["status"]) == (3, 3, "deferred")
    assert 4 < (last["fire_at"] - last["created_at"]).total_seconds() <= 5
    found = await floor.attempt()
    assert (found.runs, found.next_look_at) == ((), last["fire_at"])
    await floor.pass_seconds(6)
    assert await fail(floor, NETWORK) == last["id"]
    assert await retry_of(floor, last["id"]) is None
    assert (await retry_of(floor, first) or {})["id"] == second


@pytest.mark.parametrize("reason", ["timeout", NETWORK])
async def test_no_retry_beside_a_successor(floor: Floor, reason: str) -> None:
    """W-110: when a later run of the scope waits already a failed one is not tried again."""
    wakeup = await floor.wakeup()
    await floor.fire(wakeup)
    run = await floor.claim_one()
    await floor.start(run)
    await floor.sql("UPDATE agent_task_queue SET attempt = 2, max_attempts = 3")
    await floor.fire(wakeup)
    await floor.report(FailRun(run_id=run.id, failure_reason=reason))
    assert await retry_of(floor, run.id) is None
    other = await floor.enqueue(agent_id=floor.world.b)
    assert len(await floor.claim(max_tasks=9)) == 2
    assert await floor.status(other.id) == "dispatched"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE issue SET status = 'done' WHERE title = 'I'",
        "UPDATE issue_wakeup SET disabled_at = wakeful_now()",
        "UPDATE issue_wakeup SET revision = revision + 1",
        "DELETE FROM issue_wakeup",
    ],
    ids=["closed", "disabled", "replaced", "deleted"],
)
@pytest.mark.parametrize("reason", ["timeout", NETWORK])
async def test_no_retry_that_no_claim_would_get(floor: Floor, change: str, reason: str) -> None:
    """W-186, W-106, G-09: a rule that is off, changed or gone queues no run, a retry neither."""
    await floor.fire(await floor.wakeup())
    run = await floor.claim_one()
    await floor.start(run)
    await floor.sql("UPDATE agent_task_queue SET attempt = 2, max_attempts = 3")
    await floor.sql(change)
    assert await floor.status(run.id) == "running"
    await floor.report(FailRun(run_id=run.id, failure_reason=reason))
    rows = await floor.sql("SELECT id, status FROM agent_task_queue")
    assert [(row["id"], row["status"]) for row in rows] == [(run.id, "failed")]


async def test_a_retry_is_a_fact_of_its_own(floor: Floor) -> None:
    """W-110, W-113: rules hear of one failure and one queued retry, however often it is said."""
    await floor.wakeup(
        kind="event",
        mode="continuous",
        enabled=True,
        event_types=["task.failed", "task.queued"],
        agent_id=floor.world.b,
    )
    await floor.enqueue()
    await floor.sql("UPDATE issue_wakeup_receipt SET processed_at = wakeful_now()")
    failed = await fail(floor, "timeout", times=3)
    found = await floor.sql(
        "SELECT event_type, payload FROM issue_wakeup_receipt WHERE processed_at IS NULL"
        " ORDER BY event_type"
    )
    assert [row["event_type"] for row in found] == ["task.failed", "task.queued"]
    assert {row["payload"]["coalesced_count"] for row in found} == {1}
    assert found[1]["payload"]["retry_of_task_id"] == str(failed)


async def test_a_late_attempt_says_when_it_is_due(floor: Floor) -> None:
    """W-110, W-074: the attempt that waits for a moment tells recovery its instant."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.start(run)
    await floor.sql("UPDATE agent_task_queue SET attempt = 2, max_attempts = 3")
    await floor.report(FailRun(run_id=run.id, failure_reason=NETWORK))
    again = await retry_of(floor, run.id)
    assert again is not None
    assert floor.execute.work is not None
    assert (again["status"], floor.execute.work.promotions) == ("deferred", [again["fire_at"]])
