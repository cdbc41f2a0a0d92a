"""Where runs that are tried again meet the end of what they were for."""

from __future__ import annotations

from typing import Final

import pytest

from engine.domain.commands.runs import FailRun, RegisterDaemon, RuntimeDraft
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import A_CLOSING, as_daemon, recovery, use_case, writer
from tests.isolation.places import Place, a_place, runs_at, with_rule, with_run
from tests.isolation.specification import Ends, Part, Specification

LOST: Final = Query(
    "retries.lost",
    "UPDATE agent_task_queue"
    "   SET status = 'dispatched', dispatched_at = wakeful_now() - interval '1 hour' WHERE id = $1",
)


async def a_lost_run(session: Session, world: World) -> Place:
    """A rule whose run was claimed an hour ago and has not started."""
    place = await with_run(session, await with_rule(session, await a_place(session, world)))
    await session.execute(LOST, place.run)
    return place


def fail() -> Part:
    """The daemon reports a failure that is tried again."""
    return use_case(
        "fail",
        lambda place: FailRun(run_id=place.run, failure_reason="runtime_offline"),
        by=as_daemon,
        stops=("runs.lock_claimed", "runs.fail", "runs.retry"),
    )


def registering() -> Part:
    """The daemon comes back, and does not work on its runs any more."""
    return use_case(
        "register",
        lambda _: RegisterDaemon(
            daemon_id="daemon-1", runtimes=(RuntimeDraft(name="main", provider="test"),)
        ),
        by=as_daemon,
        stops=("daemons.lock_rules", "daemons.lock_in_flight", "runs.retry"),
    )


def recovering() -> Part:
    """Time has run out for the claim."""
    return recovery(stops=("recovery.lost", "runs.fail_many", "runs.retry"))


@pytest.mark.parametrize("ending", [fail(), recovering()], ids=["reported", "lost"])
async def test_a_run_that_fails_while_its_issue_closes(explored: Exploring, ending: Part) -> None:
    """G-09, W-186: it is not tried again, or its retry is cancelled: nothing is left to start."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        first, *retries = await runs_at(session, place)
        assert [run["status"] for run in retries] in ([], ["cancelled"])
        assert first["status"] in ("failed", "dispatched"), "closing may hold up the recovery"
        return f"{first['status']}, {len(retries)} retry"

    found = await explored(
        Specification(parts=(writer("close", A_CLOSING), ending), prepare=a_lost_run, judge=judge)
    )
    assert found.is_complete
    assert found.outcomes.keys() >= {"failed, 0 retry", "failed, 1 retry"}


async def test_a_daemon_that_comes_back_while_an_issue_closes(explored: Exploring) -> None:
    """G-09, W-110: what it was working on is not tried again on an issue that closes."""

    async def a_run_at_work(session: Session, world: World) -> Place:
        place = await with_rule(session, await a_place(session, world))
        return await with_run(session, place, status="running")

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        first, *retries = await runs_at(session, place)
        assert first["status"] == "failed"
        assert [run["status"] for run in retries] in ([], ["cancelled"])
        return f"{len(retries)} retry"

    found = await explored(
        Specification(
            parts=(writer("close", A_CLOSING), registering()), prepare=a_run_at_work, judge=judge
        )
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"0 retry", "1 retry"}
