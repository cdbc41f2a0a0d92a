"""What goes wrong in one rule stays with that rule, and nothing is half done."""

from __future__ import annotations

from engine.app import Engine
from engine.domain.commands.tracker import CreateAgent
from engine.domain.commands.wakeups import TriggerRule
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.world import World, register, running, say, settled

TIMELINE = "SELECT action, details FROM activity_log WHERE issue_id = $1 ORDER BY created_at, id"


async def test_a_corrupt_rule_does_not_stop_the_others(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-076: a rule that nobody can read gets its `last_error`; 20 due at the same time fire."""
    due = await psql.value("SELECT wakeful_now() - interval '1 second'")
    cron = {"kind": "cron", "next_fire_at": due}
    corrupt = await psql.rule(world, cron_expression="nonsense" * 100, **cron)
    issues = [world.issue] * 5 + await psql.issues(world, 15)
    timers = [
        await psql.rule(world, issue_id=issue, kind="at", mode="once", next_fire_at=due)
        for issue in issues
    ]
    other = await psql.rule(world, cron_expression="0 * * * *", timezone="Mars/Olympus", **cron)
    async with running(database_url):
        for timer in timers:
            await psql.run(timer)
        for rule_id in (corrupt, other):
            error = await psql.failed(rule_id)
            assert 0 < len(error) <= 500
            assert await psql.runs(rule_id) == []


async def test_a_corrupt_rule_does_not_stop_facts(engine: Engine, psql: Psql, world: World) -> None:
    """W-076: the rules beside it on the same issue get their facts, again and again."""
    corrupt = await register(engine, world, kind="cron", cron_expression="0 0 1 1 *")
    healthy = await register(engine, world)
    await psql(
        "UPDATE issue_wakeup SET cron_expression = 'nonsense', next_fire_at = wakeful_now()"
        " WHERE id = $1",
        corrupt.id,
    )
    await psql.failed(corrupt.id)
    await say(engine, world.n, world.issue)
    await psql.run(healthy.id, within=1)
    await say(engine, world.n, world.issue)
    await psql.drained(healthy.id, within=1)


async def test_rules_of_an_issue_are_served_in_id_order(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-076: the rules of people on one issue get their runs in `id` order."""
    ids = sorted([await psql.rule(world, event_types=[COMMENT]) for _ in range(8)])
    await psql("UPDATE issue_wakeup SET updated_at = wakeful_now() WHERE id = $1", ids[0])
    await psql.comment(world.issue)
    async with running(database_url):
        await psql.drained(*ids)
    runs = await psql("SELECT wakeup_id FROM agent_task_queue ORDER BY created_at, id")
    assert [run["wakeup_id"] for run in runs] == ids


async def test_a_run_that_cannot_be_inserted_consumes_nothing(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-079: when the insert fails, receipts, progress and timeline are as before.

    W-030: what was refused once becomes a run without being asked again.
    """
    async with running(database_url, sweep_seconds=0.3) as engine:
        once = await register(engine, world, mode="once")
        timer = await register(engine, world, kind="every", interval_seconds=60)
        manual = await register(engine, world, issue=world.other_issue)
        before = await psql(TIMELINE, world.issue)
        rules = (once, timer, manual)
        async with psql.no_runs():
            comment_id = await psql.comment(world.issue)
            await psql(
                "UPDATE issue_wakeup SET next_fire_at = wakeful_now() WHERE id = $1", timer.id
            )
            due = (await psql.row(timer.id))["next_fire_at"]
            trigger = TriggerRule(issue_id=world.other_issue, rule_id=manual.id)
            await engine.submit(world.m, trigger)
            for rule in rules:
                assert "no run today" not in await psql.failed(rule.id)
            (receipt,) = await psql.receipts(once.id)
            assert receipt["task_id"] is None
            assert receipt["processed_at"] is None
            stored = await psql.row(once.id)
            assert stored["enabled"]
            assert stored["last_task_id"] is None
            assert (await psql.row(timer.id))["next_fire_at"] == due
            assert await psql.receipts(timer.id) == []
            assert await psql(TIMELINE, world.issue) == before
        for rule in rules:
            await psql.run(rule.id)
        assert (await psql.receipts(once.id))[0]["payload"]["comment_id"] == str(comment_id)
        assert not (await psql.row(once.id))["enabled"]

        async def cleared() -> bool:
            return all([(await psql.row(rule.id))["last_error"] is None for rule in rules])

        await until(cleared, "a success takes the error away")


async def test_a_run_takes_the_runtime_of_its_moment(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-079: the agent's runtime is that of the dispatch, not that of the registration."""
    agent = await engine.submit(
        world.o,
        CreateAgent(workspace_id=world.workspace_id, name="C", runtime_id=world.runtime_id),
    )
    rule = await register(engine, world, agent_id=agent.id)
    runtime_id = await psql.insert(
        "agent_runtime",
        {
            "workspace_id": world.workspace_id,
            "daemon_id": "another",
            "name": "second",
            "provider": "test",
        },
    )
    await psql("UPDATE agent SET runtime_id = $2 WHERE id = $1", agent.id, runtime_id)
    await say(engine, world.n, world.issue)
    assert (await psql.run(rule.id))["runtime_id"] == runtime_id
    await settled(engine)
