"""A run that is put off for a moment: queued at its time, whether or not a daemon waits for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from engine.app import Engine
from engine.domain.commands.runs import CreateRun
from engine.domain.commands.wakeups import ListRules
from tests.engine.foreign import Psql, until
from tests.engine.world import World, register

LATE_MAX: Final = timedelta(milliseconds=250)
AHEAD: Final = "SELECT wakeful_now() + make_interval(secs => $1)"


async def test_a_run_is_queued_at_its_time_while_nobody_claims(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-097, W-074: of two that were put off each comes in its time, without claim or sweep.

    W-041: the rule that waits for a run to be queued hears of it then, too.
    """
    rule = await register(engine, world, agent_id=world.b, event_types=("task.queued",))
    later, sooner = [
        await engine.submit(
            world.m,
            CreateRun(issue_id=issue, agent_id=world.a, fire_at=await psql.value(AHEAD, seconds)),
        )
        for issue, seconds in ((world.other_issue, 2.0), (world.issue, 1.0))
    ]
    assert {later.status, sooner.status} == {"deferred"}
    assert engine.desk.waiting == 0

    async def are_queued() -> bool:
        waiting = "SELECT count(*) FROM agent_task_queue WHERE status = 'deferred'"
        return bool(await psql.value(waiting) == 0)

    await until(are_queued, "both are queued")
    for run in (later, sooner):
        (row,) = await psql("SELECT * FROM agent_task_queue WHERE id = $1", run.id)
        assert row["status"] == "queued"
        assert timedelta(0) <= row["queued_at"] - row["fire_at"] <= LATE_MAX
    await psql.run(rule.id, within=1)
    (listed,) = await engine.read(world.m, ListRules(issue_id=world.issue))
    assert listed.last_task_status == "queued"
