"""Claims: which runs a daemon gets, and what comes with them."""

from __future__ import annotations

import re
from collections import Counter
from uuid import UUID

import pytest
import trio

from engine.actors.claims import ClaimDesk
from engine.domain.commands.runs import CompleteRun, RegisterDaemon, RuntimeDraft, StartRun
from engine.domain.commands.tracker import CreateToken
from engine.domain.principal import PrincipalKind
from engine.domain.prompt import PromptFacts, render_prompt
from engine.domain.views.runs import ClaimAttempt, ClaimedRun
from engine.storage import queries
from engine.storage.database import Lane, Query, Session
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]

# --- Which run ----------------------------------------------------------------------------------


async def test_one_agent_never_works_twice_on_an_issue(floor: Floor) -> None:
    """W-101, G-05: with A's run at work its second run of the issue waits; B's is handed out."""
    await floor.enqueue()
    running = await floor.claim_one()
    await floor.start(running)
    second = await floor.fire(await floor.wakeup())
    other = await floor.enqueue(agent_id=floor.world.b)
    assert [run.id for run in await floor.claim(max_tasks=9)] == [other.id]
    assert await floor.status(second) == "queued"
    await floor.report(CompleteRun(run_id=running.id))
    assert [run.id for run in await floor.claim(max_tasks=9)] == [second]


async def test_an_agents_limit_and_the_order_of_its_runs(floor: Floor) -> None:
    """W-101: one run an agent and claim, up to its limit, by priority, then age."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 2 WHERE id = $1", floor.world.a)
    runs = {}
    for priority in ("low", "medium", "urgent", "medium"):
        issue = await floor.issue(priority=priority)
        runs[issue] = priority
        await floor.enqueue(issue_id=issue)
    first = await floor.claim(max_tasks=9)
    second = await floor.claim(max_tasks=9)
    assert [runs[run.issue_id] for run in (*first, *second)] == ["urgent", "medium"]
    assert second[0].issue_id == list(runs)[1], "the older one"
    assert await floor.claim(max_tasks=9) == ()


async def test_many_claims_in_one_call(floor: Floor) -> None:
    """W-102: one call hands out 100 runs of 100 agents, each of them once."""
    await floor.sql(
        "INSERT INTO agent (workspace_id, name, owner_id, runtime_id)"
        " SELECT a.workspace_id, 'agent ' || n, a.owner_id, a.runtime_id"
        "   FROM agent a, generate_series(1, 120) n WHERE a.id = $1",
        floor.world.a,
    )
    await floor.sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, originator_user_id)"
        " SELECT a.id, $1, a.runtime_id, a.owner_id FROM agent a WHERE a.name LIKE 'agent %'",
        floor.world.issue,
    )
    first = await floor.claim(max_tasks=100)
    second = await floor.claim(max_tasks=100)
    assert (len(first), len(second)) == (100, 20)
    assert len({run.id for run in (*first, *second)}) == 120
    assert len({run.token for run in first}) == 100


async def test_an_archived_agent_gets_nothing(floor: Floor) -> None:
    """The runs of an archived agent stay where they are."""
    await floor.enqueue()
    await floor.sql("UPDATE agent SET archived_at = wakeful_now() WHERE id = $1", floor.world.a)
    attempt = await floor.attempt()
    assert (attempt.runs, attempt.next_look_at) == ((), None)


@pytest.mark.parametrize(("seconds", "served"), [(149, 1), (151, 0)])
async def test_only_an_online_runtime_is_served(floor: Floor, seconds: int, served: int) -> None:
    """W-097: a runtime counts as offline after 150 s without a sign of life; its runs wait."""
    await floor.enqueue()
    await floor.sql(
        "UPDATE agent_runtime SET last_seen_at = wakeful_now() - make_interval(secs => $1)",
        seconds,
    )
    assert len(await floor.claim()) == served


# --- The call -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"daemon_id": ""}, "missing_field"),
        ({"daemon_id": "daemon-2"}, "daemon_mismatch"),
        ({"max_tasks": -1}, "invalid_input"),
        ({"max_tasks": 101}, "invalid_input"),
        ({"wait_seconds": 31}, "invalid_input"),
        ({"wait_seconds": -1}, "invalid_input"),
    ],
)
async def test_a_bad_claim_is_refused(floor: Floor, changes: dict[str, object], code: str) -> None:
    """W-102: a missing daemon, another one and numbers out of range are refused, each its way."""
    await floor.enqueue()
    assert await refused(floor, floor.world.daemon, floor.claiming(**changes)) == code


async def test_another_token_does_not_get_the_runs(floor: Floor) -> None:
    """W-102: a token of another daemon is 403; a person's or a revoked one gets nothing either."""
    await floor.enqueue()
    made = await floor.execute(
        floor.world.o,
        CreateToken(workspace_id=floor.world.workspace_id, name="second", kind="daemon"),
    )
    other = await floor.execute.authenticate(made.token)
    assert other.kind is PrincipalKind.DAEMON
    assert await refused(floor, other, floor.claiming()) == "daemon_mismatch"
    assert await refused(floor, floor.world.m, floor.claiming()) == "not_allowed"
    await floor.sql("UPDATE access_token SET revoked_at = wakeful_now() WHERE kind = 'daemon'")
    assert await refused(floor, floor.world.daemon, floor.claiming()) == "daemon_mismatch"


async def test_unknown_runtimes_are_skipped(floor: Floor) -> None:
    """W-102: beside unknown runtimes and those of other daemons the own one is served."""
    (row,) = await floor.sql(
        "INSERT INTO agent_runtime (workspace_id, daemon_id, name, provider, last_seen_at)"
        " VALUES ($1, 'daemon-2', 'x', 'x', wakeful_now()) RETURNING id",
        floor.world.workspace_id,
    )
    await floor.sql("UPDATE agent SET runtime_id = $1 WHERE id = $2", row["id"], floor.world.a)
    await floor.enqueue()
    own = await floor.enqueue(agent_id=floor.world.b)
    ids = (floor.world.issue, row["id"], floor.world.runtime_id, floor.world.runtime_id)
    assert [run.id for run in await floor.claim(runtime_ids=ids, max_tasks=9)] == [own.id]


async def test_claiming_no_run_is_answered_at_once(floor: Floor) -> None:
    """W-102: `max_tasks` zero is an empty list that nobody waits for."""
    await floor.enqueue()
    attempt = await floor.attempt(max_tasks=0, wait_seconds=30)
    assert (attempt.runs, attempt.is_final) == ((), True)


# --- What comes with a run ----------------------------------------------------------------------


async def test_a_claimed_run_has_all_that_a_daemon_needs(floor: Floor) -> None:
    """A claim carries the run, agent, issue, whole prompt and a token that acts as the run."""
    queued = await floor.enqueue(note="mind the gap")
    run = await floor.claim_one()
    assert (run.id, run.status, run.wakeup_joined) == (queued.id, "dispatched", None)
    assert (run.agent.id, run.agent.name) == (floor.world.a, "A")
    assert (run.issue.id, run.issue.title, run.issue.status) == (floor.world.issue, "I", "todo")
    assert f"{run.issue.identifier} ({run.issue.id})" in run.prompt
    assert "mind the gap" in run.prompt
    assert run.handoff_note == "mind the gap"
    assert run.token not in repr(run)
    caller = await floor.execute.authenticate(run.token)
    assert (caller.kind, caller.run_id, caller.agent_id) == (
        PrincipalKind.RUN,
        run.id,
        run.agent.id,
    )
    assert caller.originator_user_id == floor.world.m.user_id


async def test_the_prompt_of_a_wakeup_run(floor: Floor) -> None:
    """W-091: a wakeup run's prompt has marker, note and commands, also with a delivery thread."""
    wakeup = await floor.wakeup()
    await floor.fire(wakeup)
    prompt = (await floor.claim_one()).prompt
    parts = [
        "You are an agent",
        str(floor.world.issue),
        "[WAKEUP]\nlook again",
        "wakeful issue show",
        f"wakeful issue wakeup get {floor.world.issue} {wakeup}",
        f"wakeful issue wakeup disable {floor.world.issue} {wakeup}",
        "wakeful issue comment",
    ]
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)


async def test_a_run_by_hand_says_so(floor: Floor) -> None:
    """The prompt tells a run by hand from an assignment and a comment."""
    await floor.create()
    assert "by hand" in (await floor.claim_one()).prompt


async def test_a_run_that_cannot_be_delivered_stays_queued(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-104: an error while its response is made leaves that run queued; others go out."""
    broken = await floor.enqueue()
    whole = await floor.enqueue(agent_id=floor.world.b)
    failures: list[PromptFacts] = []

    def fail(facts: PromptFacts) -> str:
        if facts.note == "" and not failures:
            failures.append(facts)
            raise ValueError("no prompt")
        return render_prompt(facts)

    monkeypatch.setattr("engine.service.claims.render_prompt", fail)
    assert [run.id for run in await floor.claim(max_tasks=2)] == [whole.id]
    assert len(failures) == 1
    (row,) = await floor.sql(
        "SELECT status, dispatched_at FROM agent_task_queue WHERE id = $1", broken.id
    )
    assert tuple(row.values()) == ("queued", None)
    assert not await floor.sql("SELECT FROM task_token WHERE task_id = $1", broken.id)
    assert (await floor.claim_one()).id == broken.id


# --- Generations, leases, recovery --------------------------------------------------------------


async def test_a_lost_claim_is_handed_out_again_once(floor: Floor) -> None:
    """W-105: a claim without start and live lease is redelivered after 90 s, once and anew."""
    await floor.enqueue()
    lost = await floor.claim_one()
    await floor.pass_seconds(89)
    early = await floor.attempt()
    assert early.runs == ()
    assert early.next_look_at is not None
    assert 0 < (early.next_look_at - early.now).total_seconds() <= 1.0
    await floor.pass_seconds(1)
    again = await floor.claim_one()
    assert again.id == lost.id
    assert await floor.claim() == ()
    assert lost.dispatched_at is not None
    assert again.dispatched_at is not None
    assert again.dispatched_at > lost.dispatched_at
    stale = StartRun(run_id=lost.id, dispatched_at=lost.dispatched_at)
    assert await refused(floor, floor.world.daemon, stale) == "stale_claim"
    assert await floor.status(lost.id) == "dispatched"
    (row,) = await floor.sql("SELECT count(*) FROM task_token")
    assert row["count"] == 1, "the lost claim's token has ended"
    await floor.start(again)
    assert await floor.status(lost.id) == "running"


async def test_a_lost_claim_follows_its_agent(floor: Floor) -> None:
    """W-105: a lost claim of an agent that moved goes to the runtime that the agent has now."""
    await floor.enqueue()
    lost = await floor.claim_one()
    registered = await floor.report(
        RegisterDaemon(daemon_id="daemon-2", runtimes=(RuntimeDraft(name="x", provider="x"),))
    )
    await floor.sql(
        "UPDATE agent SET runtime_id = $1 WHERE id = $2", registered.runtimes[0].id, floor.world.a
    )
    await floor.pass_seconds(91)
    (run,) = await floor.claim(daemon_id="daemon-2", runtime_ids=(registered.runtimes[0].id,))
    assert (run.id, run.runtime_id) == (lost.id, registered.runtimes[0].id)


async def test_every_claim_is_a_generation_of_its_own(floor: Floor) -> None:
    """W-104: generations differ also where the clock stands still."""
    await floor.enqueue()
    await floor.sql(
        "CREATE OR REPLACE FUNCTION wakeful_now() RETURNS timestamptz LANGUAGE sql VOLATILE"
        " PARALLEL SAFE AS $$ SELECT timestamptz '2030-01-01 00:00:00Z' $$"
    )
    await floor.beat()
    first = await floor.claim_one()
    await floor.sql("UPDATE run_lease SET expires_at = wakeful_now()")
    await floor.sql("UPDATE agent_task_queue SET dispatched_at = dispatched_at - interval '90 s'")
    (row,) = await floor.sql("SELECT dispatched_at FROM agent_task_queue")
    second = await floor.claim_one()
    assert second.id == first.id
    assert second.dispatched_at > row["dispatched_at"]


# --- Deferred runs ------------------------------------------------------------------------------


async def test_a_deferred_run_is_claimed_when_its_time_comes(floor: Floor) -> None:
    """W-097: a deferred run is promoted at its time; until then a claim knows when to look."""
    (row,) = await floor.sql("SELECT wakeful_now() + interval '60 s' AS at")
    run = await floor.enqueue(fire_at=row["at"])
    early = await floor.attempt()
    assert (early.runs, early.next_look_at) == ((), row["at"])
    await floor.pass_seconds(61)
    assert (await floor.claim_one()).id == run.id


async def test_a_request_behind_a_claim_comes_after_it(floor: Floor) -> None:
    """W-098: what waits behind a claimed run is promoted when the slot is free, and never lost."""
    await floor.enqueue(note="one")
    first = await floor.claim_one()
    behind = await floor.enqueue(note="two")
    assert await floor.claim() == ()
    await floor.start(first)
    attempt = await floor.attempt()
    assert (attempt.runs, await floor.status(behind.id)) == ((), "queued")
    await floor.report(CompleteRun(run_id=first.id))
    assert (await floor.claim_one()).id == behind.id


async def test_one_deferred_run_gets_a_slot(floor: Floor) -> None:
    """W-098: of several due runs of one scope one takes the slot, the urgent one first."""
    (row,) = await floor.sql("SELECT wakeful_now() + interval '9 s' AS at")
    await floor.enqueue(fire_at=row["at"])
    await floor.sql("UPDATE issue SET priority = 'urgent' WHERE id = $1", floor.world.issue)
    urgent = await floor.enqueue(fire_at=row["at"])
    await floor.pass_seconds(10)
    assert (await floor.claim_one()).id == urgent.id
    rows = await floor.sql("SELECT status FROM agent_task_queue ORDER BY status")
    assert [each["status"] for each in rows] == ["deferred", "dispatched"]


# --- The gate -----------------------------------------------------------------------------------


async def test_the_run_of_a_spent_rule_starts(floor: Floor) -> None:
    """W-106: a rule that is spent, so not enabled and not switched off, still gets its run."""
    fired = await floor.fire(await floor.wakeup())
    assert (await floor.claim_one()).id == fired


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM issue_wakeup",
        "UPDATE issue_wakeup SET disabled_at = wakeful_now()",
        "UPDATE issue_wakeup SET revision = 2",
        "UPDATE issue_wakeup SET agent_id = (SELECT id FROM agent WHERE name = 'B')",
        "UPDATE issue_wakeup SET issue_id = (SELECT id FROM issue WHERE title = 'K')",
        "UPDATE issue_wakeup SET created_by = (SELECT id FROM app_user WHERE name = 'N')",
        "DELETE FROM member WHERE user_id = (SELECT id FROM app_user WHERE name = 'M')",
        "UPDATE agent SET visibility = 'private' WHERE name = 'A'",
    ],
)
async def test_a_rule_that_is_gone_or_changed_gets_no_run(floor: Floor, change: str) -> None:
    """W-106, W-108: a run whose rule no longer stands for it fails; the others are handed out."""
    fired = await floor.fire(await floor.wakeup())
    other = await floor.enqueue(agent_id=floor.world.b, originator_user_id=floor.world.n.user_id)
    await floor.sql(change)
    assert [run.id for run in await floor.claim(max_tasks=2)] == [other.id]
    (row,) = await floor.sql(
        "SELECT status, failure_reason, error, completed_at, dispatched_at"
        " FROM agent_task_queue WHERE id = $1",
        fired,
    )
    assert (row["status"], row["failure_reason"]) == ("failed", "invalid_task_identity")
    assert row["error"]
    assert row["completed_at"] is not None
    assert row["dispatched_at"] is None, "nobody ever had it"
    assert not await floor.sql("SELECT FROM agent_task_queue WHERE retry_of_task_id = $1", fired)
    assert not await floor.sql("SELECT FROM task_token WHERE task_id = $1", fired)


async def test_a_refused_run_lets_the_next_one_of_its_agent_out(floor: Floor) -> None:
    """W-108: behind a refused run the same claim finds the agent's next run."""
    await floor.fire(await floor.wakeup())
    await floor.sql("UPDATE issue_wakeup SET disabled_at = wakeful_now()")
    later = await floor.enqueue()
    assert (await floor.claim_one()).id == later.id


# --- Plans --------------------------------------------------------------------------------------


async def plan_of_candidates(floor: Floor, explain: str) -> list[str]:
    """Return the plan with which a claim of the world's daemon finds its candidates."""
    claims = queries.load("claims")
    query = Query("test.explain", f"{explain} {claims.candidates.text}")
    runtimes = [floor.world.runtime_id]

    async def plan(session: Session) -> list[str]:
        caller = (floor.world.workspace_id, "daemon-1", floor.world.daemon.token_id)
        row = await session.fetchrow(claims.caller, *caller, runtimes, 150)
        assert row is not None
        rows = await session.fetch(query, runtimes, row["now"], None, 5, [], 200, 90)
        return [line["QUERY PLAN"].strip() for line in rows]

    return (await floor.execute.database.write(Lane.CLAIM, plan)).result


@pytest.mark.parametrize("statistics", ["of an empty queue", "of a full queue"])
async def test_candidates_are_found_by_index(floor: Floor, statistics: str) -> None:
    """W-103: whatever the statistics say, a claim finds its candidates by index, in its order."""
    fill = (
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, status, comment_thread_id)"
        " SELECT a.id, i.id, a.runtime_id, $1, gen_random_uuid()"
        "   FROM agent a, issue i, generate_series(1, $2)"
    )
    if statistics == "of an empty queue":
        await floor.sql("ANALYZE")
    await floor.sql(fill, "completed", 500)
    await floor.sql(fill, "queued", 300)
    await floor.sql(fill, "running", 1)
    if statistics == "of a full queue":
        await floor.sql("ANALYZE")
    lines = await plan_of_candidates(floor, "EXPLAIN")
    scans = [line for line in lines if "Scan" in line and "Subquery Scan" not in line]
    assert all("Index" in line and "Bitmap" not in line for line in scans), "\n".join(lines)
    assert any("agent_task_claim_idx" in line for line in scans)
    assert not any("Hash" in line or "Materialize" in line for line in lines)


async def test_a_full_agents_queue_is_not_walked(floor: Floor) -> None:
    """W-101: what waits for an agent at its limit costs a claim nothing, however much it is."""
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 1 WHERE name = 'A'")
    await floor.enqueue()
    await floor.start(await floor.claim_one())
    await floor.sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, originator_user_id,"
        "   priority, context)"
        " SELECT a.id, i.id, a.runtime_id, a.owner_id, 4,"
        "        jsonb_build_object('wakeup_id', gen_random_uuid())"
        "   FROM agent a, issue i, generate_series(1, 2000)"
        "  WHERE a.name = 'A' AND i.title = 'K'",
    )
    run = await floor.enqueue(agent_id=floor.world.b)
    lines = await plan_of_candidates(floor, "EXPLAIN (ANALYZE, TIMING OFF)")
    scans = [line for line in lines if "Scan" in line and "agent_task_" in line]
    counts = [re.search(r"actual rows=([\d.]+) loops=(\d+)", line) for line in scans]
    read = sum(float(found[1]) * int(found[2]) for found in counts if found is not None)
    removed = [int(line.rpartition(" ")[2]) for line in lines if line.startswith("Rows Removed")]
    assert 0 < read + sum(removed) < 50, "\n".join(lines)
    assert [each.id for each in await floor.claim(max_tasks=9)] == [run.id]


# --- Races --------------------------------------------------------------------------------------


async def test_racing_claims_respect_fence_and_limit(floor: Floor) -> None:
    """W-101, G-05: of many claims at once no two get one run, no agent exceeds its limit."""
    issues = [await floor.issue() for _ in range(5)]
    agents = [floor.world.a, floor.world.b]
    await floor.sql("UPDATE agent SET max_concurrent_tasks = 3")
    for issue in issues:
        for agent in agents:
            await floor.enqueue(issue_id=issue, agent_id=agent)
    desk, got = ClaimDesk(), list[ClaimedRun]()

    async def take() -> None:
        runs = await desk.claim(
            lambda: floor.attempt(max_tasks=2), (floor.world.runtime_id,), wait_seconds=0
        )
        got.extend(runs)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(take)
    assert len({run.id for run in got}) == len(got)
    assert Counter(run.agent_id for run in got) == dict.fromkeys(agents, 3)
    assert len({(run.agent_id, run.issue_id) for run in got}) == len(got)


async def test_waiting_claims_hold_no_connection(floor: Floor) -> None:
    """W-103: 200 waiting claims add no session and no transaction; one run wakes one of them."""
    desk, looks, got = ClaimDesk(), list[UUID](), list[ClaimedRun]()
    all_looked = trio.Event()
    count_sessions = (
        "SELECT count(*) AS n, count(*) FILTER (WHERE xact_start IS NOT NULL"
        "   AND pid <> pg_backend_pid()) AS busy"
        "  FROM pg_stat_activity WHERE datname = current_database()"
    )
    (before,) = await floor.sql(count_sessions)

    async def attempt() -> ClaimAttempt:
        found = await floor.attempt()
        looks.append(floor.world.runtime_id)
        if len(looks) == 200:
            all_looked.set()
        return found

    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            got.extend(await desk.claim(attempt, (floor.world.runtime_id,), 30))
            nursery.cancel_scope.cancel()

        for _ in range(200):
            nursery.start_soon(wait)
        await all_looked.wait()
        (during,) = await floor.sql(count_sessions)
        assert (during["n"], during["busy"]) == (before["n"], 0)
        run = await floor.enqueue()
        desk.wake([run.runtime_id])
    assert [each.id for each in got] == [run.id]
    assert desk.waiting == 0
    assert len(looks) <= 202, "the one that got the run, and the next in line"
