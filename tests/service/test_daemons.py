"""Daemons: registration, recovery, signs of life."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from engine import limits
from engine.domain.commands.runs import Heartbeat, RegisterDaemon, RuntimeDraft
from engine.domain.commands.tracker import (
    ArchiveAgent,
    CreateToken,
    DeleteWorkspace,
    UnarchiveAgent,
    UpdateAgent,
)
from engine.domain.principal import Principal
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]

MAIN = RuntimeDraft(name="main", provider="test")


def registering(**changes: Any) -> RegisterDaemon:
    return RegisterDaemon(**{"daemon_id": "daemon-1", "runtimes": (MAIN,), **changes})


async def second_daemon(floor: Floor, owner: Principal | None = None) -> Principal:
    """Return a daemon token, of O or of this person, that has not registered anything."""
    made = await floor.execute(
        owner or floor.world.o,
        CreateToken(workspace_id=floor.world.workspace_id, name="second", kind="daemon"),
    )
    return await floor.execute.authenticate(made.token)


async def run_row(floor: Floor, run_id: UUID) -> dict[str, Any]:
    (row,) = await floor.sql("SELECT * FROM agent_task_queue WHERE id = $1", run_id)
    return dict(row.items())


# --- Registration -------------------------------------------------------------------------------


async def test_a_daemon_finds_its_runtimes_again(floor: Floor) -> None:
    """Registering again keeps a runtime's id by its name, adds others, and is a sign of life."""
    await floor.sql("UPDATE agent_runtime SET last_seen_at = NULL")
    new = RuntimeDraft(name="gpu", provider="other")
    view = await floor.report(registering(runtimes=(new, MAIN), version="2", device_name="desk"))
    assert [(each.name, each.provider) for each in view.runtimes] == [
        ("gpu", "other"),
        ("main", "test"),
    ]
    assert view.runtimes[1].id == floor.world.runtime_id
    rows = await floor.sql("SELECT last_seen_at IS NOT NULL AS seen FROM agent_runtime")
    assert [row["seen"] for row in rows] == [True, True]
    (row,) = await floor.sql("SELECT version, device_name FROM daemon")
    assert tuple(row.values()) == ("2", "desk")


async def test_a_name_belongs_to_the_token_that_registered_it(floor: Floor) -> None:
    """W-102: another token cannot take a daemon's name, until the first one is revoked."""
    second = await second_daemon(floor)
    assert await refused(floor, second, registering()) == "daemon_mismatch"
    assert await refused(floor, floor.world.o, registering()) == "not_allowed"
    await floor.sql(
        "UPDATE access_token SET revoked_at = wakeful_now() WHERE id = $1",
        floor.world.daemon.token_id,
    )
    view = await floor.execute(second, registering())
    assert view.runtimes[0].id == floor.world.runtime_id
    assert await refused(floor, floor.world.daemon, registering()) == "daemon_mismatch"


@pytest.mark.parametrize("ending", ["revoked_at", "expires_at"])
async def test_a_free_name_stays_with_its_person(floor: Floor, ending: str) -> None:
    """W-102: when its token has ended, a name is for its person, or for an owner or admin."""
    first = await second_daemon(floor, floor.world.m)
    await floor.execute(first, registering(daemon_id="desk"))
    end = f"UPDATE access_token SET {ending} = wakeful_now() WHERE id = $1"
    await floor.sql(end, first.token_id)
    stranger = await second_daemon(floor, floor.world.n)
    assert await refused(floor, stranger, registering(daemon_id="desk")) == "daemon_mismatch"
    again = await second_daemon(floor, floor.world.m)
    await floor.execute(again, registering(daemon_id="desk"))
    await floor.sql(end, again.token_id)
    assert await refused(floor, stranger, registering(daemon_id="desk")) == "daemon_mismatch"
    admin = await second_daemon(floor, floor.world.g)
    await floor.execute(admin, registering(daemon_id="desk"))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"daemon_id": ""}, "missing_field"),
        ({"daemon_id": "x" * 201}, "invalid_input"),
        ({"runtimes": ()}, "invalid_input"),
        ({"runtimes": (MAIN, MAIN)}, "invalid_input"),
        ({"runtimes": (MAIN,) * (limits.RUNTIMES_MAX + 1)}, "invalid_input"),
        ({"runtimes": (RuntimeDraft(name=" ", provider="x"),)}, "invalid_input"),
    ],
)
async def test_a_bad_registration_is_refused(
    floor: Floor, changes: dict[str, Any], code: str
) -> None:
    """A registration needs a name and one to 100 runtimes with names of their own."""
    assert await refused(floor, floor.world.daemon, registering(**changes)) == code


# --- Recovery -----------------------------------------------------------------------------------


async def test_a_registration_beside_a_deletion_is_refused(floor: Floor) -> None:
    """W-189: a daemon that was let in before its workspace went finds it gone; that is no 500."""
    owner = floor.world.o
    await floor.execute(owner, DeleteWorkspace(workspace_id=floor.world.workspace_id))
    assert await refused(floor, floor.world.daemon, registering()) == "not_found"
    assert await floor.sql("SELECT FROM daemon") == []


async def test_work_of_a_restarted_daemon_is_retried(floor: Floor) -> None:
    """W-110: registering fails what was running with `runtime_recovery`, and a retry is queued."""
    wakeup = await floor.wakeup()
    fired = await floor.fire(wakeup, wakeup_evidence={"facts": [1]})
    run = await floor.claim_one()
    await floor.start(run)
    await floor.wait_for(wakeup)
    await floor.report(registering())
    lost = await run_row(floor, fired)
    assert (lost["status"], lost["failure_reason"]) == ("failed", "runtime_recovery")
    (retry,) = await floor.sql("SELECT * FROM agent_task_queue WHERE retry_of_task_id = $1", fired)
    same = ("agent_id", "issue_id", "context", "handoff_note", "originator_user_id", "wakeup_id")
    assert {name: retry[name] for name in same} == {name: lost[name] for name in same}
    assert (retry["status"], retry["attempt"], retry["started_at"]) == ("queued", 2, None)
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {floor.world.runtime_id}
    assert floor.execute.opened == (floor.world.issue,)
    (entry,) = await floor.sql("SELECT details FROM activity_log WHERE action = 'run_failed'")
    assert entry["details"] == {"task_id": str(fired), "failure_reason": "runtime_recovery"}
    assert (await floor.claim_one()).id == retry["id"]


async def test_no_retry_beside_a_successor_or_after_the_last_attempt(floor: Floor) -> None:
    """W-110: with a successor pending there is no retry, nor after as many attempts as allowed."""
    wakeup = await floor.wakeup()
    await floor.fire(wakeup)
    await floor.start(await floor.claim_one())
    successor = await floor.fire(wakeup)
    await floor.report(registering())
    rows = await floor.sql("SELECT id FROM agent_task_queue WHERE status = 'queued'")
    assert [row["id"] for row in rows] == [successor]
    await floor.sql("UPDATE agent_task_queue SET attempt = max_attempts WHERE id = $1", successor)
    await floor.start(await floor.claim_one())
    await floor.report(registering())
    assert not await floor.sql("SELECT FROM agent_task_queue WHERE status = 'queued'")


async def move_agent(floor: Floor) -> UUID:
    """Bind agent A to a runtime of another daemon, and return that runtime."""
    other = await second_daemon(floor)
    view = await floor.execute(other, registering(daemon_id="daemon-2"))
    runtime_id: UUID = view.runtimes[0].id
    await floor.execute(floor.world.o, UpdateAgent(agent_id=floor.world.a, runtime_id=runtime_id))
    return runtime_id


@pytest.mark.parametrize("is_started", [False, True])
async def test_recovered_work_goes_where_its_agent_runs(floor: Floor, is_started: bool) -> None:
    """W-110: the retry of a run, or the run given back, is for the runtime the agent has now."""
    await floor.enqueue()
    run = await floor.claim_one()
    if is_started:
        await floor.start(run)
    moved = await move_agent(floor)
    await floor.report(registering())
    (row,) = await floor.sql("SELECT id, runtime_id FROM agent_task_queue WHERE status = 'queued'")
    assert (row["runtime_id"], row["id"] == run.id) == (moved, not is_started)
    assert floor.execute.work is not None
    assert moved in floor.execute.work.runtimes
    assert await floor.claim() == ()


async def test_no_retry_for_what_is_gone(floor: Floor) -> None:
    """W-110, W-189: the lost run of a deleted issue is not tried again."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.start(run)
    await floor.sql("DELETE FROM activity_log")
    await floor.sql("DELETE FROM issue WHERE title = 'I'")
    await floor.report(registering())
    rows = await floor.sql("SELECT id, status FROM agent_task_queue")
    assert [(row["id"], row["status"]) for row in rows] == [(run.id, "failed")]


async def test_the_retry_of_an_archived_agent_waits_for_it(floor: Floor) -> None:
    """W-110: a lost run of an archived agent is tried again once the agent is back."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.start(run)
    await floor.execute(floor.world.o, ArchiveAgent(agent_id=floor.world.a))
    await floor.report(registering())
    (again,) = await floor.sql("SELECT * FROM agent_task_queue WHERE status = 'queued'")
    assert (again["retry_of_task_id"], again["attempt"]) == (run.id, 2)
    assert await floor.claim() == ()
    await floor.execute(floor.world.o, UnarchiveAgent(agent_id=floor.world.a))
    assert (await floor.claim_one()).id == again["id"]


async def test_a_claim_that_was_never_started_is_queued_again(floor: Floor) -> None:
    """W-110: a claim lost in a restart costs no attempt: the same run is queued again at once."""
    await floor.enqueue()
    lost = await floor.claim_one()
    await floor.report(registering())
    row = await run_row(floor, lost.id)
    assert (row["status"], row["dispatched_at"], row["attempt"]) == ("queued", None, 1)
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert (await floor.claim_one()).id == lost.id


async def test_only_runs_of_this_daemon_are_recovered(floor: Floor) -> None:
    """W-110: registering another daemon leaves the runs of this one alone."""
    await floor.enqueue()
    run = await floor.claim_one()
    await floor.start(run)
    await floor.execute(await second_daemon(floor), registering(daemon_id="daemon-2"))
    assert await floor.status(run.id) == "running"


# --- Signs of life ------------------------------------------------------------------------------


async def test_a_sign_of_life_brings_a_runtime_back(floor: Floor) -> None:
    """W-109: runs that waited for an offline runtime can be claimed with its first sign of life."""
    await floor.enqueue()
    await floor.pass_seconds(200)
    assert await floor.claim() == ()
    await floor.beat()
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {floor.world.runtime_id}
    assert len(await floor.claim()) == 1
    await floor.beat()
    assert floor.execute.work.runtimes == set(), "it had been online: nothing new to claim"


async def test_signs_of_life_are_for_the_own_runtimes(floor: Floor) -> None:
    """W-102: a sign of life by another token is 403; unknown runtimes are skipped."""
    beat = Heartbeat(daemon_id="daemon-1", runtime_ids=(floor.world.runtime_id,))
    assert await refused(floor, await second_daemon(floor), beat) == "daemon_mismatch"
    await floor.report(Heartbeat(daemon_id="daemon-1", runtime_ids=(floor.world.issue,)))
    many = Heartbeat(daemon_id="daemon-1", runtime_ids=(floor.world.issue,) * 101)
    assert await refused(floor, floor.world.daemon, many) == "invalid_input"


async def test_waiting_runs_follow_their_agent(floor: Floor) -> None:
    """Runs that wait for an agent move with it; the claims of its new runtime are told."""
    run = await floor.enqueue()
    new = RuntimeDraft(name="gpu", provider="x")
    view = await floor.report(registering(runtimes=(MAIN, new)))
    target = view.runtimes[1].id
    await floor.execute(floor.world.o, UpdateAgent(agent_id=floor.world.a, runtime_id=target))
    assert floor.execute.work is not None
    assert floor.execute.work.runtimes == {target}
    assert (await run_row(floor, run.id))["runtime_id"] == target
    assert await floor.claim() == ()
    (claimed,) = await floor.claim(runtime_ids=(target,))
    assert claimed.id == run.id
