"""Changes of rules beside open transactions of others: nothing is missed, nobody waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import trio

from engine.domain.commands import IssueCommand
from engine.domain.commands.wakeups import (
    CreateRule,
    DeleteRule,
    DisableRule,
    EnableRule,
    ReplaceRule,
    TriggerRule,
)
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from engine.storage.database import Database
from tests.service.conftest import Executor, Sql, World
from tests.service.wakeup_steps import a_draft, comment, create, dispatch, receipts
from tests.sql.psql_session import PsqlSession

COMMENT = (
    "INSERT INTO comment (issue_id, workspace_id, content)"
    " SELECT i.id, i.workspace_id, 'words' FROM issue i WHERE i.id = '{issue}'"
)
FINISH = (
    "UPDATE agent_task_queue SET status = 'completed', started_at = wakeful_now()"
    " WHERE status = 'queued'"
)
ENABLE = "UPDATE issue_wakeup SET enabled = true, disabled_at = NULL"
CHANGES = 12
EXPECTED = ("contention", "stale_revision", "wakeup_disabled", "conflict")


@attrs.frozen
class Outcome:
    """How a change ended: its code, or None for a success."""

    code: str | None


async def outcome(execute: Executor, world: World, command: IssueCommand) -> Outcome:
    """Carry out a change as M and tell how it ended."""
    try:
        await execute(world.m, command)
    except WakefulError as error:
        return Outcome(error.code)
    return Outcome(None)


async def test_a_writer_that_began_first_commits_before_the_rule(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-016, G-01: a rule waits for open writers that did not see it; later ones are captured."""
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {COMMENT.format(issue=world.issue)}")
        views: list[RuleView] = []

        async def register() -> None:
            views.append(await create(execute, world))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(register)
            await writer.wait_blocking()
            assert views == []
            writer.ask("COMMIT")
    assert await receipts(sql, views[0], pending=False) == []
    await comment(sql, world.issue)
    assert len(await receipts(sql, views[0])) == 1


async def test_a_writer_that_began_after_the_rule_is_captured(
    execute: Executor, sql: Sql, world: World, database_url: str, database: Database
) -> None:
    """W-016, G-01: a comment that meets an uncommitted rule waits, and is captured for it."""
    rule = await create(execute, world)
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    with PsqlSession(database_url) as writer, PsqlSession(database_url) as saver:
        saver.ask("BEGIN")
        saver.ask(ENABLE)
        writer.start(COMMENT.format(issue=world.issue))
        await saver.wait_blocking()
        saver.ask("COMMIT")
        writer.finish()
    (receipt,) = await receipts(sql, rule)
    assert receipt["event_type"] == "comment.created"


async def test_a_rule_that_goes_off_leaves_no_input_behind(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-027, W-051: a comment in an open transaction finds the rule off at its commit."""
    rule = await create(execute, world)
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {COMMENT.format(issue=world.issue)}")
        await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
        writer.ask("COMMIT")
    assert await receipts(sql, rule, pending=False) == []


async def test_an_idle_writer_refuses_a_rule_in_time(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-016: a rule that would wait too long for an idle writer is refused: 503 contention."""
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {COMMENT.format(issue=world.issue)}")
        with trio.fail_after(5):
            ended = await outcome(
                execute, world, CreateRule(issue_id=world.issue, draft=a_draft(world))
            )
        assert ended == Outcome("contention")
        await comment(sql, world.issue)
    assert await sql("SELECT FROM issue_wakeup") == []


async def test_a_target_that_changes_meanwhile_is_not_trusted(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-196: a rule given to another agent while its change waits is read anew by the caller."""
    rule = await create(execute, world)
    with PsqlSession(database_url) as other:
        other.ask("BEGIN")
        other.ask(f"SELECT FROM agent WHERE id = '{world.a}' FOR UPDATE")
        other.ask(f"UPDATE issue_wakeup SET agent_id = '{world.p}', revision = revision + 1")
        ended: list[Outcome] = []

        async def trigger() -> None:
            command = TriggerRule(issue_id=world.issue, rule_id=rule.id)
            ended.append(await outcome(execute, world, command))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trigger)
            await other.wait_blocking()
            other.ask("COMMIT")
    assert ended == [Outcome("contention")]
    assert await receipts(sql, rule) == []


async def test_changes_and_dispatches_never_deadlock(
    execute: Executor, sql: Sql, world: World, database_url: str, database: Database
) -> None:
    """W-078: every kind of change beside comments and dispatches on one issue: no deadlock."""
    before = await deadlocks(sql)
    types = ("comment.created", "task.cancelled")
    rules = [await create(execute, world, event_types=types) for _ in range(3)]
    ended: list[Outcome] = []
    changing = len(rules) + 1

    async def change(rule: RuleView) -> None:
        nonlocal changing
        for turn in range(CHANGES):
            command = await a_change(sql, world, rule, turn)
            ended.append(await outcome(execute, world, command))
        changing -= 1

    async def come_and_go() -> None:
        nonlocal changing
        for _ in range(CHANGES):
            command = CreateRule(issue_id=world.issue, draft=a_draft(world))
            ended.append(await outcome(execute, world, command))
            newest = await sql("SELECT id FROM issue_wakeup ORDER BY id DESC LIMIT 1")
            if newest[0]["id"] not in {rule.id for rule in rules}:
                gone = DeleteRule(issue_id=world.issue, rule_id=newest[0]["id"])
                ended.append(await outcome(execute, world, gone))
        changing -= 1

    async def look() -> None:
        while changing:
            with contention_is_fine():
                await dispatch(database, world.issue)

    with PsqlSession(database_url) as writer, PsqlSession(database_url) as finisher:
        writer.start(";".join([COMMENT.format(issue=world.issue)] * 100))
        finisher.start(";".join([FINISH] * 30))
        async with trio.open_nursery() as nursery:
            for rule in rules:
                nursery.start_soon(change, rule)
            nursery.start_soon(come_and_go)
            nursery.start_soon(look)
        assert not [line for line in writer.finish() + finisher.finish() if "ERROR" in line]
    succeeded = [each for each in ended if each.code is None]
    assert {each.code for each in ended} <= {None, *EXPECTED}
    assert len(succeeded) > len(ended) / 2 >= CHANGES
    assert await deadlocks(sql) == before


async def a_change(sql: Sql, world: World, rule: RuleView, turn: int) -> IssueCommand:
    """Return the change of a rule whose turn it is: by hand, replaced, off, on, replaced."""
    place: dict[str, Any] = {"issue_id": world.issue, "rule_id": rule.id}
    (row,) = await sql("SELECT revision FROM issue_wakeup WHERE id = $1", rule.id)
    commands: tuple[IssueCommand, ...] = (
        TriggerRule(**place),
        ReplaceRule(**place, draft=a_draft(world, event_types=("task.cancelled",))),
        DisableRule(**place),
        EnableRule(**place, revision=row["revision"]),
        ReplaceRule(**place, draft=a_draft(world)),
    )
    return commands[turn % len(commands)]


@contextmanager
def contention_is_fine() -> Iterator[None]:
    """Let a dispatch leave its rules for later."""
    try:
        yield
    except WakefulError as error:
        if error.code != "contention":
            raise


async def deadlocks(sql: Sql) -> int:
    """Return how many deadlocks the server has broken in this database, by its own count."""
    (row,) = await sql(
        "SELECT deadlocks FROM pg_stat_force_next_flush(), pg_stat_database"
        " WHERE datname = current_database()"
    )
    count = row["deadlocks"]
    assert isinstance(count, int)
    return count
