"""Many writers against a running engine: no deadlock, no starvation, no error that escapes."""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from engine.app import Engine
from engine.domain.commands.runs import ClaimRuns, CompleteRun, StartRun
from engine.domain.commands.wakeups import DeleteRule, TriggerRule
from engine.errors import WakefulError
from tests.engine.foreign import COMMENT, foreign
from tests.engine.world import DAEMON, World, register, running, say, settled, stage

SECONDS: Final = 22
FULL_SPEED_SECONDS: Final = 4
PARALLEL_SECONDS: Final = 2
DEFERRED: Final = "task.deferred"
INSERT_COMMENT: Final = (
    "INSERT INTO comment (issue_id, workspace_id, content) VALUES ($1, $2, 'one of many')"
)
INSERT_RUN: Final = (
    "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, status)"
    " VALUES ($1, $2, $3, 'deferred')"
)
FACTS: Final = (
    "SELECT event_type, sum((payload ->> 'coalesced_count')::bigint)::int AS facts"
    "  FROM issue_wakeup_receipt GROUP BY event_type"
)


async def test_opposite_orders_do_not_deadlock(database_url: str) -> None:
    """W-051: eight writers in opposite orders on one issue beside an engine: no deadlock.

    A session that has commented and idles in its transaction delays none of them.
    """
    async with (
        stage(database_url, connections=12) as (psql, world),
        running(database_url) as engine,
    ):
        rule = await register(engine, world, event_types=(COMMENT, DEFERRED))
        comment = (INSERT_COMMENT, world.issue, world.workspace_id)
        run = (INSERT_RUN, world.b, world.issue, world.runtime_id)
        took: list[float] = []
        deadline = trio.current_time() + SECONDS

        async def write(*statements: tuple[object, ...]) -> None:
            while (began := trio.current_time()) < deadline:
                await psql.together(*statements)
                took.append(trio.current_time() - began)

        async with psql.open_transaction(comment), trio.open_nursery() as nursery:
            for number in range(8):
                order = (comment, run) if number % 2 else (run, comment)
                nursery.start_soon(write, *order)
        await psql.drained(rule.id)
        await settled(engine)
        facts = {row["event_type"]: row["facts"] for row in await psql(FACTS)}
        assert facts == {COMMENT: len(took) + 1, DEFERRED: len(took)}
        assert len(took) > 8 * SECONDS
        assert max(took) < 3  # the idle session would hold them up for all of its time
    async with foreign(database_url) as psql:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert await psql.value(deadlocks) == 0


async def test_a_busy_issue_does_not_starve(database_url: str) -> None:
    """W-071: sixteen writers at full speed on two issues: runs keep coming all the time.

    W-062, G-01: in the end the receipts count every comment.
    """
    async with (
        stage(database_url, connections=18) as (psql, world),
        running(database_url) as engine,
    ):
        issues = (world.issue, world.other_issue)
        rules = [
            await register(engine, world, issue=issue, agent_id=agent)
            for issue, agent in zip(issues, (world.a, world.b), strict=True)
        ]
        written = count()
        deadline = trio.current_time() + FULL_SPEED_SECONDS

        async def write(issue_id: UUID) -> None:
            while trio.current_time() < deadline:
                await psql.comment(issue_id)
                next(written)

        async with trio.open_nursery() as nursery:
            work = trio.CancelScope()
            nursery.start_soon(execute_runs, engine, world, work)
            async with trio.open_nursery() as writers:
                for number in range(16):
                    writers.start_soon(write, issues[number % 2])
            await psql.drained(*(rule.id for rule in rules))
            work.cancel()
        (row,) = await psql(FACTS)
        assert row["facts"] == next(written)
        delays = await psql(
            "SELECT extract(epoch FROM q.created_at - (f -> 'payload' ->> 'first_occurred_at')"
            "         ::timestamptz)::float8 AS seconds"
            "  FROM agent_task_queue q, jsonb_path_query(q.context, $1::jsonpath) f"
            " ORDER BY seconds",
            "$.wakeup_evidence.facts[*]",
        )
        report(row["facts"], [delay["seconds"] for delay in delays])
        for rule in rules:
            runs = await psql.runs(rule.id)
            assert len(runs) > FULL_SPEED_SECONDS
            gaps = [after["created_at"] - run["created_at"] for run, after in pairwise(runs)]
            assert max(gap.total_seconds() for gap in gaps) < 1
        assert delays[int(len(delays) * 0.99)]["seconds"] < 1


async def test_parallel_changes_answer_no_internal_error(database_url: str) -> None:
    """W-081: fifty parallel creates, comments, triggers and deletes on one issue meet no 500."""
    async with stage(database_url, connections=6) as (psql, world), running(database_url) as engine:
        rule = await register(engine, world)
        tally = Tally()
        deadline = trio.current_time() + PARALLEL_SECONDS

        async def create() -> None:
            made = await register(engine, world, mode="once")
            await engine.submit(world.m, DeleteRule(issue_id=world.issue, rule_id=made.id))

        async def comment() -> None:
            await say(engine, world.n, world.issue)

        async def trigger() -> None:
            await engine.submit(world.m, TriggerRule(issue_id=world.issue, rule_id=rule.id))

        async def write() -> None:
            await psql.comment(world.issue)

        async def repeat(step: Any) -> None:
            while trio.current_time() < deadline:
                await tally.count(step)

        async with trio.open_nursery() as nursery:
            work = trio.CancelScope()
            nursery.start_soon(execute_runs, engine, world, work)
            async with trio.open_nursery() as callers:
                for number in range(50):
                    steps = (create, comment, trigger, write)
                    callers.start_soon(repeat, steps[number % 4])
            await psql.drained(rule.id)
            work.cancel()
        await settled(engine)
        assert all(tally.done[step.__name__] for step in (create, comment, trigger, write))
        assert tally.failed == Counter()


@attrs.define
class Tally:
    """How often each step was done, and with which code it failed."""

    done: Counter[str] = attrs.Factory(Counter)
    failed: Counter[str] = attrs.Factory(Counter)

    async def count(self, step: Any) -> None:
        """Carry out one step; anything but a `WakefulError` ends the test."""
        try:
            await step()
        except WakefulError as error:
            self.failed[f"{step.__name__}: {error.code}"] += 1
        else:
            self.done[step.__name__] += 1


async def execute_runs(engine: Engine, world: World, scope: trio.CancelScope) -> None:
    """Be a daemon whose runs take no time."""
    claim = ClaimRuns(
        daemon_id=DAEMON, runtime_ids=(world.runtime_id,), max_tasks=10, wait_seconds=30
    )
    with scope:
        while True:
            for run in await engine.claim(world.daemon, claim):
                assert run.dispatched_at is not None
                await engine.submit(
                    world.daemon, StartRun(run_id=run.id, dispatched_at=run.dispatched_at)
                )
                await engine.submit(world.daemon, CompleteRun(run_id=run.id))


def report(comments: int, seconds: list[float]) -> None:
    """Print the figures; the benchmark has the row that counts."""
    p50, p99 = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
    figures = f"{comments} comments, {len(seconds)} runs"
    print(f"{figures}; first fact to run: p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms")  # noqa: T201 - a figure for whoever reads the log
