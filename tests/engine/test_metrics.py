"""What /metrics says agrees with the rows, for all writers and several engines."""

from __future__ import annotations

from typing import Any, Final

import pytest
import structlog

from engine import limits
from engine.actors.alarm import Bell
from engine.app import Engine
from engine.domain.claim_gate import REFUSED_REASON
from engine.domain.commands.wakeups import DeleteRule
from engine.storage import queries
from engine.storage.database import Lane, Query
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.scraping import Samples, grown, scrape
from tests.engine.test_engines import all_settled, fleet
from tests.engine.test_sweep import WITHOUT_NOTIFICATION
from tests.engine.world import World, claim, register, running, say, settled, start

# What the rows say, under the names of the samples.
ROWS: Final = """
SELECT 'wakeful_facts_captured_total', sum((x.payload ->> 'coalesced_count')::bigint)
  FROM issue_wakeup_receipt x WHERE x.coalesce_key IS NOT NULL
UNION ALL
SELECT 'wakeful_facts_merged_total', sum((x.payload ->> 'coalesced_count')::bigint - 1)
  FROM issue_wakeup_receipt x WHERE x.coalesce_key IS NOT NULL
UNION ALL
SELECT 'wakeful_facts_ignored_total ' || g.reason, sum(g.count)
  FROM wakeup_ignored g GROUP BY g.reason
UNION ALL
SELECT 'wakeful_receipts free', count(*) FROM issue_wakeup_receipt x
 WHERE x.processed_at IS NULL AND x.task_id IS NULL
UNION ALL
SELECT 'wakeful_receipts_processed_total ' || CASE WHEN x.task_id IS NULL THEN 'discarded'
                                                  ELSE 'consumed' END, count(*)
  FROM issue_wakeup_receipt x WHERE x.processed_at IS NOT NULL GROUP BY x.task_id IS NULL
UNION ALL
SELECT 'wakeful_dispatches_total started', count(*) FROM agent_task_queue q
 WHERE q.wakeup_id IS NOT NULL
UNION ALL
SELECT 'wakeful_claim_refusals_total', count(*) FROM agent_task_queue q
 WHERE q.failure_reason = 'REASON'
"""


REPLACED: Final = "UPDATE issue_wakeup SET revision = revision + 1 WHERE issue_id = $1"
DATABASES: Final = ("wakeful_facts_", "wakeful_receipts")
BULK: Final = (
    "INSERT INTO comment (issue_id, workspace_id, author_type, content)"
    " SELECT i.id, i.workspace_id, 'system', 'one of five'"
    "   FROM issue i, generate_series(1, 5) WHERE i.id = $1"
)


async def steady(engine: Engine) -> None:
    """Wait until the engine listens, and has done what it does at its start."""

    async def listens() -> bool:
        return engine.fleet.backend is not None

    await until(listens, "the engine listens")
    await settled(engine)


async def rows(psql: Psql) -> Samples:
    """Return what the database has of everything that is counted, without what there is none of."""
    found: Any = await psql(ROWS.replace("REASON", REFUSED_REASON))
    return {name: float(value) for name, value in found if value}


def counted(*deltas: Samples) -> Samples:
    """Return what engines have counted: of the database any of them, of their own work the sum."""
    own = "wakeful_dispatches_total started"
    total = {name: value for name, value in deltas[0].items() if name.startswith(DATABASES)}
    total[own] = sum(each.get(own, 0) for each in deltas)
    total["wakeful_claim_refusals_total"] = sum(
        value
        for each in deltas
        for name, value in each.items()
        if name.startswith("wakeful_claim_refusals_total")
    )
    return {name: value for name, value in total.items() if value}


async def test_a_hundred_facts_are_counted_as_the_rows_have_them(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-256: what two engines count of 100 facts of all writers is what the rows say."""
    async with fleet(database_url, 2) as engines:
        one, two = engines
        open_rule = await register(one, world)
        await register(one, world, mode="once")
        members: Any = {"filter_actor_type": "member", "filter_actor_id": world.m.user_id}
        await register(two, world, issue=world.other_issue, **members)
        await all_settled(engines)
        before = [await scrape(engine) for engine in engines]
        for number in range(30):
            await psql.comment(world.issue)
            if number == 10:
                assert len(await claim(one, world, max_tasks=5)) > 0  # what follows waits
        for _ in range(20):
            await say(two, world.n, world.issue)
        await psql.together(*[(BULK, world.issue)] * 2)
        for _ in range(30):
            await psql.comment(world.other_issue)
        for _ in range(10):
            await say(one, world.m, world.other_issue)
        await all_settled(engines)
        await psql(REPLACED, world.other_issue)
        assert await claim(two, world, max_tasks=5) == ()
        await psql("UPDATE issue SET status = 'done' WHERE id = $1", world.other_issue)
        await all_settled(engines)
        after = [await scrape(engine) for engine in engines]
        deltas = [grown(*pair) for pair in zip(before, after, strict=True)]
        stored = await rows(psql)
        assert counted(*deltas) == stored
        assert stored["wakeful_facts_captured_total"] > 70  # 60 and 10, and some of the other rule
        assert stored["wakeful_facts_ignored_total filtered_actor"] == 30
        assert stored["wakeful_receipts free"] >= 1
        assert stored["wakeful_claim_refusals_total"] == 1
        assert len(await psql.runs(open_rule.id)) >= 1


async def test_a_late_commit_is_counted_once(engine: Engine, psql: Psql, world: World) -> None:
    """W-256: what a transaction processed that was open during a scrape is counted by the next."""
    await steady(engine)
    rule_id = await psql.rule(world, enabled=False)
    for _ in range(3):
        await psql.receipt(rule_id, coalesce_key=None)
    discarded = "wakeful_receipts_processed_total discarded"
    process = (
        "UPDATE issue_wakeup_receipt SET processed_at = wakeful_now()"
        " WHERE seq IN (SELECT seq FROM issue_wakeup_receipt WHERE processed_at IS NULL LIMIT 1)"
    )
    first = await scrape(engine)
    assert first["wakeful_receipts free"] == 3
    async with psql.open_transaction((process,)):
        assert (await scrape(engine))[discarded] == first[discarded]
        await psql(process.replace("LIMIT 1)", "ORDER BY seq DESC LIMIT 1)"))
        assert (await scrape(engine))[discarded] == first[discarded] + 1
    for _ in range(2):
        last = await scrape(engine)
        assert last[discarded] == first[discarded] + 2
        assert last["wakeful_receipts free"] == 1


async def test_no_counter_falls(engine: Engine, psql: Psql, world: World) -> None:
    """W-256: neither retention nor the deletion of a rule lets a counter fall; it counts on."""
    kept = await register(engine, world)
    gone = await register(engine, world, issue=world.other_issue)
    async with psql.no_runs():
        for issue in (world.issue, world.other_issue):
            for _ in range(5):
                await psql.comment(issue)
        before = await scrape(engine)
        assert before["wakeful_receipts free"] == 2
        await engine.submit(world.m, DeleteRule(issue_id=world.other_issue, rule_id=gone.id))
    engine.alarm.soon(Bell.SWEEP, pause=0.0)
    await psql.drained(kept.id)
    await psql("DELETE FROM issue_wakeup_receipt")
    between = await scrape(engine)
    await psql.comment(world.issue)
    await psql.drained(kept.id)
    after = await scrape(engine)
    for one, other in ((before, between), (between, after)):
        assert [name for name in one if name.endswith("_total") and other[name] < one[name]] == []
    assert grown(between, after)["wakeful_facts_captured_total"] == 1


async def test_waiting_has_an_age_in_each_workspace(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-258: an input that was kept from running for 60 s shows at least 60; so does its run."""
    rule = await register(engine, world)
    free = f"wakeful_oldest_free_receipt_seconds {world.workspace_id}"
    queued = f"wakeful_oldest_queued_wakeup_run_seconds {world.workspace_id}"
    assert {free, queued}.isdisjoint(await scrape(engine))
    async with psql.no_runs():
        await psql.comment(world.issue)
        await psql("UPDATE issue_wakeup_receipt SET created_at = created_at - interval '60 s'")
        found = await scrape(engine)
        assert 60 <= found[free] < 90
        assert queued not in found
        await settled(engine)
    await psql("SELECT pg_notify('wakeful_wakeups', $1)", str(world.issue))
    await psql.run(rule.id)
    await psql("UPDATE agent_task_queue SET created_at = created_at - interval '60 s'")
    found = await scrape(engine)
    assert 60 <= found[queued] < 90
    assert free not in found


async def test_latencies_are_measured(engine: Engine, psql: Psql, world: World) -> None:
    """W-256: a fact that became a run and a timer that fired are each measured once.

    A fact that waited for a claimed run to start says nothing of latency.
    """
    rule = await register(engine, world)
    await psql.comment(world.issue)
    await psql.run(rule.id)
    await settled(engine)
    first = await scrape(engine)
    assert first["wakeful_commit_to_run_seconds_count"] == 1
    assert 0 < first["wakeful_commit_to_run_seconds_sum"] < 10
    (run,) = await claim(engine, world)
    await psql.comment(world.issue)

    async def held() -> bool:
        return (await scrape(engine)).get("wakeful_dispatches_total held", 0) >= 1

    await until(held, "the fact waits for the claimed run")
    await start(engine, world, run)
    await psql.drained(rule.id)
    timer = await register(engine, world, issue=world.other_issue, kind="at", after_seconds=1)
    await psql.run(timer.id)
    await settled(engine)
    last = await scrape(engine)
    assert last["wakeful_dispatches_total started"] == 3
    assert last["wakeful_commit_to_run_seconds_count"] == 1
    assert last["wakeful_timer_lateness_seconds_count"] == 1
    assert last["wakeful_timer_lateness_seconds_sum"] < 10


async def test_a_scrape_keeps_nothing_awake(engine: Engine, psql: Psql, world: World) -> None:
    """W-074: a scrape is no work and no sign of life, and it alone asks the database."""
    await steady(engine)
    generation, sign = engine.ledger.generation, engine.alarm._last_sign
    await scrape(engine)
    assert engine.ledger.generation == generation
    assert engine.alarm._last_sign == sign


async def test_figures_are_found_by_index(psql: Psql, world: World) -> None:
    """W-256: no query of a scrape reads all receipts or all runs."""
    sql = queries.load("figures")
    mark = (await psql(sql.mark.text))[0]
    for query, arguments in (
        (sql.pending, ()),
        (sql.processed, (mark["snapshot"], mark["now"])),
        (sql.queued, ()),
    ):

        async def explain(session: Any, query: Any = query, arguments: Any = arguments) -> str:
            await session.fetch(sql.pin)
            plan = Query("test.plan", f"EXPLAIN {query.text}")
            return "\n".join(row[0] for row in await session.fetch(plan, *arguments))

        plan = (await psql.database.write(Lane.BACKGROUND, explain)).result
        assert "Seq Scan on issue_wakeup_receipt" not in plan, plan
        assert "Seq Scan on agent_task_queue" not in plan, plan


# --- Found by the sweep alone -------------------------------------------------------------------


async def test_a_fact_that_only_a_sweep_found_is_said(
    psql: Psql, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-257: a fact whose notification was lost is logged once, as a warning with its ids.

    W-072: it becomes a run all the same.
    """
    monkeypatch.setattr(limits, "LOST_HINT_SECONDS", 0.1)
    monkeypatch.setattr(limits, "HINT_SLACK_SECONDS", 0.0)
    async with running(database_url) as engine:
        rule = await register(engine, world)
        heard = await register(engine, world, issue=world.other_issue)
        await steady(engine)
        await psql.comment(world.other_issue)
        await psql.run(heard.id)
        await psql(WITHOUT_NOTIFICATION)
        with structlog.testing.capture_logs() as logs:
            comment = await psql.comment(world.issue)
            await psql.pause(0.2)
            engine.alarm.soon(Bell.SWEEP, pause=0.0)
            run = await psql.run(rule.id)
            await settled(engine)
        warned = [each for each in logs if each["log_level"] == "warning"]
        assert warned == [
            {
                "event": "fact.found_by_sweep",
                "log_level": "warning",
                "workspace_id": str(world.workspace_id),
                "issue_id": str(world.issue),
                "rule_id": str(rule.id),
                "revision": 1,
                "run_id": str(run["id"]),
                "seconds": warned[0]["seconds"],
            }
        ]
        assert str(comment) not in str(logs)
        assert (await scrape(engine))["wakeful_facts_found_by_sweep_total"] == 1


async def test_what_was_hinted_is_not_the_sweeps(
    psql: Psql, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-257: facts that waited though they were hinted, or that came unheard, are no warning."""
    monkeypatch.setattr(limits, "LOST_HINT_SECONDS", 0.1)
    monkeypatch.setattr(limits, "HINT_SLACK_SECONDS", 0.3)
    unheard = await psql.rule(world, event_types=[COMMENT])
    await psql.comment(world.issue)
    await psql.pause(0.2)
    async with running(database_url) as engine:
        await psql.run(unheard)
        rule = await register(engine, world, issue=world.other_issue)
        await steady(engine)
        await psql.pause(0.4)  # so that it has heard all for long enough
        async with psql.no_runs():
            await psql.comment(world.other_issue)
            await psql.failed(rule.id)
            await settled(engine)
            await psql.pause(0.2)
        engine.alarm.soon(Bell.SWEEP, pause=0.0)
        await psql.run(rule.id)
        await settled(engine)
        assert (await scrape(engine))["wakeful_facts_found_by_sweep_total"] == 0
