"""The safety net: what is found without a hint, and that nothing is asked while nothing is due."""

from __future__ import annotations

from typing import Any, cast

import pytest

from engine.app import Engine
from engine.storage import queries
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.world import World, register, running, settled

# Captures as before, but tells nobody.
WITHOUT_NOTIFICATION = """
CREATE OR REPLACE FUNCTION capture_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM wakeful_flush();
  RETURN NULL;
END $$
"""
BLOCKED = 150


async def test_a_lost_notification_is_found_by_the_sweep(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-072: a fact that no notification announced becomes a run at the next sweep."""
    await psql(WITHOUT_NOTIFICATION)
    async with running(database_url, sweep_seconds=0.5) as engine:
        rule = await register(engine, world)
        await settled(engine)
        async with psql.heard("wakeful_wakeups") as heard:
            await psql.comment(world.issue)
            assert await heard() == []
        await psql.run(rule.id, within=5)


async def test_a_broken_listener_misses_nothing(engine: Engine, psql: Psql, world: World) -> None:
    """W-073: facts written while the listening connection is down become runs within 5 s."""
    rule = await register(engine, world)
    await settled(engine)
    before = await listeners(psql)
    assert len(before) == 1
    # One transaction, so that nobody listens when it commits.
    await psql(
        "WITH ended AS MATERIALIZED (SELECT pg_terminate_backend($1, 2000) AS done)"
        " INSERT INTO comment (issue_id, workspace_id, content)"
        " SELECT $2, $3, 'meanwhile' FROM ended WHERE done",
        *(*before, world.issue, world.workspace_id),
    )
    assert len(await psql.receipts(rule.id)) == 1
    await psql.run(rule.id, within=5)

    async def reconnected() -> list[int]:
        return await listeners(psql)

    after = await until(reconnected, "the engine listens again")
    assert after != before
    other = await register(engine, world, issue=world.other_issue)
    await psql.comment(world.other_issue)
    await psql.run(other.id, within=1)


async def test_a_quiet_engine_runs_no_sql(psql: Psql, world: World, database_url: str) -> None:
    """W-074: with nothing due the sweep pauses and no session runs a statement.

    A fact of a foreign writer then still becomes a run at once, and sweeps go on after it.
    """
    async with running(database_url, sweep_seconds=0.2, sweep_idle_after=1.5) as engine:
        rule = await register(engine, world)
        await settled(engine)
        first = await statements(psql)

        async def sweeps() -> bool:
            return await statements(psql) != first

        await until(sweeps, "it sweeps while it was active lately", within=1.4)
        quiet = await resting(psql, seconds=3)
        assert len(quiet) >= 5
        generation = engine.ledger.generation
        await psql.pause(2)
        assert await statements(psql) == quiet
        assert engine.ledger.generation == generation
        await psql.comment(world.issue)
        await psql.run(rule.id, within=1)
        await settled(engine)
        again = await statements(psql)

        async def sweeps_again() -> bool:
            return await statements(psql) != again

        await until(sweeps_again, "the fact woke the sweep", within=1.4)


async def test_a_due_time_wakes_a_quiet_engine(psql: Psql, world: World, database_url: str) -> None:
    """W-074: a pause of the sweep ends with the earliest due time."""
    async with running(database_url, sweep_seconds=0.2, sweep_idle_after=0.5) as engine:
        rule = await register(engine, world, kind="at", after_seconds=3)
        await settled(engine)
        await resting(psql, seconds=2.5)
        assert await psql.runs(rule.id) == []
        await psql.run(rule.id, within=3)


@pytest.mark.parametrize("obstacle", ["failing", "issue locked", "rule locked"])
async def test_blocked_rules_do_not_starve_others(
    psql: Psql, world: World, database_url: str, obstacle: str
) -> None:
    """W-075: a healthy rule is served by the second sweep though 150 others stay blocked."""
    await psql(WITHOUT_NOTIFICATION)
    issues = await psql.issues(world, BLOCKED // 10)
    blocked = [
        await psql.rule(world, issue_id=issue, agent_id=world.b, event_types=[COMMENT])
        for issue in issues
        for _ in range(10)
    ]
    for issue in issues:
        await psql.comment(issue)
    healthy = await psql.rule(world, issue_id=world.other_issue, event_types=[COMMENT])
    await psql.comment(world.other_issue)
    assert len(blocked) == BLOCKED
    lock: dict[str, tuple[object, ...]] = {
        "failing": ("SELECT 1",),
        "issue locked": (
            "SELECT pg_advisory_xact_lock(wakeful_issue_key(i)) FROM unnest($1::uuid[]) i",
            issues,
        ),
        "rule locked": ("SELECT FROM issue_wakeup WHERE id = ANY ($1) FOR UPDATE", blocked),
    }
    async with psql.no_runs(world.b), psql.open_transaction(lock[obstacle]):
        # The first sweep is that of the start.
        async with running(database_url, sweep_seconds=0.5):
            await psql.run(healthy)
        assert await psql.value("SELECT count(*) FROM agent_task_queue") == 1
    pending = "SELECT count(*) FROM issue_wakeup_receipt WHERE processed_at IS NULL"
    assert await psql.value(pending) == BLOCKED


async def test_every_examined_rule_is_stamped(psql: Psql, world: World, database_url: str) -> None:
    """W-075: a rule that a sweep examined in vain has a new `updated_at`, and so has the next."""
    async with psql.no_runs():
        rule_id = await psql.rule(world, event_types=[COMMENT])
        await psql.comment(world.issue)
        before = (await psql.row(rule_id))["updated_at"]
        async with running(database_url, sweep_seconds=0.3):
            await psql.failed(rule_id)
            first = (await psql.row(rule_id))["updated_at"]
            assert first > before

            async def stamped_again() -> bool:
                return bool((await psql.row(rule_id))["updated_at"] > first)

            await until(stamped_again, "the next examination")


async def test_sweeps_never_scan_disabled_history(psql: Psql, world: World) -> None:
    """W-075: 100,000 disabled rules and 50,000 later timers: index scans only, under 20 ms."""
    await psql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, event_types, next_fire_at, enabled, disabled_at)"
        " SELECT $1, $2, $3, $4, 'old', kind, mode, CASE kind WHEN 'event' THEN $5::text[]"
        "   ELSE '{}' END, CASE kind WHEN 'at' THEN wakeful_now() - interval '1 day' END,"
        "   false, wakeful_now()"
        "  FROM generate_series(1, 50000), (VALUES ('event', 'continuous'), ('at', 'once'))"
        "       AS two (kind, mode)",
        *(world.workspace_id, world.issue, world.a, world.m.user_id, [COMMENT]),
    )
    assert await psql.value("SELECT count(*) FROM issue_wakeup WHERE NOT enabled") == 100_000
    # More than may be enabled, so that a scan of them would be seen.
    await psql("ALTER TABLE issue_wakeup DISABLE TRIGGER wakeup_limit_insert")
    await psql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, next_fire_at)"
        " SELECT $1, $2, $3, $4, 'later', 'at', 'once', wakeful_now() + interval '1 day'"
        "  FROM generate_series(1, 50000)",
        *(world.workspace_id, world.other_issue, world.a, world.m.user_id),
    )
    await psql("ANALYZE issue_wakeup")
    await psql.rule(world, event_types=[COMMENT])
    await psql.comment(world.issue)
    now = await psql.value("SELECT wakeful_now()")
    timer = {"kind": "at", "mode": "once", "next_fire_at": now}
    await psql.rule(world, issue_id=world.other_issue, **timer)
    sql = queries.load("dispatch")
    for query in (sql.sweep, sql.timers):
        arguments: tuple[object, ...] = (100,) if "$1" in query.text else ()
        await psql(query.text, *arguments)  # caches warm
        (plan,) = await psql.value(f"EXPLAIN (ANALYZE, FORMAT JSON) {query.text}", *arguments)
        scans = set(scans_of_rules(plan["Plan"]))
        assert scans, query.name
        assert "Seq Scan" not in scans, query.name
        assert plan["Execution Time"] < 20, query.name
    found = [row[0] for row in cast("list[Any]", await psql(sql.sweep.text, 100))]
    assert sorted(found) == sorted([world.issue, world.other_issue])


def scans_of_rules(node: dict[str, Any]) -> list[str]:
    """Return the kinds of all nodes of a plan that read rules or receipts."""
    inner = [kind for child in node.get("Plans", ()) for kind in scans_of_rules(child)]
    if str(node.get("Relation Name", "")).startswith("issue_wakeup"):
        return [node["Node Type"], *inner]
    return inner


async def listeners(psql: Psql) -> list[int]:
    """Return the server processes of connections that listen for the engine."""
    sessions = await psql.engine_sessions()
    return [row["pid"] for row in sessions if row["application_name"].endswith("listen")]


async def statements(psql: Psql) -> dict[int, Any]:
    """Return when each session of the engine last began or ended a statement."""
    return {row["pid"]: row["state_change"] for row in await psql.engine_sessions()}


async def resting(psql: Psql, *, seconds: float) -> dict[int, Any]:
    """Wait until no session of the engine has done anything for half a second."""

    async def probe() -> dict[int, Any] | None:
        before = await statements(psql)
        await psql.pause(0.5)
        return before if await statements(psql) == before else None

    return await until(probe, "the engine rests", within=seconds)


async def test_more_than_a_sweep_takes_is_swept_at_once(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-075: after an outage sweep follows sweep; 250 waiting rules need no 30 s each hundred."""
    issues = await psql.issues(world, 250)
    types = ["comment.created"]
    rules = [await psql.rule(world, issue_id=issue, event_types=types) for issue in issues]
    for issue in issues:
        await psql.comment(issue)
    assert await psql.value("SELECT count(*) FROM issue_wakeup_receipt") == 250
    async with running(database_url):
        await psql.drained(*rules, within=20)
