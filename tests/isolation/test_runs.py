"""Where claims, reports, recovery and dispatches meet over one run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import attrs
import pytest

from engine.domain.commands.runs import CancelRun, CompleteRun, FailRun, RerunIssue, StartRun
from engine.domain.commands.wakeups import CheckIn
from engine.domain.views.runs import ClaimAttempt
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import (
    A_COMMENT,
    as_daemon,
    as_run,
    claim,
    dispatch,
    dispatch_free,
    recovery,
    use_case,
    writer,
)
from tests.isolation.places import (
    Place,
    a_place,
    dispatch_rest,
    runs_at,
    say,
    told,
    with_rule,
    with_run,
)
from tests.isolation.specification import SAMPLE_MAX, Ends, Part, Specification

CLAIMING: Final = ("claims.lock_agents", "claims.hold", "claims.hand_out")
CLAIMED_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
CLAIMED: Final = Query(
    "runs.claimed",
    "UPDATE agent_task_queue SET status = 'dispatched', dispatched_at = '2026-01-01T00:00:00Z'"
    " WHERE id = $1",
)
LONG_AGO: Final = Query(
    "runs.long_ago",
    "UPDATE agent_task_queue"
    "   SET status = 'dispatched', dispatched_at = wakeful_now() - interval '1 hour' WHERE id = $1",
)
DUE: Final = Query(
    "runs.due",
    "UPDATE agent_task_queue SET fire_at = wakeful_now() - interval '1 second' WHERE id = $1",
)
BY_AGENT: Final = Query(
    "runs.by_agent", "SELECT count(*) FROM comment WHERE issue_id = $1 AND author_type = 'agent'"
)


async def one_fact(session: Session, world: World) -> Place:
    """A rule with a fact that waits."""
    place = await with_rule(session, await a_place(session, world))
    await say(session, place)
    return place


async def a_queued_run(session: Session, world: World) -> Place:
    """A rule whose fact has become a queued run, and another fact that waits."""
    place = await one_fact(session, world)
    assert isinstance(session, Dedicated)
    await dispatch_rest(session, place)
    (run,) = await runs_at(session, place)
    await say(session, place)
    return attrs.evolve(place, run=run["id"])


async def a_run_at_work(session: Session, world: World) -> Place:
    """A rule whose run is at work, and a fact that waits for the next one."""
    place = await one_fact(session, world)
    return await with_run(session, place, status="running")


def fail() -> Part:
    """The daemon reports a failure that is tried again."""
    return use_case(
        "fail",
        lambda place: FailRun(run_id=place.run, failure_reason="runtime_offline"),
        by=as_daemon,
        stops=("runs.fail", "runs.retry"),
    )


async def test_cancelling_a_claim_that_is_recovered(explored: Exploring) -> None:
    """W-097, W-105: a lost claim is cancelled, or handed out again, or tried again: one of them."""

    async def a_lost_claim(session: Session, world: World) -> Place:
        place = await with_run(session, await a_place(session, world))
        await session.execute(LONG_AGO, place.run)
        return place

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        attempt = ends["claim"].result
        assert isinstance(attempt, ClaimAttempt)
        run, *retries = await runs_at(session, place)
        assert len(retries) == (run["status"] == "failed")
        claimed = [each.id for each in attempt.runs]
        match run["status"]:
            case "failed":
                assert ends["cancel"].code == "invalid_transition"
                assert claimed in ([], [retries[0]["id"]])
            case "cancelled":
                assert ends["cancel"].is_done
                assert claimed in ([], [run["id"]])
            case other:
                raise AssertionError(other)
        return f"{run['status']}, {len(claimed)} claimed"

    cancel = use_case(
        "cancel",
        lambda place: CancelRun(run_id=place.run),
        stops=("runs.lock", "runs.cancel", "runs.end_claim"),
        may=("invalid_transition",),
    )
    found = await explored(
        Specification(
            parts=(
                cancel,
                recovery(stops=("recovery.lost", "runs.fail_many", "runs.retry")),
                claim(stops=CLAIMING),
            ),
            prepare=a_lost_claim,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() >= {
        "failed, 0 claimed",
        "failed, 1 claimed",
        "cancelled, 0 claimed",
        "cancelled, 1 claimed",
    }
    assert {("cancel", "recovery"), ("cancel", "claim")} <= {*found.waits}


async def test_a_retry_and_a_run_of_new_facts(explored: Exploring) -> None:
    """W-081, W-110: a run that is tried again is beside no other waiting run of its rule."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        failed, *waiting = await runs_at(session, place)
        assert failed["status"] == "failed"
        assert [run["status"] for run in waiting] == ["queued"]
        await dispatch_rest(session, place)
        (receipt,) = await told(session, place.rule)
        assert receipt["task_id"] == waiting[0]["id"]
        return "retried" if waiting[0]["retry_of_task_id"] else "not retried"

    found = await explored(
        Specification(
            parts=(fail(), dispatch()), prepare=a_run_at_work, judge=judge, orders_max=SAMPLE_MAX
        )
    )
    assert found.outcomes.keys() == {"retried", "not retried"}


async def heard(session: Session, place: Place) -> Place:
    """Another rule hears of every failed and queued run of the issue."""
    hearing = await with_rule(session, place, event_types=["task.failed", "task.queued"])
    return attrs.evolve(place, other=hearing.rule)


async def one_waits(session: Dedicated, place: Place) -> str:
    """The rule has one run that waits, of whichever origin, and the other rule knows of runs."""
    assert await told(session, place.other)
    runs = [run for run in await runs_at(session, place) if run["wakeup_id"] == place.rule]
    (waiting,) = [run for run in runs if run["status"] == "queued"]
    return "retried" if waiting["retry_of_task_id"] else "not retried"


@pytest.mark.parametrize("dispatching", [dispatch(), dispatch_free()], ids=["alone", "in a group"])
async def test_a_retry_that_a_rule_hears_of(explored: Exploring, dispatching: Part) -> None:
    """W-078, W-110: the same where the failure is a fact for a rule of the issue: no deadlock."""

    async def a_heard_run(session: Session, world: World) -> Place:
        return await heard(session, await a_run_at_work(session, world))

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        return await one_waits(session, place)

    found = await explored(
        Specification(parts=(fail(), dispatching), prepare=a_heard_run, judge=judge)
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"retried", "not retried"}


@pytest.mark.parametrize("dispatching", [dispatch(), dispatch_free()], ids=["alone", "in a group"])
async def test_a_promotion_that_a_rule_hears_of(explored: Exploring, dispatching: Part) -> None:
    """W-078, W-097: a deferred retry that comes due beside a dispatch of its rule: no deadlock."""

    async def a_deferred_retry(session: Session, world: World) -> Place:
        failed = await with_run(session, await one_fact(session, world), status="failed")
        retry = await with_run(session, failed, status="deferred", retry_of_task_id=failed.run)
        await session.execute(DUE, retry.run)
        return await heard(session, retry)

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        assert await one_waits(session, place)
        (run,) = [run for run in await runs_at(session, place) if run["id"] == place.run]
        return str(run["status"])

    found = await explored(
        Specification(
            parts=(recovery(stops=("claims.promote",)), dispatching),
            prepare=a_deferred_retry,
            judge=judge,
        )
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"queued", "deferred", "cancelled"}


async def test_a_check_in_and_the_end_of_its_run(explored: Exploring) -> None:
    """W-154, W-155: a run that checks in posts no output, and no ended run checks in."""

    async def a_check(session: Session, world: World) -> Place:
        place = await with_rule(
            session,
            await a_place(session, world),
            kind="every",
            event_types=[],
            interval_seconds=3_600,
        )
        return await with_run(session, place, status="running")

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        posted = await session.fetchval(BY_AGENT, place.issue)
        (run,) = await runs_at(session, place)
        has_checked_in = "wakeup_checkin" in run["context"]
        assert run["status"] == "completed"
        assert (has_checked_in, posted) == (ends["check-in"].is_done, 1 - has_checked_in)
        return ends["check-in"].code

    parts = (
        use_case(
            "check-in",
            lambda place: CheckIn(issue_id=place.issue, rule_id=place.rule, note="all is well"),
            by=as_run,
            stops=("wakeups.lock_own_run", "wakeups.check_in"),
            may=("conflict",),
        ),
        use_case(
            "complete",
            lambda place: CompleteRun(run_id=place.run, output="all is well"),
            by=as_daemon,
            stops=("runs.complete", "runs.fallback_comments"),
        ),
    )
    found = await explored(
        Specification(parts=parts, prepare=a_check, judge=judge, orders_max=SAMPLE_MAX)
    )
    assert found.outcomes.keys() == {"done", "conflict"}
    assert found.waits.keys() == {("check-in", "complete"), ("complete", "check-in")}


async def test_two_claims_of_one_agent(explored: Exploring) -> None:
    """G-05: of two runs of one agent on one issue two claims get one run between them."""

    async def two_runs(session: Session, world: World) -> Place:
        place = await with_run(session, await with_rule(session, await a_place(session, world)))
        other = await with_run(session, await with_rule(session, place))
        return attrs.evolve(place, other=other.run)

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        attempts = [ended.result for ended in ends.values()]
        counts = [len(each.runs) for each in attempts if isinstance(each, ClaimAttempt)]
        statuses = sorted(run["status"] for run in await runs_at(session, place))
        assert statuses == ["dispatched", "queued"]
        return f"{counts}"

    found = await explored(
        Specification(
            parts=(claim("one", stops=CLAIMING), claim("two", stops=CLAIMING)),
            prepare=two_runs,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"[1, 0]", "[0, 1]"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}


async def test_a_claim_beside_a_dispatch_and_a_comment(explored: Exploring) -> None:
    """W-099, W-100: facts go into the note before the claim, or wait: a claimed note is fixed."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        attempt = ends["claim"].result
        assert isinstance(attempt, ClaimAttempt)
        await dispatch_rest(session, place)
        (run,) = await runs_at(session, place)
        receipts = await told(session, place.rule)
        assert sum(each["count"] for each in receipts) == 3
        waiting = sum(each["count"] for each in receipts if not each["is_over"])
        for claimed in attempt.runs:
            assert run["status"] == "dispatched"
            assert run["handoff_note"] == claimed.handoff_note
            assert run["handoff_note"] in claimed.prompt
        return f"{len(attempt.runs)} claimed, {waiting} wait"

    found = await explored(
        Specification(
            parts=(claim(stops=CLAIMING), writer("psql", A_COMMENT), dispatch()),
            prepare=a_queued_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() >= {"1 claimed, 2 wait", "1 claimed, 1 wait", "1 claimed, 0 wait"}
    assert ("dispatch", "claim") in found.waits


def rerun(**changes: Any) -> Part:
    """M asks for the run of the place once more."""
    return use_case(
        "rerun",
        lambda place: RerunIssue(issue_id=place.issue, task_id=place.run),
        stops=("reruns.lock_rule", "reruns.lock_pending", "wakeups.cancel_runs", "reruns.insert"),
        **changes,
    )


async def test_asking_once_more_beside_a_dispatch_and_a_claim(explored: Exploring) -> None:
    """W-111, G-04: a run once more takes the place of the waiting one, with its facts."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        await dispatch_rest(session, place)
        runs = await runs_at(session, place)
        (run,) = [run for run in runs if run["status"] in ("queued", "dispatched")]
        facts = run["context"]["wakeup_evidence"]["facts"]
        carried = sum(fact["payload"].get("coalesced_count", 1) for fact in facts)
        receipts = await told(session, place.rule)
        waiting = sum(each["count"] for each in receipts if not each["is_over"])
        assert carried + waiting == 2
        return f"{run['status']}, {waiting} wait"

    found = await explored(
        Specification(
            parts=(rerun(), claim(stops=CLAIMING), dispatch()),
            prepare=a_queued_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() >= {"queued, 0 wait", "dispatched, 0 wait", "dispatched, 1 wait"}
    assert {("rerun", "dispatch"), ("dispatch", "rerun"), ("rerun", "claim")} <= {*found.waits}


async def test_asking_once_more_for_a_run_that_starts(explored: Exploring) -> None:
    """W-111, G-05: a claimed run is started, or taken back in favour of another one: never both."""

    async def a_claimed_run(session: Session, world: World) -> Place:
        place = await with_run(session, await one_fact(session, world))
        await session.execute(CLAIMED, place.run)
        return place

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        statuses = [run["status"] for run in await runs_at(session, place)]
        if ends["start"].is_done:
            assert statuses == ["running"]
        else:
            assert statuses == ["cancelled", "queued"]
        return f"start {ends['start'].code}, rerun {ends['rerun'].code}"

    parts = (
        rerun(may=("invalid_transition",)),
        use_case(
            "start",
            lambda place: StartRun(run_id=place.run, dispatched_at=CLAIMED_AT),
            by=as_daemon,
            stops=("runs.start",),
            may=("invalid_transition",),
        ),
    )
    found = await explored(
        Specification(parts=parts, prepare=a_claimed_run, judge=judge, orders_max=SAMPLE_MAX)
    )
    assert found.outcomes.keys() == {
        "start done, rerun invalid_transition",
        "start invalid_transition, rerun done",
    }
    assert found.waits.keys() == {("rerun", "start"), ("start", "rerun")}
