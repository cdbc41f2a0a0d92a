from __future__ import annotations

from uuid import UUID

import pytest
import trio

from engine.domain.commands.tracker import (
    CreateComment,
    CreateIssue,
    DeleteIssue,
    GetIssue,
    ListTimeline,
    UpdateIssue,
)
from engine.domain.commands.wakeups import CreateRule
from engine.errors import WakefulError
from engine.storage.database import Lane, Session
from engine.storage.queries import Query as Statement
from tests.service.conftest import Executor, Sql, World, runs_of
from tests.service.wakeup_steps import a_draft

RULE_OF_EVENT = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous',"
    " '{comment.created,issue.status_changed}')"
)
RULE_OF_TIME = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    " mode, next_fire_at, interval_seconds) VALUES ($1, $2, $3, $4, 'look', $5,"
    " CASE $5 WHEN 'at' THEN 'once' ELSE 'continuous' END, '2100-01-01', 3600)"
)


async def add_rule(sql: Sql, world: World, kind: str, *, issue: UUID | None = None) -> UUID:
    """Store an enabled rule of M for A, and return its id."""
    owners = (world.workspace_id, issue or world.issue, world.a, world.m.user_id)
    if kind == "event":
        rows = await sql(f"{RULE_OF_EVENT} RETURNING id", *owners)
    else:
        rows = await sql(f"{RULE_OF_TIME} RETURNING id", *owners, kind)
    rule_id = rows[0]["id"]
    assert isinstance(rule_id, UUID)
    return rule_id


async def until_waiting(sql: Sql, number: int) -> None:
    """Return when so many sessions of this database wait for a lock."""
    text = (
        "SELECT FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while len(await sql(text)) < number:
        await trio.lowlevel.checkpoint()


async def add_run(sql: Sql, world: World, status: str, rule: UUID | None = None) -> UUID:
    """Store a run of B on I, of a rule if one is given, and return its id."""
    rows = await sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, status, context)"
        " VALUES ($1, $2, $3, $4, $5) RETURNING id",
        world.b,
        world.issue,
        world.runtime_id,
        status,
        {} if rule is None else {"wakeup_id": str(rule)},
    )
    run_id = rows[0]["id"]
    assert isinstance(run_id, UUID)
    return run_id


@pytest.mark.parametrize("status", ["done", "cancelled"])
async def test_closing_switches_the_rules_off(
    execute: Executor, sql: Sql, world: World, status: str
) -> None:
    """W-186: closing switches rules of every kind off, discards what waits, cancels what waits."""
    event, at, every = [await add_rule(sql, world, kind) for kind in ("event", "at", "every")]
    elsewhere = await add_rule(sql, world, "event", issue=world.other_issue)
    await execute(world.n, CreateComment(issue_id=world.issue, body="a fact"))
    queued = await add_run(sql, world, "queued", event)
    deferred = await add_run(sql, world, "deferred", at)
    running = await add_run(sql, world, "running", every)
    ordinary = await add_run(sql, world, "queued")
    await execute(world.m, UpdateIssue(issue_id=world.issue, status=status))
    rules = {row["id"]: row for row in await sql("SELECT * FROM issue_wakeup")}
    for rule in (event, at, every):
        assert not rules[rule]["enabled"]
        assert rules[rule]["disabled_at"] is not None
        assert "closed" in rules[rule]["last_error"]
    assert rules[elsewhere]["enabled"]
    receipts = await sql("SELECT processed_at, task_id FROM issue_wakeup_receipt")
    assert [(row["processed_at"] is None, row["task_id"]) for row in receipts] == [(False, None)]
    found = {row["id"]: row for row in await runs_of(sql, world.issue)}
    for run in (queued, deferred):
        assert found[run]["status"] == "cancelled"
        assert "closed" in found[run]["error"]
        assert found[run]["completed_at"] is not None
    assert (found[running]["status"], found[ordinary]["status"]) == ("running", "queued")
    assert not execute.opened


async def test_reopening_switches_nothing_on(execute: Executor, sql: Sql, world: World) -> None:
    """W-187: a reopened issue has its rules off; one that was off before keeps its own reason."""
    spent = await add_rule(sql, world, "event")
    off = await add_rule(sql, world, "event")
    await sql(
        "UPDATE issue_wakeup SET enabled = false, disabled_at = '2030-01-01', last_error = 'mine'"
        " WHERE id = $1",
        off,
    )
    await sql("UPDATE issue_wakeup SET enabled = false WHERE id = $1", spent)
    for status in ("done", "todo"):
        await execute(world.m, UpdateIssue(issue_id=world.issue, status=status))
    rules = {row["id"]: row for row in await sql("SELECT * FROM issue_wakeup")}
    assert not any(row["enabled"] for row in rules.values())
    assert rules[spent]["disabled_at"] is not None
    assert (rules[off]["last_error"], rules[off]["disabled_at"].year) == ("mine", 2030)


async def test_a_status_change_wakes_only_while_the_issue_is_open(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-044, W-186: a rule hears a change of status, but not the one that closes its issue."""
    await add_rule(sql, world, "event")
    await execute(world.n, UpdateIssue(issue_id=world.issue, status="in_progress"))
    assert execute.opened == (world.issue,)
    (receipt,) = await sql("SELECT payload FROM issue_wakeup_receipt")
    assert receipt["payload"]["actor_id"] == str(world.n.user_id)
    await execute(world.n, UpdateIssue(issue_id=world.issue, status="done"))
    assert not execute.opened


async def test_a_rule_saved_while_an_issue_closes_is_not_missed(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-186: a closing waits for a rule that is being saved, of whatever kind; it goes off, too."""
    for kind in ("event", "every"):
        await sql("SELECT pg_advisory_lock(42)")

        async def saving(session: Session, kind: str = kind) -> None:
            """Hold the issue and store a rule, as whoever saves one does, and commit late."""
            await session.execute(
                Statement("test.hold", "SELECT FROM issue WHERE id = $1 FOR SHARE"), world.issue
            )
            owners = (world.workspace_id, world.issue, world.a, world.m.user_id)
            text = RULE_OF_EVENT if kind == "event" else RULE_OF_TIME
            values = owners if kind == "event" else (*owners, kind)
            await session.execute(Statement("test.save", text), *values)
            await session.execute(Statement("test.wait", "SELECT pg_advisory_xact_lock(42)"))

        async def close() -> None:
            command = UpdateIssue(issue_id=world.issue, status="done")
            await Executor(execute.database)(world.m, command)

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(execute.database.write, Lane.DISPATCH, saving)
                await until_waiting(sql, 1)
                nursery.start_soon(close)
                await until_waiting(sql, 2)
                await sql("SELECT pg_advisory_unlock(42)")
        rows = await sql("SELECT enabled FROM issue_wakeup")
        assert not any(row["enabled"] for row in rows)
        await execute(world.m, UpdateIssue(issue_id=world.issue, status="todo"))
    assert len(rows) == 2


async def test_a_rule_finds_the_issue_closed(execute: Executor, sql: Sql, world: World) -> None:
    """W-186, W-026: a rule that is saved while its issue closes waits for it, and is refused."""
    await sql("SELECT pg_advisory_lock(42)")
    refused = []

    async def closing(session: Session) -> None:
        await session.execute(
            Statement("test.close", "UPDATE issue SET status = 'done' WHERE id = $1"), world.issue
        )
        await session.execute(Statement("test.wait", "SELECT pg_advisory_xact_lock(42)"))

    async def save() -> None:
        command = CreateRule(issue_id=world.issue, draft=a_draft(world))
        refused.append(await Executor(execute.database).refused(world.m, command))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(execute.database.write, Lane.DISPATCH, closing)
            await until_waiting(sql, 1)
            nursery.start_soon(save)
            await until_waiting(sql, 2)
            await sql("SELECT pg_advisory_unlock(42)")
    assert refused == ["issue_closed"]


async def test_deleting_an_issue_takes_everything_with_it(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-189: rules, receipts, comments and timeline go, unstarted runs are withdrawn."""
    rule = await add_rule(sql, world, "event")
    comment = await execute(world.m, CreateComment(issue_id=world.issue, body="a fact"))
    await execute(
        world.m, CreateComment(issue_id=world.issue, body="a reply", parent_id=comment.id)
    )
    queued = await add_run(sql, world, "queued", rule)
    ordinary = await add_run(sql, world, "deferred")
    running = await add_run(sql, world, "running")
    child = await execute(
        world.m,
        CreateIssue(workspace_id=world.workspace_id, title="Child", parent_id=world.issue),
    )
    await execute(world.m, DeleteIssue(issue_id=world.issue))
    for table in ("issue_wakeup", "issue_wakeup_receipt", "comment", "capture_buffer"):
        assert await sql(f"SELECT FROM {table}") == [], table
    assert await sql("SELECT FROM activity_log WHERE issue_id = $1", world.issue) == []
    assert await sql("SELECT FROM pg_constraint WHERE conrelid = 'issue_wakeup'::regclass"
                     " AND contype = 'f'") == []  # fmt: skip
    found = {row["id"]: row for row in await runs_of(sql, world.issue)}
    for run in (queued, ordinary):
        assert found[run]["status"] == "cancelled"
        assert "deleted" in found[run]["error"]
    assert found[running]["status"] == "running"
    assert (await execute(world.m, GetIssue(issue_id=child.id))).parent_id is None
    page = await execute(world.m, ListTimeline(issue_id=child.id))
    assert page.items[0].details == {"changed_fields": ["parent_id"]}
    for command in (DeleteIssue(issue_id=world.issue), GetIssue(issue_id=world.issue)):
        assert await execute.refused(world.m, command) == "not_found"


async def test_an_issue_is_deleted_while_others_write(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-189, W-190: under load deleting leaves no row behind, and writers get 404, never 500."""
    await add_rule(sql, world, "event")
    written = 0
    refusals = set()
    under_way = trio.Event()

    async def write(body: str) -> None:
        nonlocal written
        writer = Executor(execute.database)
        while True:
            try:
                await writer(world.m, CreateComment(issue_id=world.issue, body=body))
            except WakefulError as error:
                refusals.add(error.code)
                return
            written += 1
            if written >= 10:
                under_way.set()

    async with trio.open_nursery() as nursery:
        for body in ("hello", "@A please", "@B please"):
            nursery.start_soon(write, body)
        await under_way.wait()
        await Executor(execute.database)(world.m, DeleteIssue(issue_id=world.issue))
    assert written >= 10
    assert refusals == {"not_found"}
    for table in ("issue_wakeup", "issue_wakeup_receipt", "comment"):
        assert await sql(f"SELECT FROM {table}") == [], table
    statuses = {run["status"] for run in await runs_of(sql, world.issue)}
    assert statuses == {"cancelled"}
