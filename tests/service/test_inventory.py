"""All rules of a workspace at once: classes, counts, filters, runs, and what boards show."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import trio

from engine.domain.commands.inventory import ListInventory, ListSummaries
from engine.domain.commands.runs import FailRun
from engine.domain.commands.tracker import CreateIssue, UpdateIssue
from engine.domain.commands.wakeups import (
    CreateRule,
    DisableRule,
    EnableRule,
    ListRuleRuns,
)
from engine.domain.principal import Principal
from engine.domain.rules import RuleDraft
from engine.domain.views.inventory import InventoryItemView, InventoryView, IssueSummaryView
from engine.domain.views.wakeups import RuleRunView, RuleView
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.runs_seed import Floor, floor  # noqa: F401 - a fixture
from tests.service.wakeup_steps import a_draft, a_timer, create, refused, run_for
from web import wire

SECRET = "zanzibar"
SCOPES = ("active", "paused", "disabled", "ended")


async def inventory(
    execute: Executor, world: World, caller: Principal | None = None, **asked: Any
) -> InventoryView:
    """Return the inventory of the world's workspace, of all classes unless said otherwise."""
    query = ListInventory(workspace_id=world.workspace_id, **{"scope": "all", **asked})
    view = await execute(caller or world.n, query)
    assert isinstance(view, InventoryView)
    return view


async def titles(execute: Executor, world: World, **asked: Any) -> list[str]:
    """Return the titles of the issues of the rules that are found, in alphabetical order."""
    found = await inventory(execute, world, **asked)
    assert found.total == found.counts.all == len(found.items)
    return sorted(item.issue_title for item in found.items)


async def summaries(
    execute: Executor, world: World, caller: Principal | None = None
) -> tuple[IssueSummaryView, ...]:
    """Return what a board of the world's workspace shows."""
    found = await execute(caller or world.n, ListSummaries(workspace_id=world.workspace_id))
    assert isinstance(found, tuple)
    return found


async def issue(execute: Executor, world: World, title: str, **fields: Any) -> UUID:
    """Make an issue."""
    new = CreateIssue(workspace_id=world.workspace_id, title=title, **fields)
    identifier = (await execute(world.m, new)).id
    assert isinstance(identifier, UUID)
    return identifier


async def rule_on(
    execute: Executor, world: World, issue_id: UUID, draft: RuleDraft | None = None
) -> RuleView:
    """Register a rule on an issue, as M; a comment rule unless said otherwise."""
    new = CreateRule(issue_id=issue_id, draft=draft or a_draft(world))
    view = await execute(world.m, new)
    assert isinstance(view, RuleView)
    return view


async def spend(sql: Sql, rule: RuleView) -> None:
    """Let a rule have fired for the only time."""
    await sql("UPDATE issue_wakeup SET enabled = false WHERE id = $1", rule.id)


# --- Classes and counts -------------------------------------------------------------------------


async def test_rules_are_classed(execute: Executor, sql: Sql, world: World) -> None:
    """W-208: enabled or at work is active, switched off is disabled, the rest has ended."""
    closed, busy = [await issue(execute, world, name) for name in ("closed", "busy")]
    waiting = await create(execute, world)
    consumed = await create(execute, world, mode="once")
    await run_for(sql, consumed, "queued")
    await spend(sql, consumed)
    working = await create(execute, world)
    await run_for(sql, working, "running")
    off, spent = [await create(execute, world, mode="once") for _ in range(2)]
    await run_for(sql, spent, "completed")
    await spend(sql, spent)
    for each in (working, off):
        await execute(world.m, DisableRule(issue_id=world.issue, rule_id=each.id))
    over, last = [await rule_on(execute, world, where) for where in (closed, busy)]
    run = await run_for(sql, last, "running")
    for where in (closed, busy):
        await execute(world.m, UpdateIssue(issue_id=where, status="done"))
    classes = {
        "active": {waiting.id, consumed.id, working.id, last.id},
        "paused": set(),
        "disabled": {off.id},
        "ended": {spent.id, over.id},
    }
    for scope in SCOPES:
        found = await inventory(execute, world, scope=scope)
        assert {item.id for item in found.items} == classes[scope], scope
        assert found.total == getattr(found.counts, scope) == len(classes[scope])
    assert found.counts.all == 7
    assert [item.issue_closed for item in found.items] == [
        item.id == over.id for item in found.items
    ]
    await sql("UPDATE agent_task_queue SET status = 'completed' WHERE id = $1", run)
    after = await inventory(execute, world, scope="ended")
    assert last.id in {item.id for item in after.items}
    assert (after.counts.active, after.counts.ended) == (3, 3)


async def test_custom_statuses_close(execute: Executor, sql: Sql, world: World) -> None:
    """W-208: rules of an issue whose custom status is of category closed have ended."""
    await sql(
        "INSERT INTO issue_status (workspace_id, key, name, category)"
        " VALUES ($1, 'shelved', 'Shelved', 'closed')",
        world.workspace_id,
    )
    await create(execute, world)
    await execute(world.m, UpdateIssue(issue_id=world.issue, status="shelved"))
    found = await inventory(execute, world)
    assert [item.issue_closed for item in found.items] == [True]
    assert (found.counts.ended, found.counts.disabled) == (1, 0)


async def test_counts_and_rows_are_of_one_snapshot(execute: Executor, world: World) -> None:
    """W-206: while rules are switched on and off, counts always add up to the rows."""
    rules = [await create(execute, world, world.o) for _ in range(4)]
    place: dict[UUID, dict[str, Any]] = {
        rule.id: {"issue_id": world.issue, "rule_id": rule.id} for rule in rules
    }
    seen = set()

    async def toggle() -> None:
        for rule in rules * 2:
            off = await execute(world.o, DisableRule(**place[rule.id]))
            again = EnableRule(**place[rule.id], revision=off.revision)
            await execute(world.o, again)
        for rule in rules:
            await execute(world.o, DisableRule(**place[rule.id]))
        changed.cancel()

    with trio.CancelScope() as changed:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(toggle)
            while True:
                found = await inventory(execute, world)
                enabled = sum(item.enabled for item in found.items)
                seen.add(enabled)
                assert (found.counts.active, found.counts.disabled) == (enabled, 4 - enabled)
                assert found.total == found.counts.all == len(found.items) == 4
    assert len(seen) > 1, "nothing changed meanwhile"


async def test_pages_follow_one_order(execute: Executor, world: World) -> None:
    """W-206: active rules first, the soonest before those without a time, then the newest."""
    old, new = [await create(execute, world) for _ in range(2)]
    late, soon = [
        await rule_on(execute, world, world.other_issue, a_timer(world, interval_seconds=seconds))
        for seconds in (7_200, 3_600)
    ]
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=new.id))
    ordered = [soon.id, late.id, old.id, new.id]
    whole = await inventory(execute, world)
    assert [item.id for item in whole.items] == ordered
    for offset in range(4):
        page = await inventory(execute, world, limit=1, offset=offset)
        assert [item.id for item in page.items] == ordered[offset : offset + 1]
        assert (page.total, page.counts) == (4, whole.counts)
    behind = await inventory(execute, world, offset=1_000_000)
    assert (behind.items, behind.total, behind.counts) == ((), 4, whole.counts)
    assert behind.agents == whole.agents


async def test_an_empty_workspace(execute: Executor, world: World) -> None:
    """W-206: without rules there are no rows, no agents to choose from, and all counts are 0."""
    found = await inventory(execute, world)
    assert (found.items, found.total, found.agents) == ((), 0, ())
    assert {getattr(found.counts, scope) for scope in ("all", *SCOPES)} == {0}
    assert await summaries(execute, world) == ()


# --- Runs ---------------------------------------------------------------------------------------


async def test_a_retry_stays_in_sight(floor: Floor) -> None:  # noqa: F811 - the fixture
    """W-209: after a failure the retry is the one active run, whatever `last_task_id` says."""
    world, execute = floor.world, floor.execute
    rule = await create(execute, world, instruction=SECRET)
    first = await floor.fire(rule.id)
    await floor.sql("UPDATE issue_wakeup SET last_task_id = $2 WHERE id = $1", rule.id, first)
    run = await floor.claim_one()
    await floor.start(run)
    await floor.report(FailRun(run_id=run.id, error="gone", failure_reason="runtime_offline"))
    await run_for(floor.sql, rule, "completed")
    await floor.sql(
        "UPDATE agent_task_queue SET created_at = created_at - interval '7 days'"
        " WHERE status = 'completed'"
    )
    (item,) = (await inventory(execute, world)).items
    assert item.task is not None
    (retry,) = await floor.sql("SELECT id FROM agent_task_queue WHERE retry_of_task_id = $1", first)
    assert (item.active_runs, item.task.id, item.task.status) == (1, retry["id"], "queued")
    assert (item.task.wakeup_id, item.task.issue_id) == (rule.id, world.issue)
    assert (item.last_task_id, item.last_task_status) == (first, "failed")
    assert item.runs_7d == 2
    assert (item.enabled, item.issue_closed) == (True, False)
    assert "instruction" not in wire.names(InventoryItemView)
    assert SECRET not in wire.dumps(item).decode()


async def test_the_run_of_a_rule(execute: Executor, sql: Sql, world: World) -> None:
    """W-209: `task` is the unfinished run, a started one first; without any the latest one."""
    rule = await create(execute, world)
    (item,) = (await inventory(execute, world)).items
    assert (item.task, item.active_runs, item.runs_7d) == (None, 0, 0)
    running = await run_for(sql, rule, "running")
    await run_for(sql, rule, "queued")
    ended = await run_for(sql, rule, "completed")
    (item,) = (await inventory(execute, world)).items
    assert item.task is not None
    assert (item.task.id, item.active_runs, item.runs_7d) == (running, 2, 3)
    await sql("UPDATE agent_task_queue SET status = 'cancelled' WHERE id <> $1", ended)
    (item,) = (await inventory(execute, world)).items
    assert item.task is not None
    assert (item.task.id, item.task.status, item.active_runs) == (ended, "completed", 0)


async def test_the_latest_ten_runs(execute: Executor, sql: Sql, world: World) -> None:
    """W-212: of twelve runs the ten newest, with the triggers, check-in and comment of each."""
    rule = await create(execute, world)
    facts = [{"event_type": name} for name in ("issue.updated", "comment.created", "issue.updated")]
    noted = {"wakeup_checkin": {"note": "quiet"}, "wakeup_evidence": {"facts": facts}}
    runs = [
        await run_for(sql, rule, "completed", **(noted if number == 11 else {}))
        for number in range(12)
    ]
    await sql(
        "INSERT INTO comment (issue_id, workspace_id, content, source_task_id)"
        " VALUES ($1, $2, 'found it', $3)",
        *(world.issue, world.workspace_id, runs[5]),
    )
    place: dict[str, Any] = {"issue_id": world.issue, "rule_id": rule.id}
    shown: tuple[RuleRunView, ...] = await execute(world.n, ListRuleRuns(**place))
    assert [run.id for run in shown] == runs[:1:-1]
    assert [run.id for run in shown if run.commented] == [runs[5]]
    assert [run.checkin_note for run in shown] == ["quiet", *[None] * 9]
    assert [run.triggers for run in shown[:2]] == [("issue.updated", "comment.created"), ()]
    elsewhere = ListRuleRuns(issue_id=world.other_issue, rule_id=rule.id)
    assert await refused(execute, world.n, elsewhere) == "not_found"


# --- Filters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"scope": "active"}, None),
        ({"scope": ""}, "scope"),
        ({"scope": "Active"}, "scope"),
        ({"kind": "recurring"}, None),
        ({"kind": "every"}, "kind"),
        ({"source": "system"}, None),
        ({"source": "all"}, "source"),
        ({"search": "é" * 128}, None),
        ({"search": "é" * 128 + "x"}, "search"),
        ({"search": "a\x00b"}, "search"),
        ({"offset": 0}, None),
        ({"offset": -1}, "offset"),
        ({"offset": 1_000_000}, None),
        ({"offset": 1_000_001}, "offset"),
        ({"limit": 1}, None),
        ({"limit": 0}, "limit"),
        ({"limit": 100}, None),
        ({"limit": 101}, "limit"),
    ],
)
async def test_bounds_of_the_query(
    execute: Executor, world: World, asked: dict[str, Any], field: str | None
) -> None:
    """W-207: each bound is taken, what lies beside it is 400 for its field."""
    query = ListInventory(workspace_id=world.workspace_id, **asked)
    if field is None:
        assert (await execute(world.n, query)).total == 0
    else:
        assert await execute.refused(world.n, query, field=field) == "invalid_input"


async def test_a_page_has_fifty_rules(execute: Executor, sql: Sql, world: World) -> None:
    """W-207: unless asked otherwise a page is the first fifty rules of the active ones."""
    rule = await create(execute, world)
    await sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, enabled, disabled_at)"
        " SELECT $1, $2, $3, $4, 'look', 'event', 'once', false, wakeful_now()"
        "   FROM generate_series(1, 51)",
        *(world.workspace_id, world.other_issue, world.a, world.m.user_id),
    )
    found = await execute(world.n, ListInventory(workspace_id=world.workspace_id))
    assert ([item.id for item in found.items], found.total) == ([rule.id], 1)
    off = await inventory(execute, world, scope="disabled")
    assert (len(off.items), off.total) == (50, 51)


async def test_filters_narrow_rows_and_counts(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-207: kind, source and agent narrow rows and counts alike; all agents stay to choose."""
    (row,) = await sql("SELECT wakeful_now() AS now")
    at = row["now"] + timedelta(hours=1)
    event = await create(execute, world)
    once = await rule_on(execute, world, world.issue, a_at(world, at))
    every = await rule_on(execute, world, world.issue, a_timer(world, agent_id=world.b))
    hourly = a_timer(world, kind="cron", interval_seconds=None, cron_expression="0 * * * *")
    cron = await rule_on(execute, world, world.issue, hourly)
    run = await run_of(world.a, world.other_issue, world.m.user_id)
    registered = await execute(
        run, CreateRule(issue_id=world.other_issue, draft=a_draft(world, agent_id=world.b))
    )
    everything = {event.id, once.id, every.id, cron.id, registered.id}
    for asked, expected in (
        ({"kind": "all"}, everything),
        ({"kind": "event"}, {event.id, registered.id}),
        ({"kind": "at"}, {once.id}),
        ({"kind": "recurring"}, {every.id, cron.id}),
        ({"source": "member"}, everything - {registered.id}),
        ({"source": "agent"}, {registered.id}),
        ({"source": "system"}, set()),
        ({"agent_id": world.b}, {every.id, registered.id}),
        ({"agent_id": world.p}, set()),
        ({"agent_id": world.b, "kind": "event", "source": "agent"}, {registered.id}),
        ({"agent_id": world.b, "kind": "event", "source": "member"}, set()),
    ):
        found = await inventory(execute, world, **asked)
        assert {item.id for item in found.items} == expected, asked
        assert found.total == found.counts.all == found.counts.active == len(expected)
        assert [(each.id, each.name) for each in found.agents] == [(world.a, "A"), (world.b, "B")]
    (item,) = (await inventory(execute, world, source="agent")).items
    assert (item.source, item.created_by_agent, item.source_agent_name) == ("agent", True, "A")
    assert (item.agent_name, item.target_type, item.rule) == ("B", "agent", None)


def a_at(world: World, at: datetime) -> RuleDraft:
    """Return a rule that wakes A once, at a time."""
    return a_timer(world, kind="at", interval_seconds=None, at=at)


async def test_search_is_literal(execute: Executor, sql: Sql, world: World) -> None:
    r"""W-207: in any case, over title, identifier and agent's name; `%`, `_` and `\` are plain."""
    names = ("100% Wool", "1000 sheep", r"a\b", "a_b", "Ärger", "axb")
    for name in names:
        where = await issue(execute, world, name)
        await rule_on(execute, world, where, a_draft(world, agent_id=world.b))
    await create(execute, world)
    await sql("UPDATE agent SET name = 'Shepherd 7%' WHERE id = $1", world.b)
    (row,) = await sql("SELECT number FROM issue WHERE title = 'axb'")
    (workspace,) = await sql("SELECT issue_prefix AS prefix FROM workspace WHERE slug = 'main'")
    identifier = f"{workspace['prefix']}-{row['number']}"
    for search, expected in (
        ("100%", ["100% Wool"]),
        ("100% wOOL", ["100% Wool"]),
        ("100", ["100% Wool", "1000 sheep"]),
        ("a_b", ["a_b"]),
        ("A\\B", [r"a\b"]),
        ("ÄRG", ["Ärger"]),
        (identifier, ["axb"]),
        (identifier.lower(), ["axb"]),
        ("shepherd 7%", sorted(names)),
        (" I ", ["I"]),
        ("%", sorted(names)),
        ("nothing of the kind", []),
        ("", sorted(["I", *names])),
    ):
        expect = sorted(expected)
        assert await titles(execute, world, search=search) == expect, search


# --- Boards and lists ---------------------------------------------------------------------------


async def test_summaries_of_a_board(execute: Executor, sql: Sql, world: World) -> None:
    """W-211: of 40 issues each has exact counts and at most three previews, soonest first."""
    busy, closed, off = [await issue(execute, world, name) for name in ("busy", "closed", "off")]
    slow = [
        await rule_on(execute, world, busy, a_timer(world, interval_seconds=60 * (9 - hour)))
        for hour in range(2)
    ]
    events = [await rule_on(execute, world, busy) for _ in range(8)]
    await rule_on(execute, world, closed)
    await execute(world.m, UpdateIssue(issue_id=closed, status="cancelled"))
    idle = await rule_on(execute, world, off)
    await execute(world.m, DisableRule(issue_id=off, rule_id=idle.id))
    await sql(
        "WITH made AS (INSERT INTO issue (workspace_id, number, title)"
        "   SELECT $1, 100 + n, 'one of many' FROM generate_series(1, 39) n RETURNING id)"
        " INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "   kind, mode, event_types)"
        " SELECT $1, id, $2, $3, $4, 'event', 'once', '{comment.created}' FROM made",
        *(world.workspace_id, world.a, world.m.user_id, SECRET),
    )
    found = await summaries(execute, world)
    assert len(found) == 40
    (shown,) = [each for each in found if each.issue_id == busy]
    assert (shown.active_count, shown.event_count) == (10, 8)
    assert [rule.id for rule in shown.previews] == [slow[1].id, slow[0].id, events[0].id]
    assert {(each.active_count, each.event_count, len(each.previews)) for each in found} == {
        (10, 8, 3),
        (1, 1, 1),
    }
    assert {each.issue_id for each in found}.isdisjoint({closed, off})
    text = wire.dumps(found).decode()
    assert SECRET not in text
    assert "instruction" not in text
    assert "last_task" not in text
