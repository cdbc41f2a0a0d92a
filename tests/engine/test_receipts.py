"""What becomes of receipts: drained in batches, consumed with their run, or discarded."""

from __future__ import annotations

from engine.app import Engine
from engine.domain.commands.wakeups import ReplaceRule
from engine.domain.rules import RuleDraft
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import World, register, running, say

# Receipts of an older version: no coalesce_key, two fields of payload, one a second in the past.
LEGACY = (
    "INSERT INTO issue_wakeup_receipt"
    "  (wakeup_id, revision, event_key, event_type, payload, created_at)"
    " SELECT $1, 1, 'old:' || n, 'task.completed',"
    "        jsonb_build_object('event_type', 'task.completed', 'task_id', $2::uuid, 'n', n),"
    "        wakeful_now() - make_interval(secs => 1000 - n)"
    "   FROM generate_series(1, $3::int) n"
)


async def test_a_payload_without_newer_fields_drains(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-040: a receipt with only `event_type` and `task_id` becomes a run without an error."""
    rule_id = await psql.rule(world, event_types=["task.completed"])
    await psql(LEGACY, rule_id, world.issue, 1)
    async with running(database_url):
        run = await psql.run(rule_id)
        await psql.drained(rule_id)
    (fact,) = run["context"]["wakeup_evidence"]["facts"]
    assert fact["event_type"] == "task.completed"
    assert fact["payload"]["task_id"] == str(world.issue)
    assert (await psql.row(rule_id))["last_error"] is None


async def test_old_and_new_payloads_merge(psql: Psql, world: World, database_url: str) -> None:
    """W-040: an old payload and one of today are folded into one fact that counts both."""
    rule_id = await psql.rule(world, event_types=["task.completed", COMMENT])
    await psql(LEGACY.replace("task.completed", COMMENT), rule_id, world.issue, 1)
    comment_id = await psql.comment(world.issue)
    async with running(database_url):
        run = await psql.run(rule_id)
        await psql.drained(rule_id)
    (fact,) = run["context"]["wakeup_evidence"]["facts"]
    assert fact["payload"]["coalesced_count"] == 2
    assert fact["payload"]["comment_id"] == str(comment_id)


async def test_old_receipts_drain_in_batches_of_a_hundred(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-066: 250 receipts without a key go in at most three dispatches, the oldest first.

    W-086: each of them names the one run, though its note has a line for none but the last.
    """
    rule_id = await psql.rule(world, event_types=["task.completed"])
    await psql(LEGACY, rule_id, world.issue, 250)
    async with running(database_url):
        await psql.drained(rule_id)
    run = await psql.run(rule_id)
    receipts = await psql.receipts(rule_id)
    assert len(receipts) == 250
    assert {receipt["task_id"] for receipt in receipts} == {run["id"]}
    batches = await psql(
        "SELECT xmin::text AS dispatch, count(*)::int AS size,"
        "       min((payload ->> 'n')::int) AS first, max((payload ->> 'n')::int) AS last"
        "  FROM issue_wakeup_receipt WHERE wakeup_id = $1 GROUP BY xmin ORDER BY first",
        rule_id,
    )
    assert [(batch["first"], batch["last"], batch["size"]) for batch in batches] == [
        (1, 100, 100),
        (101, 200, 100),
        (201, 250, 50),
    ]
    (fact,) = run["context"]["wakeup_evidence"]["facts"]
    assert fact["payload"]["n"] == 250
    assert fact["payload"]["coalesced_count"] == 250


async def test_merged_facts_tell_the_agent_to_read_the_state(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-066: a line that stands for three comments says so, and the note says to read them."""
    rule = await register(engine, world)
    single = await register(engine, world, issue=world.other_issue)
    await say(engine, world.n, world.other_issue)
    await psql(
        "INSERT INTO comment (issue_id, workspace_id, content)"
        " SELECT $1, $2, 'one of three' FROM generate_series(1, 3)",
        world.issue,
        world.workspace_id,
    )
    merged = (await psql.run(rule.id))["handoff_note"]
    alone = (await psql.run(single.id))["handoff_note"]
    assert '"coalesced_count":3' in merged
    hints = set(merged.splitlines()) - set(alone.splitlines())
    assert any("read the issue" in line for line in hints)


async def test_receipts_of_another_revision_make_no_run(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-067: receipts of an older and of a newer revision are processed without a run."""
    rule_id = await psql.rule(world, event_types=[COMMENT], revision=5)
    for revision in (4, 6):
        await psql.insert(
            "issue_wakeup_receipt",
            {
                "wakeup_id": rule_id,
                "revision": revision,
                "event_key": f"of {revision}",
                "event_type": COMMENT,
                "coalesce_key": COMMENT,
                "payload": {"event_type": COMMENT},
            },
        )
    async with running(database_url):
        await psql.drained(rule_id)
    assert [receipt["task_id"] for receipt in await psql.receipts(rule_id)] == [None, None]
    assert await psql.runs(rule_id) == []
    assert (await psql.row(rule_id))["enabled"]


async def test_a_replacement_between_fact_and_dispatch_discards(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-067: a fact that meets a replaced configuration is discarded, and the next one counts."""
    rule = await register(engine, world)
    draft = RuleDraft(
        agent_id=world.a,
        instruction="look anew",
        kind="event",
        mode="continuous",
        event_types=(COMMENT,),
    )
    async with psql.no_runs():  # so that the replacement comes between
        await say(engine, world.n, world.issue)
        await psql.failed(rule.id)
        command = ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=draft)
        await engine.submit(world.m, command)
    (receipt,) = await psql.receipts(rule.id)
    assert receipt["processed_at"] is not None
    assert receipt["task_id"] is None
    second = await say(engine, world.n, world.issue)
    run = await psql.run(rule.id)
    (fact,) = run["context"]["wakeup_evidence"]["facts"]
    assert fact["payload"]["comment_id"] == str(second)
    assert run["context"]["wakeup_revision"] == rule.revision + 1
