"""Rules that watch one run: one that ended before the rule, ends beside it, or is busy."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import trio

from engine.domain.commands.wakeups import EnableRule, ReplaceRule
from engine.domain.principal import Principal
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from engine.storage.database import Database
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.wakeup_steps import a_draft, create, dispatch, receipts
from tests.sql.psql_session import PsqlSession

ROUNDS = 200
STATEMENTS = 20  # more than a registration takes
END = "UPDATE agent_task_queue SET status = 'completed', completed_at = wakeful_now() WHERE id = $1"


async def ended_run(execute: Executor, world: World, run_of: RunOf, sql: Sql) -> UUID:
    """Return a run of agent B on issue I that has completed."""
    run = await run_of(world.b, world.issue, world.m.user_id)
    assert run.run_id is not None
    await sql(END, run.run_id)
    return run.run_id


async def watch(execute: Executor, world: World, run_id: UUID, **changes: Any) -> RuleView:
    """Register a one-shot rule that waits for the end of a run."""
    values = {"mode": "once", "event_types": ("task.completed",), "filter_task_id": run_id}
    return await create(execute, world, **{**values, **changes})


async def test_a_run_that_has_ended_fires_at_once(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, database: Database
) -> None:
    """W-017: a run that ended before the registration gives one fact that says so, and one run."""
    run_id = await ended_run(execute, world, run_of, sql)
    rule = await watch(execute, world, run_id)
    (receipt,) = await receipts(sql, rule)
    assert receipt["event_key"] == f"{run_id}:completed"
    payload = receipt["payload"]
    (row,) = await sql("SELECT wakeful_time(completed_at) AS at FROM agent_task_queue")
    assert payload["occurred_at"] == payload["first_occurred_at"] == row["at"]
    assert payload["registration_snapshot"] is True
    assert payload["observed_at"] > payload["occurred_at"]
    assert (payload["task_id"], payload["status"]) == (str(run_id), "completed")
    assert execute.work is not None
    assert execute.work.issues == {world.issue}
    assert (await dispatch(database, world.issue)).started == 1
    assert await receipts(sql, rule) == []


async def test_an_unknown_end_has_no_time(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-017: occurred_at is null where no completion time is known."""
    run_id = await ended_run(execute, world, run_of, sql)
    await sql("UPDATE agent_task_queue SET completed_at = NULL WHERE id = $1", run_id)
    (receipt,) = await receipts(sql, await watch(execute, world, run_id))
    assert receipt["payload"]["occurred_at"] is None


@pytest.mark.parametrize("types", [("task.failed",), ("task.queued", "task.started")])
async def test_what_was_not_asked_for_is_no_fact(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, types: tuple[str, ...]
) -> None:
    """W-017: only an end of a subscribed type is told."""
    run_id = await ended_run(execute, world, run_of, sql)
    rule = await watch(execute, world, run_id, event_types=types)
    assert await receipts(sql, rule, pending=False) == []


async def test_the_key_is_the_one_of_capture(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, database: Database
) -> None:
    """W-017: the end that a snapshot told counts for nothing when it is captured again."""
    run_id = await ended_run(execute, world, run_of, sql)
    rule = await watch(execute, world, run_id, mode="continuous")
    assert (await dispatch(database, world.issue)).started == 1
    for status in ("running", "completed"):
        await sql("UPDATE agent_task_queue SET status = $2 WHERE id = $1", run_id, status)
    assert len(await receipts(sql, rule, pending=False)) == 1


async def test_replacing_and_enabling_look_again(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, database: Database
) -> None:
    """W-017, W-023: every save with a watched run tells of its end, to the new revision."""
    run_id = await ended_run(execute, world, run_of, sql)
    rule = await watch(execute, world, run_id)
    draft = a_draft(world, mode="once", event_types=("task.completed",), filter_task_id=run_id)
    replaced = await execute(
        world.m, ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=draft)
    )
    assert [row["revision"] for row in await receipts(sql, rule)] == [2]
    assert (await dispatch(database, world.issue)).started == 1
    await sql("UPDATE agent_task_queue SET status = 'completed' WHERE wakeup_id = $1", rule.id)
    again = EnableRule(
        issue_id=world.issue, rule_id=rule.id, revision=replaced.revision, rearm=True
    )
    assert (await execute(world.m, again)).enabled
    assert [row["revision"] for row in await receipts(sql, rule)] == [3]


async def test_a_rule_does_not_hear_of_its_own_run(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-017, W-058: a snapshot tells nothing that capture would not: not the rule's own run."""
    run_id = await ended_run(execute, world, run_of, sql)
    rule = await watch(execute, world, run_id)
    await sql(
        "UPDATE agent_task_queue SET context = jsonb_build_object('wakeup_id', $2::uuid)"
        " WHERE id = $1",
        run_id,
        rule.id,
    )
    draft = a_draft(world, mode="once", event_types=("task.completed",), filter_task_id=run_id)
    await execute(world.m, ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=draft))
    assert await receipts(sql, rule) == []


async def test_a_busy_run_refuses_the_save(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, database_url: str
) -> None:
    """W-018: a run that somebody holds refuses the save at once, with nothing stored."""
    run = await run_of(world.b, world.issue, world.m.user_id)
    assert run.run_id is not None
    with PsqlSession(database_url) as holder:
        holder.ask(f"BEGIN; SELECT FROM agent_task_queue WHERE id = '{run.run_id}' FOR UPDATE")
        with trio.fail_after(1), pytest.raises(WakefulError) as caught:
            await watch(execute, world, run.run_id)
        assert caught.value.code == "wakeup_source_busy"
        assert caught.value.details == {"field": "filter_task_id"}
        assert await sql("SELECT FROM issue_wakeup") == []
    assert (await watch(execute, world, run.run_id)).enabled


async def test_a_run_that_ends_beside_the_save_fires_once(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, database: Database
) -> None:
    """W-017: in 200 rounds of ending a run while its watcher is registered, each fires once."""

    async def register(run: Principal, views: list[RuleView]) -> None:
        assert run.run_id is not None
        while not views:
            try:
                views.append(await watch(execute, world, run.run_id))
            except WakefulError as error:
                refusals.add(error.code)

    async def end(run: Principal, statements_before: int) -> None:
        for _ in range(statements_before):
            await sql("SELECT")
        await sql(END, run.run_id)

    early = 0
    refusals: set[str] = set()
    for number in range(ROUNDS):
        run = await run_of(world.b, world.issue, world.m.user_id)
        views: list[RuleView] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(register, run, views)
            nursery.start_soon(end, run, number % STATEMENTS)
        (receipt,) = await receipts(sql, views[0], pending=False)
        assert receipt["payload"]["coalesced_count"] == 1
        early += "registration_snapshot" in receipt["payload"]
        assert (await dispatch(database, world.issue)).started == 1
    assert 0 < early < ROUNDS, "both orders must have happened"
    assert refusals <= {"wakeup_source_busy"}
