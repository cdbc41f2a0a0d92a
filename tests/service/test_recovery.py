"""What time does to runs: found by `recover`, which is called at the instant that it named last."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
import trio

from engine import limits
from engine.domain.commands.runs import ClaimRuns, RenewLease, WaitLocalDirectory
from engine.domain.commands.wakeups import ListRules
from engine.domain.decision import RECOVERY_WAIT
from engine.service.recovery import Recovered, recover
from engine.storage import queries
from engine.storage.database import Lane, Query, Session
from tests.service.runs_seed import Floor, floor

__all__ = ["floor"]

CLAIM = "dispatched_at"
WORK = "started_at"


async def recovered(floor: Floor) -> Recovered:
    """Call recovery once, as the engine does."""
    return (await floor.execute.database.write(Lane.BACKGROUND, recover)).result


async def now(floor: Floor) -> datetime:
    (row,) = await floor.sql("SELECT wakeful_now() AS now")
    at: datetime = row["now"]
    return at


async def seconds_until_due(floor: Floor, found: Recovered) -> float:
    assert found.next_due is not None
    return (found.next_due - await now(floor)).total_seconds()


async def ages(floor: Floor, run_id: UUID, column: str, seconds: float) -> None:
    """Move one time of a run, and its lease with it, into the past."""
    await floor.sql(
        f"UPDATE agent_task_queue SET {column} = {column} - make_interval(secs => $2)"
        " WHERE id = $1",
        run_id,
        seconds,
    )
    await floor.sql(
        "UPDATE run_lease SET expires_at = expires_at - make_interval(secs => $2)"
        " WHERE task_id = $1",
        run_id,
        seconds,
    )


async def silent(floor: Floor, seconds: float) -> None:
    """The runtime of the world gave its last sign of life so long ago."""
    await floor.sql(
        "UPDATE agent_runtime SET last_seen_at = wakeful_now() - make_interval(secs => $1)",
        seconds,
    )


async def rows(floor: Floor) -> list[dict[str, Any]]:
    found = await floor.sql("SELECT * FROM agent_task_queue ORDER BY created_at, id")
    return [dict(row.items()) for row in found]


# --- Nothing to do ------------------------------------------------------------------------------


async def test_an_idle_engine_has_nothing_to_wait_for(floor: Floor) -> None:
    """W-097, W-074: without runs, or with ended and waiting wakeup runs, nothing becomes due."""
    assert await recovered(floor) == Recovered()
    await floor.fire(await floor.wakeup())
    await floor.sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, status) SELECT $1, $2, s"
        "  FROM unnest(ARRAY['completed', 'failed', 'cancelled']) s",
        floor.world.a,
        floor.world.issue,
    )
    assert await recovered(floor) == Recovered()


# --- Lost claims and lost work ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "silence", "is_lost"),
    [
        (299, 0, False),  # young
        (301, 0, True),  # the daemon lives, and neither starts nor claims anew
        (301, 151, False),  # offline, and may come back
        (301, 10_700, False),
        (301, 10_801, True),  # gone for longer than the grace
    ],
)
@pytest.mark.parametrize("waits", [False, True])
async def test_a_lost_claim_fails_after_its_limits(
    floor: Floor, age: float, silence: float, is_lost: bool, waits: bool
) -> None:
    """W-097: a claim without start and lease fails after 300 s, of an offline runtime after 3 h."""
    await floor.enqueue()
    run = await floor.claim_one()
    if waits:
        await floor.report(WaitLocalDirectory(run_id=run.id, reason="busy"))
    await ages(floor, run.id, CLAIM, age)
    await silent(floor, silence)
    found = await recovered(floor)
    assert (await floor.status(run.id) == "failed") is is_lost
    if not is_lost:
        expected = limits.RECONNECT_GRACE_SECONDS - silence if silence else 300 - age
        assert await seconds_until_due(floor, found) == pytest.approx(expected, abs=0.9)


@pytest.mark.parametrize(
    ("age", "silence", "is_lost"),
    [
        (9_001, 0, False),  # long work of a daemon that lives
        (9_001, 10_700, False),
        (8_999, 10_801, False),
        (9_001, 10_801, True),
    ],
)
async def test_lost_work_fails_after_its_limits(
    floor: Floor, age: float, silence: float, is_lost: bool
) -> None:
    """W-097: a run fails after 9,000 s of work, when its runtime was silent for 3 h, not before."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.start(run)
    await ages(floor, run.id, WORK, age)
    await silent(floor, silence)
    found = await recovered(floor)
    assert (await floor.status(run.id) == "failed") is is_lost
    if not is_lost:
        expected = max(9_000 - age, limits.RECONNECT_GRACE_SECONDS - silence)
        assert await seconds_until_due(floor, found) == pytest.approx(expected, abs=0.9)


async def test_lost_work_is_retried(floor: Floor) -> None:
    """W-097, W-110: lost work fails with `timeout`, its credential ends, and a retry is queued."""
    wakeup = await floor.wakeup()
    fired = await floor.fire(wakeup, wakeup_evidence={"facts": [1]}, wakeup_joined=[{"note": "x"}])
    await floor.start(await floor.claim_one())
    await ages(floor, fired, WORK, 9_001)
    await silent(floor, 10_801)
    found = await recovered(floor)
    lost, again = await rows(floor)
    assert (lost["status"], lost["failure_reason"]) == ("failed", "timeout")
    assert lost["completed_at"] is not None
    same = ("agent_id", "context", "handoff_note", "originator_user_id", "accountable_user_id")
    assert {name: again[name] for name in same} == {name: lost[name] for name in same}
    assert (again["status"], again["attempt"], again["retry_of_task_id"]) == ("queued", 2, fired)
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert found.issues == {floor.world.issue}
    assert found.runtimes == {floor.world.runtime_id}
    (entry,) = await floor.sql(
        "SELECT actor_type, details FROM activity_log WHERE action = 'run_failed'"
    )
    assert entry["details"] == {"task_id": str(fired), "failure_reason": "timeout"}
    assert found.next_due is None, "a wakeup run waits for its runtime for ever"


async def test_wakeup_runs_fail_at_the_age_of_others(floor: Floor) -> None:
    """W-094: a wakeup run and a comment run with equal histories fail in the same sweep."""
    fired = await floor.fire(await floor.wakeup())
    other = await floor.enqueue(agent_id=floor.world.b)
    for run in await floor.claim(max_tasks=2):
        await floor.start(run)
    for age in (8_000, 999):
        for run_id in (fired, other.id):
            await ages(floor, run_id, WORK, age)
        await silent(floor, 10_801)
        await recovered(floor)
        assert await floor.status(fired) == await floor.status(other.id) == "running"
    for run_id in (fired, other.id):
        await ages(floor, run_id, WORK, 2)
    await recovered(floor)
    assert await floor.status(fired) == await floor.status(other.id) == "failed"


async def test_a_lease_keeps_a_claim(floor: Floor) -> None:
    """W-105: a claim that is prepared for long is not lost while its lease is renewed."""
    await floor.enqueue()
    run = await floor.claim_one()
    await ages(floor, run.id, CLAIM, 400)
    await floor.report(RenewLease(run_id=run.id))
    found = await recovered(floor)
    assert await floor.status(run.id) == "dispatched"
    assert await seconds_until_due(floor, found) == pytest.approx(45, abs=0.9)


async def test_an_end_by_time_is_a_fact(floor: Floor) -> None:
    """W-097: rules that listen hear of the failure and of the retry, once each."""
    await floor.wakeup(
        kind="event",
        mode="continuous",
        enabled=True,
        event_types=["task.failed", "task.queued"],
        agent_id=floor.world.b,
    )
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.sql("UPDATE issue_wakeup_receipt SET processed_at = wakeful_now()")
    await ages(floor, run.id, CLAIM, 301)
    await recovered(floor)
    await recovered(floor)
    found = await floor.sql(
        "SELECT event_type, payload ->> 'coalesced_count' AS count FROM issue_wakeup_receipt"
        " WHERE processed_at IS NULL ORDER BY event_type"
    )
    assert [tuple(row.values()) for row in found] == [("task.failed", "1"), ("task.queued", "1")]


async def test_the_lost_run_of_a_deleted_issue_ends(floor: Floor) -> None:
    """W-097, W-189: lost work in an issue that is gone ends as well, without a retry."""
    await floor.enqueue()
    run = await floor.claim_one()
    await ages(floor, run.id, CLAIM, 301)
    await floor.sql("DELETE FROM activity_log")
    await floor.sql("DELETE FROM issue WHERE title = 'I'")
    await recovered(floor)
    assert [row["status"] for row in await rows(floor)] == ["failed"]


async def test_what_is_locked_is_looked_at_again_soon(floor: Floor) -> None:
    """W-097: recovery waits for nobody: a locked run stays as it is and is due in a moment."""
    await floor.enqueue()
    run = await floor.claim_one()
    await ages(floor, run.id, CLAIM, 301)
    lock = Query("test.lock", "SELECT FROM agent_task_queue FOR NO KEY UPDATE")
    found: list[Recovered] = []

    async def hold(session: Session) -> None:
        await session.execute(lock)
        held.set()
        while not found:  # the recovery below runs on another connection meanwhile
            await session.execute(lock)

    held = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(floor.execute.database.write, Lane.API, hold)
            await held.wait()
            found.append(await recovered(floor))
    assert await floor.status(run.id) == "dispatched"
    assert 0 < await seconds_until_due(floor, found[0]) <= limits.RECOVERY_PAUSE_SECONDS
    await recovered(floor)
    assert await floor.status(run.id) == "failed"


async def test_one_call_is_bounded(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-097: what does not fit into one call is left for another one a moment later."""
    monkeypatch.setattr("engine.service.recovery._MOST", 2)
    for name in ("C", "D"):
        await floor.enqueue(agent_id=await floor.agent(name))
    await floor.enqueue()
    for run in await floor.claim(max_tasks=9):
        await ages(floor, run.id, CLAIM, 301)
    found = await recovered(floor)
    assert await seconds_until_due(floor, found) <= limits.RECOVERY_PAUSE_SECONDS
    failed = [row for row in await rows(floor) if row["status"] == "failed"]
    assert len(failed) == 2
    await recovered(floor)
    assert len([row for row in await rows(floor) if row["status"] == "failed"]) == 3


# --- Waiting in the queue -----------------------------------------------------------------------


async def test_ordinary_runs_expire_and_wakeup_runs_wait(floor: Floor) -> None:
    """W-109: after two hours queued a comment run fails; a wakeup run is claimed on return."""
    run = await floor.enqueue()
    fired = await floor.fire(await floor.wakeup())
    found = await recovered(floor)
    assert await seconds_until_due(floor, found) == pytest.approx(7_200, abs=0.9)
    await floor.pass_seconds(7_199)
    await recovered(floor)
    assert await floor.status(run.id) == "queued"
    await floor.pass_seconds(3_601)
    found = await recovered(floor)
    (row, *_) = [row for row in await rows(floor) if row["id"] == run.id]
    assert (row["status"], row["failure_reason"]) == ("failed", "queued_expired")
    assert (await floor.status(fired), found.next_due) == ("queued", None)
    assert len(await rows(floor)) == 2, "it is not retried"
    await floor.beat()
    assert (await floor.claim_one()).id == fired


async def test_waiting_counts_from_the_last_queueing(floor: Floor) -> None:
    """W-109: a run given back, promoted or asked for once more has its two hours from then on."""
    run = await floor.enqueue(note="one")
    await floor.pass_seconds(7_000)
    await floor.enqueue(note="two")
    await floor.pass_seconds(7_000)
    await recovered(floor)
    assert await floor.status(run.id) == "queued"
    await floor.pass_seconds(201)
    await recovered(floor)
    assert await floor.status(run.id) == "failed"


async def test_what_was_lost_with_its_runtime_waits_for_it(floor: Floor) -> None:
    """W-109: the retry of a run whose runtime went offline does not expire."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.sql(
        "UPDATE agent_task_queue SET status = 'failed', failure_reason = 'runtime_offline'"
    )
    again = await floor.enqueue()
    await floor.sql(
        "UPDATE agent_task_queue SET retry_of_task_id = $1 WHERE id = $2", run.id, again.id
    )
    await floor.pass_seconds(8_000)
    assert (await recovered(floor)).next_due is None
    assert await floor.status(again.id) == "queued"


# --- Deferred runs ------------------------------------------------------------------------------


async def test_a_deferred_run_is_promoted_at_its_time(floor: Floor) -> None:
    """W-097: a run with `fire_at` is queued when that has come, without anybody claiming."""
    (row,) = await floor.sql("SELECT wakeful_now() + interval '1 hour' AS at")
    run = await floor.create(fire_at=row["at"])
    assert run.status == "deferred"
    found = await recovered(floor)
    assert (found.next_due, await floor.status(run.id)) == (row["at"], "deferred")
    await floor.pass_seconds(3_601)
    assert await recovered(floor) == Recovered(), "its runtime is offline: it waits for that"
    await floor.beat()
    found = await recovered(floor)
    assert found.runtimes == {floor.world.runtime_id}
    assert await floor.status(run.id) == "queued"
    assert await seconds_until_due(floor, found) == pytest.approx(7_200, abs=0.9)


async def test_a_due_retry_gives_way_to_a_successor(floor: Floor) -> None:
    """W-110: a deferred retry whose slot is taken when its time comes is not made."""
    first = await floor.enqueue()
    (late,) = await floor.sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, status, fire_at,"
        "   retry_of_task_id, originator_user_id)"
        " VALUES ($1, $2, $3, 'deferred', wakeful_now() - interval '1 s', $4, $5) RETURNING id",
        floor.world.a,
        floor.world.issue,
        floor.world.runtime_id,
        first.id,
        floor.world.m.user_id,
    )
    joined = await floor.enqueue(note="more")
    assert joined.id == first.id, "a request never joins a retry that may be given up"
    await recovered(floor)
    assert await floor.status(late["id"]) == "cancelled"
    assert await floor.status(first.id) == "queued"


# --- Rules that wait for a claim ----------------------------------------------------------------


async def last_error(floor: Floor) -> str | None:
    (rule,) = await floor.execute(floor.world.m, ListRules(issue_id=floor.world.issue))
    text: str | None = rule.last_error
    return text


async def test_a_silent_claim_is_told(floor: Floor) -> None:
    """W-100: 90 s after a claim without start and lease its rule says that it waits."""
    fired = await floor.fire(await floor.wakeup())
    run = await floor.claim_one()
    assert await seconds_until_due(floor, await recovered(floor)) == pytest.approx(90, abs=0.9)
    await ages(floor, fired, CLAIM, 89)
    await recovered(floor)
    assert await last_error(floor) is None
    await ages(floor, fired, CLAIM, 1)
    found = await recovered(floor)
    assert await last_error(floor) == RECOVERY_WAIT
    assert await seconds_until_due(floor, found) == pytest.approx(210, abs=0.9), "then it fails"
    await floor.sql("UPDATE run_lease SET expires_at = wakeful_now() + interval '9 s'")
    await recovered(floor)
    assert await last_error(floor) is None, "the daemon prepares after all"
    await floor.sql("UPDATE run_lease SET expires_at = wakeful_now()")
    await recovered(floor)
    assert await last_error(floor) == RECOVERY_WAIT
    (row,) = await floor.sql("SELECT dispatched_at FROM agent_task_queue")
    assert run.dispatched_at is not None
    again = await floor.claim_one()
    assert again.id == fired
    assert again.dispatched_at > row["dispatched_at"]
    await floor.start(again)
    assert await last_error(floor) is None, "a start takes it back at once"


async def test_a_recovered_claim_takes_its_text_back(floor: Floor) -> None:
    """W-253: when the claim is redelivered or has ended, the rule's text goes; others stay."""
    wakeup = await floor.wakeup()
    fired = await floor.fire(wakeup)
    await floor.claim_one()
    await ages(floor, fired, CLAIM, 91)
    await recovered(floor)
    await floor.claim_one()
    await recovered(floor)
    assert await last_error(floor) is None
    await floor.sql("UPDATE issue_wakeup SET last_error = 'something else'")
    await recovered(floor)
    assert await last_error(floor) == "something else"


async def test_a_rule_that_is_off_says_why_it_is_off(floor: Floor) -> None:
    """W-100: a rule that is switched off waits for nothing, and is not looked at again."""
    fired = await floor.fire(await floor.wakeup(disabled_at=await now(floor), last_error="closed"))
    await floor.sql(
        "UPDATE agent_task_queue SET status = 'dispatched',"
        " dispatched_at = wakeful_now() - interval '100 s' WHERE id = $1",
        fired,
    )
    found = await recovered(floor)
    assert await last_error(floor) == "closed"
    assert await seconds_until_due(floor, found) == pytest.approx(200, abs=0.9)


# --- Plans --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "index"),
    [
        ("mark_waiting", (RECOVERY_WAIT, 90, 500), "agent_task_claimed_idx"),
        ("unmark_recovered", (RECOVERY_WAIT, 90, 500), "issue_wakeup_error_idx"),
        ("lost", (300, 9_000, 150, 10_800, 500), "agent_task_running_idx"),
        ("expired", (7_200, 500), "agent_task_expiry_idx"),
        ("cancel_superseded", ("x", 500), "agent_task_due_idx"),
        ("due", (150, 500), "agent_task_due_idx"),
        ("next_due", (RECOVERY_WAIT, 90, 300, 9_000, 150, 10_800, 7_200), "agent_task_claimed_idx"),
    ],
)
async def test_recovery_reads_by_index(
    floor: Floor, name: str, args: tuple[object, ...], index: str
) -> None:
    """W-097: whatever the queue holds, recovery reads runs and rules by index alone."""
    await floor.sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, status, fire_at,"
        "   dispatched_at, started_at)"
        " SELECT a.id, gen_random_uuid(), a.runtime_id, s, wakeful_now(), wakeful_now(),"
        "        wakeful_now()"
        "   FROM agent a, generate_series(1, 100),"
        "        unnest(ARRAY['completed', 'queued', 'deferred', 'dispatched', 'running']) s"
    )
    await floor.sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, enabled)"
        " SELECT a.workspace_id, i.id, a.id, a.owner_id, 'x', 'at', 'once', false"
        "   FROM agent a JOIN issue i ON i.workspace_id = a.workspace_id, generate_series(1, 200)"
    )
    await floor.sql("ANALYZE")
    sql = queries.load("recovery")
    explain = Query("test.explain", f"EXPLAIN {getattr(sql, name).text}")

    async def plan(session: Session) -> list[str]:
        row = await session.fetchrow(sql.now)
        assert row is not None
        lines = await session.fetch(explain, row["now"], *args)
        return [line["QUERY PLAN"].strip() for line in lines]

    lines = (await floor.execute.database.write(Lane.BACKGROUND, plan)).result
    assert any(index in line for line in lines), "\n".join(lines)
    assert not any("Seq Scan on agent_task_queue" in line for line in lines), "\n".join(lines)
    assert not any("Seq Scan on issue_wakeup" in line for line in lines), "\n".join(lines)


# --- Together with claims -----------------------------------------------------------------------


async def test_a_claim_and_a_recovery_share_the_due_runs(floor: Floor) -> None:
    """W-098: promoted by both at once, every due run is queued once, one a slot."""
    (row,) = await floor.sql("SELECT wakeful_now() + interval '1 s' AS at")
    for number in range(8):
        agent = await floor.agent(f"worker {number}")
        for _ in range(2):
            await floor.enqueue(agent_id=agent, fire_at=row["at"])
    await floor.pass_seconds(2)
    claim = ClaimRuns(daemon_id="daemon-1", runtime_ids=(floor.world.runtime_id,), max_tasks=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.execute.database.write, Lane.BACKGROUND, recover)
        nursery.start_soon(floor.execute, floor.world.daemon, claim)
    await recovered(floor)
    statuses = sorted(row["status"] for row in await rows(floor))
    assert statuses.count("deferred") == 8
    assert statuses.count("queued") + statuses.count("dispatched") == 8
