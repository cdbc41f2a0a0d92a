"""Requests of people and facts of rules reach one agent on one issue, and stay apart (W-112)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from engine.app import Engine
from engine.domain.commands.runs import CompleteRun, CreateRun
from engine.domain.commands.tracker import CreateComment, UpdateIssue
from engine.storage.database import Record
from tests.engine.foreign import Psql
from tests.engine.world import World, claim, register, say, settled, start

NOTE: Final = "Look at the masts."
INSTRUCTION: Final = "Read what was said."


async def work_off(engine: Engine, world: World) -> list[UUID]:
    """Carry out the runs of the agent, which come one at a time; return them in order."""
    found: list[UUID] = []
    while claimed := await claim(engine, world, max_tasks=10):
        (run,) = claimed
        found.append(run.id)
        await start(engine, world, run)
        assert await claim(engine, world, max_tasks=10) == (), "one run of an issue at a time"
        await engine.submit(world.daemon, CompleteRun(run_id=run.id, output=""))
        await settled(engine)
    return found


async def runs_of(psql: Psql, world: World) -> list[Record]:
    """Return the runs of the issue, oldest first."""
    return await psql(
        "SELECT * FROM agent_task_queue WHERE issue_id = $1 ORDER BY created_at, id", world.issue
    )


async def test_facts_assignments_and_comments_have_runs_of_their_own(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-112, W-259: neither joins a run of the other, each carries its own words, all are done."""
    rule = await register(engine, world, caller=world.n, instruction=INSTRUCTION)
    await say(engine, world.m, world.issue)
    woken = await psql.run(rule.id)

    assign = UpdateIssue(issue_id=world.issue, assignee_type="agent", assignee_id=world.a)
    await engine.submit(world.m, assign)
    by_hand = CreateRun(issue_id=world.issue, agent_id=world.a, note=NOTE)
    joined = await engine.submit(world.m, by_hand)
    assert not joined.created, "a request joins the run of the assignment"
    mention = f"[@A](mention://agent/{world.a}) look"
    asked = await engine.submit(world.m, CreateComment(issue_id=world.issue, body=mention))
    await psql.drained(rule.id)

    of_rule, assigned, commented = runs = await runs_of(psql, world)
    assert [run["id"] for run in (of_rule, assigned)] == [woken["id"], joined.id]
    assert [run["wakeup_id"] for run in runs] == [rule.id, None, None]
    assert [run["status"] for run in runs] == ["queued"] * 3
    assert [run["context"].get("reason") for run in runs] == [None, "assignment", "mention"]
    assert [run["trigger_comment_id"] for run in runs] == [None, None, asked.id]
    assert [run["originator_user_id"] for run in runs] == [
        world.n.user_id,
        world.m.user_id,
        world.m.user_id,
    ]
    (fact,) = of_rule["context"]["wakeup_evidence"]["facts"]
    assert fact["payload"]["coalesced_count"] == 2, "the second comment joined the rule's run"
    assert INSTRUCTION in of_rule["handoff_note"]
    assert NOTE not in of_rule["handoff_note"]
    assert NOTE in assigned["handoff_note"]
    for run in (assigned, commented):
        assert INSTRUCTION not in run["handoff_note"]
        assert not any(name.startswith("wakeup") for name in run["context"])

    assert await work_off(engine, world) == [run["id"] for run in runs]
    assert [run["status"] for run in await runs_of(psql, world)] == ["completed"] * 3


async def test_a_fact_finds_the_requests_of_somebody_else_waiting(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-112, W-098: with M's request queued, the rule of N gets its run; both are carried out."""
    rule = await register(engine, world, caller=world.n)
    by_hand = CreateRun(issue_id=world.issue, agent_id=world.a, note=NOTE)
    asked = await engine.submit(world.m, by_hand)
    await say(engine, world.m, world.issue)
    woken = await psql.run(rule.id)
    ordinary, _ = await runs_of(psql, world)
    assert (ordinary["id"], ordinary["handoff_note"]) == (asked.id, NOTE)
    assert await work_off(engine, world) == [asked.id, woken["id"]]
