"""What the views of a whole workspace cost when its history is long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from engine.storage import queries
from engine.storage.database import Database, Lane, Session
from engine.storage.queries import Query
from tests.service.conftest import Executor, Sql, World
from tests.service.test_inventory import inventory, summaries

BIG: Final = ("issue_wakeup", "agent_task_queue", "issue")
PAGE: Final = 50
ISSUES: Final = 2_000
ENABLED: Final = 1_000
DISABLED: Final = 19_000
UNFINISHED: Final = 300
NEEDED: Final = (
    "issue_wakeup_inventory_idx",
    "agent_task_wakeup_active_idx",
    "agent_task_wakeup_terminal_idx",
)
FINISHED_EACH: Final = 10  # of each rule: one a day, so that some are older than a week
# Two workspaces alike, as in an installation that several teams share.
MAKE_ISSUES: Final = """
INSERT INTO issue (workspace_id, number, title)
SELECT w.id, 100 + n, 'Issue number ' || n FROM workspace w, generate_series(1, $1::integer) n"""
MAKE_RULES: Final = """
INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind, mode,
                          event_types, enabled, disabled_at)
SELECT i.workspace_id, i.id, $4, $5, repeat('Read what was said last. ', 24), 'event',
       'continuous', '{comment.created}', n <= $2, CASE WHEN n > $2 THEN now() END
  FROM generate_series(1, $2::integer + $3) n JOIN issue i ON i.number = 101 + n % $1"""
MAKE_FINISHED: Final = """
INSERT INTO agent_task_queue (agent_id, issue_id, status, created_at, started_at, completed_at,
                              context)
SELECT r.agent_id, r.issue_id, 'completed', now() - n * interval '1 day', now(), now(),
       jsonb_build_object('wakeup_id', r.id)
  FROM issue_wakeup r, generate_series(1, $1::integer) n WHERE r.workspace_id = $2
 ORDER BY r.id, n"""  # in the order of the index, which is half the work
MAKE_UNFINISHED: Final = """
INSERT INTO agent_task_queue (agent_id, issue_id, status, comment_thread_id, context)
SELECT r.agent_id, r.issue_id, 'queued', r.id, jsonb_build_object('wakeup_id', r.id)
  FROM (SELECT * FROM issue_wakeup w WHERE w.workspace_id = $2 AND w.enabled
         ORDER BY w.id LIMIT $1) r"""


@pytest.fixture
async def history(sql: Sql, world: World) -> None:
    """Write 1,000 enabled and 19,000 disabled rules, with 200,000 finished runs, set-based."""
    for table in BIG:
        await sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    await sql(MAKE_ISSUES, ISSUES)
    await sql(MAKE_RULES, ISSUES, ENABLED, DISABLED, world.a, world.m.user_id)
    await sql(MAKE_FINISHED, FINISHED_EACH, world.workspace_id)
    await sql(MAKE_UNFINISHED, UNFINISHED, world.workspace_id)
    for table in BIG:
        await sql(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    # As the server itself does with what has grown. Its commits are asynchronous here, and VACUUM
    # trusts those alone that have been written.
    await sql("CHECKPOINT")
    await sql(f"VACUUM (ANALYZE) {', '.join(BIG)}")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


class UndoneError(Exception):
    """Leaves a unit, so that what it has done is rolled back."""


async def explained(
    database: Database, mode: str, query: Query, *arguments: object, without: str | None = None
) -> dict[str, Any]:
    """Return how a query was executed; `mode` says whether its plan knows the arguments.

    `without` an index, as if that had never been made.
    """
    found: dict[str, Any] = {}

    async def unit(session: Session) -> None:
        if without is not None:
            await session.execute(Query("test.drop", f"DROP INDEX {without}"))
        await session.execute(
            Query("test.mode", "SELECT set_config('plan_cache_mode', $1, true)"), mode
        )
        (plan,) = await session.fetchval(
            Query("test.explain", f"EXPLAIN (ANALYZE, FORMAT JSON) {query.text}"), *arguments
        )
        found.update(plan)
        raise UndoneError

    with suppress(UndoneError):
        await database.write(Lane.BACKGROUND, unit)
    print(f"{query.name} {arguments[1:]} {mode}: {found['Execution Time']:.0f} ms")  # noqa: T201 - for -s
    plan: dict[str, Any] = found["Plan"]
    return plan


def rows_read(plan: dict[str, Any], table: str) -> int:
    """Return how many rows of a table a plan has read, or looked at in one of its indexes."""
    return sum(
        round((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for node in nodes(plan)
        if node.get("Relation Name") == table
    )


def read_by_index(plan: dict[str, Any], rows: int) -> None:
    """Raise AssertionError unless a page of so many rules was read as W-206 asks for."""
    scans = [node for node in nodes(plan) if node.get("Relation Name") in BIG]
    assert "Seq Scan" not in {node["Node Type"] for node in scans}
    assert "issue_wakeup_inventory_idx" in {node.get("Index Name") for node in scans}
    assert plan["Actual Rows"] == max(rows, 1)  # the counts are there in any case
    assert rows_read(plan, "agent_task_queue") < UNFINISHED + 40 * PAGE
    assert rows_read(plan, "issue_wakeup") <= ENABLED + DISABLED + PAGE
    assert rows_read(plan, "issue") <= ISSUES + PAGE


async def test_a_long_history_is_not_read(
    history: None, database: Database, execute: Executor, world: World
) -> None:
    """W-206: beside 200,000 finished runs a page reads unfinished ones and those of its rules.

    All by index, for each class and each page: neither rules, nor runs, nor issues are read as a
    whole. Without one of these indexes that would not be so.
    """
    found = await inventory(execute, world, scope="active", limit=PAGE)
    counts = found.counts
    assert (counts.all, counts.active, counts.disabled) == (ENABLED + DISABLED, ENABLED, DISABLED)
    assert (found.items[0].runs_7d, found.total) == (6 + found.items[0].active_runs, ENABLED)
    boards = await summaries(execute, world)
    assert sum(board.active_count for board in boards) == ENABLED
    sql = queries.load("inventory")
    pages = (
        ("active", None, 0, PAGE),
        ("all", None, ENABLED + DISABLED - PAGE, PAGE),
        ("all", "%number 1%", 1_000, PAGE),
        ("disabled", None, DISABLED - PAGE, PAGE),
        ("paused", None, 0, 0),
        ("ended", None, 0, 0),
    )
    for mode in ("force_custom_plan", "force_generic_plan"):
        for scope, pattern, offset, rows in pages:
            asked = (world.workspace_id, scope, "all", "all", None, pattern, PAGE, offset)
            read_by_index(await explained(database, mode, sql.list, *asked), rows)
        plan = await explained(database, mode, sql.summaries, world.workspace_id, 3)
        scans = [node for node in nodes(plan) if node.get("Relation Name") in BIG]
        assert "Seq Scan" not in {node["Node Type"] for node in scans}
        assert rows_read(plan, "issue_wakeup") <= ENABLED
        assert rows_read(plan, "agent_task_queue") == 0
    asked = (world.workspace_id, "active", "all", "all", None, None, 1, 0)
    read_by_index(await explained(database, "auto", sql.list, *asked), 1)
    for index in NEEDED:
        plan = await explained(database, "auto", sql.list, *asked, without=index)
        with pytest.raises(AssertionError):
            read_by_index(plan, 1)


async def test_inbox_items_of_an_issue_are_found_by_index(sql: Sql, world: World) -> None:
    """W-189: deleting an issue reads the inbox items about it, not the inbox of everybody."""
    await sql(
        "INSERT INTO inbox_item (workspace_id, recipient_id, type, issue_id, title)"
        " SELECT $1, $2, 'new_comment', gen_random_uuid(), 'x' FROM generate_series(1, 5000)",
        *(world.workspace_id, world.m.user_id),
    )
    await sql("ANALYZE inbox_item")
    delete = queries.load("issues").delete_attached
    (row,) = await sql(f"EXPLAIN (FORMAT JSON) {delete.text}", world.issue)
    scans = [node for node in nodes(row["QUERY PLAN"][0]["Plan"]) if "Scan" in node["Node Type"]]
    assert "inbox_item_issue_idx" in {node.get("Index Name") for node in scans}
    assert ("Seq Scan", "inbox_item") not in {
        (node["Node Type"], node.get("Relation Name")) for node in scans
    }
