"""Engines of one database die at any moment: the others go on with what they leave (W-083)."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from engine.actors.plans import Job
from tests.engine.foreign import COMMENT, until
from tests.engine.world import running, settled, stage
from tests.faults import accounting

CHILD: Final = Path(__file__).with_name("engine_child.py")
KILLS: Final = 3
PLANS: Final = "SELECT * FROM sys_cron_executions"
HOLDER: Final = f"{PLANS} WHERE status = 'RUNNING' AND runner_id LIKE $1"


@asynccontextmanager
async def child(*arguments: str) -> AsyncIterator[trio.Process]:
    """Run an engine in a process of its own, which is dead afterwards."""
    process = await trio.lowlevel.open_process(
        [sys.executable, str(CHILD), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=CHILD.parents[2],
        env={"PYTHONPATH": str(CHILD.parents[2])},
    )
    assert process.stdout is not None
    try:
        said = b""
        while b"ready\n" not in said:
            part = await process.stdout.receive_some()
            assert part, "the engine ended before it was ready"
            said += part
        yield process
    finally:
        await kill(process)


async def kill(process: trio.Process) -> None:
    """End a process without any chance to tidy up."""
    if process.returncode is None:
        process.kill()
    with trio.CancelScope(shield=True):
        await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()


async def test_another_engine_takes_over_from_a_dead_holder(database_url: str) -> None:
    """W-082: an engine is killed while it holds a plan: another carries the next plans out.

    The dead one's row stays with it, and is closed once its lease is stale. It has the finer grid:
    of two engines with one grid the same one is first each time.
    """
    async with (
        stage(database_url) as (psql, world),
        running(database_url, sweep_seconds=1) as engine,
        child(database_url, "0.5") as holder,
    ):
        pid = f"%:{holder.pid}:%"

        async def works() -> bool:
            return bool(await psql(f"{PLANS} WHERE status = 'SUCCESS' AND runner_id LIKE $1", pid))

        async def is_caught_holding() -> bool:
            """Stop the child while it holds a plan, which it gives back when it waits too long."""
            if not await psql(HOLDER, pid):
                return False
            holder.send_signal(signal.SIGSTOP)
            if await psql(HOLDER, pid):
                return True
            holder.send_signal(signal.SIGCONT)
            return False

        await until(works, "the child has carried a plan out")
        rule = await psql.rule(world, event_types=[COMMENT])
        async with psql.open_transaction(("LOCK TABLE issue_wakeup",)):
            await until(is_caught_holding, "the child holds a plan")
            await kill(holder)
            assert holder.returncode == -signal.SIGKILL
        (left,) = {row["plan_time"] for row in await psql(HOLDER, pid)}

        async def taken_over() -> bool:
            rows = await psql(
                "SELECT FROM sys_cron_executions WHERE plan_time > $1 AND job_name = $2"
                "   AND status = 'SUCCESS' AND runner_id NOT LIKE $3",
                *(left, Job.DISPATCH, pid),
            )
            return bool(rows)

        await until(taken_over, "a later plan is carried out", within=5)
        await psql.receipt(rule)  # told to nobody
        await psql.run(rule, within=3)
        await psql(
            "UPDATE sys_cron_executions SET stale_after = now() WHERE runner_id LIKE $1", pid
        )

        async def closed() -> bool:
            return not await psql(HOLDER, pid)

        await until(closed, "the rows of the dead engine are closed", within=5)
        await settled(engine)


async def test_killed_engines_lose_and_double_nothing(database_url: str) -> None:
    """W-083, G-01, G-02: engines that write and dispatch are killed; the last one settles it all.

    What a killed engine committed without having dispatched it is found by another one's sweep.
    """
    moments = random.Random(84)
    async with (
        stage(database_url) as (psql, world),
        running(database_url, sweep_seconds=0.5) as survivor,
    ):
        issues = await psql.issues(world, 12)
        rules = [await psql.rule(world, issue_id=issue, event_types=[COMMENT]) for issue in issues]
        written = 0
        for _ in range(KILLS):
            writer = (world.m.user_id, world.workspace_id, *issues)
            async with child(database_url, "0.5", *map(str, writer)) as first:
                await trio.sleep(moments.uniform(0.1, 0.5))  # paced: a random moment
                await kill(first)
                assert first.returncode == -signal.SIGKILL
            before, written = written, await psql.value("SELECT count(*) FROM comment")
            assert written > before, "it was killed at work"
            for issue in issues[::3]:
                await psql.comment(issue)
        await psql.drained(*rules, within=20)
        await settled(survivor)
        runs = await psql("SELECT wakeup_id FROM agent_task_queue")
        commented = await psql.value("SELECT count(DISTINCT issue_id) FROM comment")
        assert len({row["wakeup_id"] for row in runs}) == len(runs) == commented
        assert await accounting.faults(database_url) == []
