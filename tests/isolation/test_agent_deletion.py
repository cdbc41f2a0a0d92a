"""Where runs are tried again while a direct writer deletes their agent, or a member their issue."""

from __future__ import annotations

from typing import Any, Final

import attrs
import pytest

from engine.domain.commands.runs import FailRun, RegisterDaemon, RuntimeDraft
from engine.domain.commands.tracker import DeleteIssue
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import DAEMON, World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import as_daemon, recovery, use_case, writer
from tests.isolation.places import Place, a_place, runs_at, with_rule, with_run
from tests.isolation.specification import SAMPLE_MAX, Ends, Part, Specification

LOST: Final = Query(
    "agents.lost",
    "UPDATE agent_task_queue SET status = 'running', started_at = wakeful_now() - interval '1 day',"
    "       dispatched_at = wakeful_now() - interval '1 day' WHERE id = $1",
)
SILENT: Final = Query(
    "agents.silent",
    "UPDATE agent_runtime SET last_seen_at = wakeful_now() - interval '1 day' WHERE id = $1",
)
NAME: Final = Query("agents.name", "SELECT name FROM agent_runtime WHERE id = $1")
DELETE_AGENT: Final = (  # and whoever does so has seen all of its runs
    "DELETE FROM agent WHERE id = '{agent}'",
    "UPDATE agent_task_queue SET trigger_summary = 'seen' WHERE agent_id = '{agent}'",
)


async def a_lost_run(session: Session, world: World) -> Place:
    """A rule whose run has worked for a day on a runtime that has been silent for as long."""
    return await _lost(session, await with_rule(session, await a_place(session, world)))


async def an_ordinary_lost_run(session: Session, world: World) -> Place:
    """The same without a rule."""
    return await _lost(session, await a_place(session, world))


async def _lost(session: Session, place: Place) -> Place:
    place = await with_run(session, place)
    await session.execute(LOST, place.run)
    await session.execute(SILENT, place.runtime)
    return place


def fail() -> Part:
    """The daemon reports a failure that is tried again."""
    return use_case(
        "fail",
        lambda place: FailRun(run_id=place.run, failure_reason="runtime_offline"),
        by=as_daemon,
        stops=("runs.lock_claimed", "runs.fail", "runs.retry"),
    )


def restart() -> Part:
    """The daemon registers again: what it had been working on is tried again."""

    async def unit(session: Session, place: Place) -> Any:
        name = await session.fetchval(NAME, place.runtime)
        runtimes = (RuntimeDraft(name=name, provider="test"),)
        made = use_case(
            "register", lambda _: RegisterDaemon(daemon_id=DAEMON, runtimes=runtimes), by=as_daemon
        )
        return await made.unit(session, place)

    stops = ("daemons.hold_agents", "daemons.hold_issues", "daemons.lock_in_flight", "runs.retry")
    plain = use_case(
        "restart", lambda _: RegisterDaemon(daemon_id=DAEMON, runtimes=()), stops=stops
    )
    return attrs.evolve(plain, unit=unit)


ENDINGS: Final = {
    "reported": fail(),
    "lost": recovery(stops=("recovery.lost", "runs.fail_many", "runs.retry")),
    "restarted": restart(),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
async def test_a_run_that_fails_while_its_agent_goes(explored: Exploring, ending: Part) -> None:
    """W-190: no run is tried again for an agent that is being deleted, by whatever it ended."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        runs = await runs_at(session, place)
        assert {run["trigger_summary"] for run in runs} == {"seen"}
        return f"{len(runs) - 1} retry"

    found = await explored(
        Specification(
            parts=(writer("delete", *DELETE_AGENT), ending),
            prepare=a_lost_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert ("delete", ending.name) in found.waits
    assert found.outcomes.keys() == {"0 retry", "1 retry"}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
async def test_a_run_that_fails_while_its_issue_goes(explored: Exploring, ending: Part) -> None:
    """W-189, W-190: a retry is withdrawn with its issue, or not made: none is left to start."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        _, *retries = await runs_at(session, place)
        assert [run["status"] for run in retries] in ([], ["cancelled"])
        return f"{len(retries)} retry"

    delete = use_case(
        "delete",
        lambda place: DeleteIssue(issue_id=place.issue),
        stops=("issues.lock_for_delete", "closing.lock_runs", "closing.lock_inputs"),
    )
    found = await explored(
        Specification(
            parts=(delete, ending),
            prepare=an_ordinary_lost_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"0 retry", "1 retry"}
