"""A hundred thousand rules that wait for something: they cost an engine nothing."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from engine.storage import queries
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.test_sweep import scans_of_rules, statements
from tests.engine.world import World, running, settled

RULES = 100_000
WORKSPACES = 100
DORMANT = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "   mode, event_types)"
    " SELECT w.id, gen_random_uuid(), $1, $2, 'wait', 'event', 'continuous', $3::text[]"
    "   FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $4::int)) w,"
    "        generate_series(1, $5::int)"
)
PROCESSED = (
    "INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, payload,"
    "   processed_at)"
    " SELECT r.id, 1, 'done', 'comment.created', '{}', wakeful_now()"
    "   FROM issue_wakeup r LIMIT 20000"
)


@pytest.fixture
async def dormant(psql: Psql, world: World) -> None:
    """Write 100,000 enabled rules of 100 workspaces, and 20,000 processed receipts."""
    await psql("ALTER TABLE issue_wakeup DISABLE TRIGGER USER")  # they make 100,000 rows slow
    await psql(DORMANT, world.a, world.m.user_id, [COMMENT], WORKSPACES, RULES // WORKSPACES)
    await psql("ALTER TABLE issue_wakeup ENABLE TRIGGER USER")
    await psql(PROCESSED)
    await psql("ANALYZE issue_wakeup, issue_wakeup_receipt")


async def test_dormant_rules_cost_nothing(
    dormant: None, psql: Psql, world: World, database_url: str
) -> None:
    """W-074: with 100,000 dormant rules an engine starts at once and then runs no statement.

    W-075: nothing that it asks at its start or in a plan reads all rules, or all receipts.
    """
    sql, engines = queries.load("dispatch"), queries.load("engines")
    asked: dict[Any, tuple[object, ...]] = {
        sql.timers: (1_000,),
        sql.sweep: (100,),
        engines.retain: (1_000, 7),
        engines.next_retention: (7, 86_400, 86_400),
        engines.waiting: ([world.issue],),
    }
    for query, arguments in asked.items():
        (plan,) = await psql.value(f"EXPLAIN (ANALYZE, FORMAT JSON) {query.text}", *arguments)
        scans = set(scans_of_rules(plan["Plan"]))
        assert scans, query.name
        assert "Seq Scan" not in scans, query.name
        assert plan["Execution Time"] < 20, query.name
    began = trio.current_time()
    async with running(database_url, sweep_seconds=30, sweep_idle_after=0.3) as engine:
        assert trio.current_time() - began < 3

        async def pauses() -> bool:
            return engine.alarm.is_idle()

        await until(pauses, "the plans pause", within=3)
        await settled(engine)
        before = await statements(psql)
        await psql.pause(2)
        assert await statements(psql) == before
        assert len(before) >= 5
        assert engine.alarm.next_due is None
