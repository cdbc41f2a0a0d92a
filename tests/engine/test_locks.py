"""Locks of others: the engine waits briefly, gives up, and comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
import trio

from engine.app import Engine
from engine.errors import WakefulError
from engine.service.dispatch import record_contention, record_error
from engine.storage.database import Database, Lane
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.world import World, register, running, say, settled

LOCK_ISSUE = "SELECT pg_advisory_xact_lock(wakeful_issue_key($1))"
LOCK_RULE = "SELECT FROM issue_wakeup WHERE id = $1 FOR UPDATE"
LOCK_RUN = "SELECT FROM agent_task_queue WHERE id = $1 FOR UPDATE"
GIVES_UP = timedelta(milliseconds=150)  # W-077
COMMENT_SECONDS_MAX = 0.1  # W-078

# Lets a dispatch linger between its decision and its insert; `lingered` outlives rollbacks.
LINGER = """
CREATE SEQUENCE lingered;
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF wakeful_setting('wakeful.hinted') = 'on' THEN
    PERFORM nextval('lingered');
    PERFORM pg_sleep(0.2);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER a_linger BEFORE INSERT ON agent_task_queue FOR EACH ROW EXECUTE FUNCTION linger();
"""
COMPETITOR = (
    "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, context)"
    " VALUES ($1, $2, $3, jsonb_build_object('wakeup_id', $4::uuid, 'wakeup_revision', 1))"
)


async def test_other_issues_go_on_while_one_is_locked(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-069: with issue I locked, facts on twenty other issues still become runs at once."""
    stuck = await register(engine, world)
    issues = await psql.issues(world, 20)
    rules = [await register(engine, world, issue=issue) for issue in issues]
    async with psql.open_transaction((LOCK_ISSUE, world.issue)):
        await psql.receipt(stuck.id)
        await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
        for issue in issues:
            await psql.comment(issue)
        for rule in rules:
            await psql.run(rule.id)
        assert await psql.runs(stuck.id) == []
        worst = await psql.value(
            "SELECT max(q.created_at - c.created_at)"
            "  FROM comment c JOIN agent_task_queue q USING (issue_id)"
        )
        assert worst < timedelta(seconds=1)


@pytest.mark.parametrize("lock", [LOCK_ISSUE, LOCK_RULE], ids=["issue", "rule"])
async def test_a_short_lock_delays_a_run_by_a_second_at_most(
    engine: Engine, psql: Psql, world: World, lock: str
) -> None:
    """W-071: after a lock of 300 ms the run appears within 1 s of its release, unswept."""
    rule = await register(engine, world)
    locked = world.issue if lock is LOCK_ISSUE else rule.id
    async with psql.open_transaction((lock, locked)):
        await psql.receipt(rule.id)
        await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
        await psql.pause(0.3)
        assert await psql.runs(rule.id) == []
    await psql.run(rule.id, within=1)


@pytest.mark.parametrize("lock", [LOCK_ISSUE, LOCK_RULE], ids=["issue", "rule"])
async def test_a_dispatch_gives_up_on_a_lock(
    psql: Psql, world: World, database_url: str, lock: str
) -> None:
    """W-077: no dispatch waits 150 ms for a lock; the input stays, and is one run afterwards."""
    async with running(database_url, sweep_seconds=0.4) as engine:
        rule = await register(engine, world)
        locked = world.issue if lock is LOCK_ISSUE else rule.id
        waits = []
        async with psql.open_transaction((lock, locked)):
            await psql.receipt(rule.id)
            await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
            deadline = trio.current_time() + 2
            while trio.current_time() < deadline:
                sessions = await psql.engine_sessions()
                waits += [row["age"] for row in sessions if row["wait_event_type"] == "Lock"]
                await psql.pause(0.002)
            (receipt,) = await psql.receipts(rule.id)
            assert receipt["task_id"] is None
            assert receipt["processed_at"] is None
        assert waits, "the engine met the lock"
        assert max(waits) < GIVES_UP
        run = await psql.run(rule.id, within=3)
        await psql.drained(rule.id)
        await settled(engine)
        assert (await psql.run(rule.id))["id"] == run["id"]
        assert (await psql.row(rule.id))["last_error"] is None


@pytest.mark.parametrize("record", [record_error, record_contention])
async def test_an_error_text_has_a_budget_of_its_own(
    psql: Psql, world: World, database_url: str, record: Callable[..., Awaitable[None]]
) -> None:
    """W-077: what cannot be written down within 100 ms is given up, and holds up nobody."""
    rule = await psql.rule(world, event_types=[COMMENT])
    what = {"rule_id": rule, "text": "x"} if record is record_error else {"issue_id": world.issue}
    async with (
        Database.open(database_url) as database,
        psql.open_transaction(("LOCK TABLE issue_wakeup",)),
    ):
        began = trio.current_time()
        with pytest.raises(WakefulError) as caught:
            await database.write(Lane.BACKGROUND, partial(record, **what))
        assert caught.value.code == "budget_exceeded"
        assert trio.current_time() - began < 1


async def test_a_locked_run_holds_up_no_comment(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-078: while somebody holds the queued run, comments return within 100 ms."""
    async with running(database_url, sweep_seconds=0.5) as engine:
        rule = await register(engine, world)
        await say(engine, world.n, world.issue)
        run = await psql.run(rule.id)
        took = []
        async with psql.open_transaction((LOCK_RUN, run["id"])):
            for number in range(12):
                began = trio.current_time()
                if number % 2:
                    await say(engine, world.n, world.issue)
                else:
                    await psql.comment(world.issue)
                took.append(trio.current_time() - began)
                await psql.pause(0.05)
            free = [row for row in await psql.receipts(rule.id) if row["processed_at"] is None]
            assert len(free) == 1, "the dispatch met the lock"
        await psql.drained(rule.id, within=3)
        (fact,) = (await psql.run(rule.id))["context"]["wakeup_evidence"]["facts"]
        assert fact["payload"]["coalesced_count"] == 13
    assert max(took) < COMMENT_SECONDS_MAX, took


async def test_a_competing_run_mid_dispatch_gets_the_facts(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-081: a pending run that appears between decision and insert takes the facts.

    G-04: so the rule has one unclaimed run.
    """
    rule = await register(engine, world)
    await psql.script(LINGER)
    comment_id = await say(engine, world.n, world.issue)

    async def lingers() -> bool:
        return bool(await psql.value("SELECT is_called FROM lingered"))

    await until(lingers, "the dispatch is about to insert")
    await psql(COMPETITOR, *competitor(world, rule.id))
    await check_competitor(engine, psql, rule.id, comment_id)


async def test_an_uncommitted_competing_run_gets_the_facts(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-081: a dispatch that collides with a run of an open transaction adds to it later."""
    rule = await register(engine, world)
    async with psql.open_transaction((COMPETITOR, *competitor(world, rule.id))):
        comment_id = await psql.comment(world.issue)
        await psql.pause(0.3)
        (receipt,) = await psql.receipts(rule.id)
        assert receipt["processed_at"] is None, "the dispatch collided"
    await check_competitor(engine, psql, rule.id, comment_id)


def competitor(world: World, rule_id: UUID) -> tuple[UUID, ...]:
    """Return the arguments of COMPETITOR."""
    return (world.a, world.issue, world.runtime_id, rule_id)


async def check_competitor(engine: Engine, psql: Psql, rule_id: UUID, comment_id: UUID) -> None:
    """The only run of the rule is the competitor, and it has the fact."""
    await psql.drained(rule_id, within=2)
    await settled(engine)
    run = await psql.run(rule_id)
    assert run["originator_user_id"] is None, "it is not the engine's"
    (fact,) = run["context"]["wakeup_evidence"]["facts"]
    assert fact["event_type"] == COMMENT
    assert fact["payload"]["comment_id"] == str(comment_id)
    (receipt,) = await psql.receipts(rule_id)
    assert receipt["task_id"] == run["id"]
    assert (await psql.row(rule_id))["last_error"] is None
