"""Inputs that wait for a run, or for a lock: what ends the wait wakes their issue (W-071)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.app import Engine
from engine.domain.commands.runs import CancelRun, CompleteRun
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.world import World, claim, register, running, say, settled, start

MOVES = {
    "started": "UPDATE agent_task_queue SET status = 'running', started_at = now() WHERE id = $1",
    "cancelled": "UPDATE agent_task_queue SET status = 'cancelled', completed_at = now()"
    " WHERE id = $1",
    "failed": "UPDATE agent_task_queue SET status = 'failed', completed_at = now() WHERE id = $1",
}
ANOTHER_RUN = (
    "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, originator_user_id, status)"
    " VALUES ($1, $2, $3, $4, $5) RETURNING id"
)
LOCK_ISSUE = "SELECT pg_advisory_xact_lock(wakeful_issue_key($1))"


async def hold_back(engine: Engine, psql: Psql, world: World, rule_id: object) -> None:
    """Let a daemon claim the run of the rule, and write a fact that has to wait for it."""
    await say(engine, world.n, world.issue)
    await settled(engine)
    (claimed,) = await claim(engine, world)
    assert claimed.wakeup_id == rule_id
    await say(engine, world.n, world.issue)
    await settled(engine)
    assert await psql.value("SELECT count(*) FROM agent_task_queue") == 1
    assert (
        await psql.value("SELECT count(*) FROM issue_wakeup_receipt WHERE processed_at IS NULL")
        == 1
    )


@pytest.mark.parametrize("move", MOVES)
async def test_a_run_that_somebody_else_moves_lets_inputs_go_on(
    engine: Engine, psql: Psql, world: World, move: str
) -> None:
    """W-071: psql starts or ends the run that inputs wait for: they are queued within 1 s."""
    rule = await register(engine, world)
    await hold_back(engine, psql, world, rule.id)
    before = await psql.value("SELECT wakeful_now()")
    (run,) = await psql.runs(rule.id)
    await psql(MOVES[move], run["id"])
    await psql.drained(rule.id, within=3)
    _, following = await psql.runs(rule.id)
    assert following["created_at"] - before < timedelta(seconds=1)


@pytest.mark.parametrize("end", ["completed", "cancelled"])
async def test_a_run_that_the_engine_ends_lets_inputs_go_on(
    engine: Engine, psql: Psql, world: World, end: str
) -> None:
    """W-071: whoever ends any run of the issue through the engine wakes what waits there.

    The inputs wait here for nothing that the engine knows of: they were written past capture.
    """
    rule = await register(engine, world)
    other = await psql(
        ANOTHER_RUN, world.b, world.issue, world.runtime_id, world.m.user_id, "queued"
    )
    (claimed,) = await claim(engine, world)
    assert claimed.id == other[0]["id"]
    await start(engine, world, claimed)
    await settled(engine)
    await psql.receipt(rule.id)
    assert await psql.runs(rule.id) == []
    if end == "completed":
        await engine.submit(world.daemon, CompleteRun(run_id=claimed.id, output=""))
    else:
        await engine.submit(world.o, CancelRun(run_id=claimed.id))
    await psql.run(rule.id, within=1)


async def test_runs_of_quiet_issues_tell_nobody(engine: Engine, psql: Psql, world: World) -> None:
    """W-071: where no input waits, the life of a run costs no notification."""
    await register(engine, world, event_types=("issue.status_changed",))
    await psql.rule(world, event_types=[COMMENT], enabled=False)
    async with psql.heard("wakeful_wakeups") as heard:
        for status in ("queued", "dispatched", "running", "queued", "deferred"):
            (run,) = await psql(
                ANOTHER_RUN, world.b, world.other_issue, world.runtime_id, world.m.user_id, status
            )
            await psql(MOVES["cancelled"], run["id"])
            await psql(MOVES["cancelled"], run["id"])
        assert await heard() == []


async def test_many_runs_wake_their_issue_once(psql: Psql, world: World) -> None:
    """W-071: a transaction that ends many runs of one issue tells the engines once."""
    rule = await psql.rule(world, event_types=[COMMENT])
    await psql.receipt(rule)
    for _ in range(20):
        await psql(ANOTHER_RUN, world.b, world.issue, world.runtime_id, world.m.user_id, "running")
    async with psql.heard("wakeful_wakeups") as heard:
        await psql("UPDATE agent_task_queue SET status = 'completed', completed_at = now()")
        assert await heard() == [str(world.issue)]


async def test_contention_is_visible_until_it_is_over(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-071: inputs left to the sweep say why they wait, and stop saying so with the next look.

    W-077: contention is no failure: the rule is neither barred nor switched off.
    """
    async with running(database_url) as engine:
        rule = await register(engine, world)
        async with psql.open_transaction((LOCK_ISSUE, world.issue)):
            await psql.receipt(rule.id)
            await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
            assert (await psql.failed(rule.id)).startswith("contention")
            assert engine.dispatcher.statistics.left_to_sweep >= 1
            assert engine.dispatcher.statistics.failed_rules == 0
        await psql.run(rule.id, within=3)
        assert (await psql.row(rule.id))["last_error"] is None


async def test_a_held_rule_does_not_speak_of_contention(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-071: what waits for a claimed run waits for that; an old word about locks goes."""
    rule = await register(engine, world)
    await hold_back(engine, psql, world, rule.id)
    await psql(
        "UPDATE issue_wakeup SET last_error = $2 WHERE id = $1",
        *(rule.id, "contention: others held the issue for too long; the next sweep tries again"),
    )
    await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))

    async def silent() -> bool:
        return (await psql.row(rule.id))["last_error"] is None

    await until(silent, "the old error goes")
    assert len(await psql.runs(rule.id)) == 1
