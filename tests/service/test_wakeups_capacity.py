"""How many rules may be enabled: 32 an issue, 1,000 a workspace, whoever enables them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import pytest
import trio

from engine.domain.commands.tracker import CreateIssue
from engine.domain.commands.wakeups import CreateRule, DisableRule, EnableRule, ReplaceRule
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from tests.service.conftest import Executor, Sql, World
from tests.service.wakeup_steps import a_draft, create, refused, stored
from tests.sql.psql_session import PsqlSession

PER_ISSUE: Final = 32
PER_WORKSPACE: Final = 1_000
AT_ONCE: Final = 20
CODE: Final = "wakeup_capacity_exceeded"
ENABLED: Final = "SELECT count(*)::int AS count FROM issue_wakeup WHERE enabled"
COPY: Final = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "  mode, event_types)"
    " SELECT workspace_id, $2, agent_id, created_by, instruction, kind, mode, event_types"
    "   FROM issue_wakeup, generate_series(1, $3) WHERE id = $1"
)


async def fill(execute: Executor, sql: Sql, world: World) -> RuleView:
    """Give issue I as many enabled rules as it may have, and return one of them."""
    rule = await create(execute, world)
    await sql(COPY, rule.id, world.issue, PER_ISSUE - 1)
    return rule


async def fill_workspace(execute: Executor, sql: Sql, world: World, count: int) -> list[UUID]:
    """Leave `count` enabled rules in the workspace, and return issues that have none."""
    rule = await create(execute, world)
    issues = [
        (await execute(world.m, CreateIssue(workspace_id=world.workspace_id, title="More"))).id
        for _ in range(count // PER_ISSUE + AT_ONCE + 1)
    ]
    left = count - 1
    while left:
        share = min(left, PER_ISSUE)
        await sql(COPY, rule.id, issues.pop(), share)
        left -= share
    return issues


async def test_the_33rd_rule_of_an_issue_is_refused(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-013: the 33rd activation is 400 and evicts nothing; changing one of the 32 is none."""
    rule = await fill(execute, sql, world)
    before = await stored(sql)
    again = CreateRule(issue_id=world.issue, draft=a_draft(world))
    assert await refused(execute, world.m, again) == CODE
    assert await stored(sql) == before
    replace = ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=a_draft(world))
    assert (await execute(world.m, replace)).revision == 2


async def test_disabled_rules_do_not_count(execute: Executor, sql: Sql, world: World) -> None:
    """W-013: switching one off makes room for another, and the first then finds none."""
    rule = await fill(execute, sql, world)
    off = await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    await create(execute, world)
    enable = EnableRule(issue_id=world.issue, rule_id=rule.id, revision=off.revision)
    assert await refused(execute, world.m, enable) == CODE


async def test_a_direct_writer_meets_the_same_limit(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-013: past the API it is SQLSTATE 23514 with the constraint issue_wakeup_active_limit."""
    rule = await fill(execute, sql, world)
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    await create(execute, world)
    with PsqlSession(database_url) as writer:
        writer.ask("\\set VERBOSITY verbose\nSELECT")
        writer.start(f"UPDATE issue_wakeup SET enabled = true WHERE id = '{rule.id}'")
        said = "\n".join(writer.finish())
    assert "23514" in said
    assert "CONSTRAINT NAME:  issue_wakeup_active_limit" in said


async def test_a_workspace_takes_one_more_of_twenty(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-014: with 999 enabled, of 20 creates on 20 issues at once exactly one succeeds."""
    issues = await fill_workspace(execute, sql, world, PER_WORKSPACE - 1)
    outcomes: list[str] = []

    async def register(issue_id: UUID) -> None:
        command = CreateRule(issue_id=issue_id, draft=a_draft(world))
        while True:
            try:
                await execute(world.m, command)
            except WakefulError as error:
                if error.code == "contention":
                    continue  # too many at once for its patience: once more
                outcomes.append(error.code)
            else:
                outcomes.append("created")
            return

    async with trio.open_nursery() as nursery:
        for issue_id in issues[:AT_ONCE]:
            nursery.start_soon(register, issue_id)
    assert sorted(outcomes) == ["created"] + [CODE] * (AT_ONCE - 1)
    assert (await sql(ENABLED))[0]["count"] == PER_WORKSPACE


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_two_activations_do_not_pass_each_other(
    execute: Executor, sql: Sql, world: World, database_url: str, isolation: str
) -> None:
    """W-014: of two transactions that enable the last free place one fails, at every isolation."""
    rule = await fill(execute, sql, world)
    second = (await sql("SELECT id FROM issue_wakeup WHERE id <> $1 LIMIT 1", rule.id))[0]["id"]
    for rule_id in (rule.id, second):
        await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule_id))
    await create(execute, world)
    enable = "UPDATE issue_wakeup SET enabled = true, disabled_at = NULL WHERE id = '{}'"
    with PsqlSession(database_url) as one, PsqlSession(database_url) as two:
        for session in (one, two):
            session.ask(f"BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM issue_wakeup")
        one.ask(enable.format(rule.id))
        two.start(enable.format(second))
        await one.wait_blocking()
        one.ask("COMMIT")
        assert any(line.startswith("ERROR") for line in two.finish())
    assert (await sql(ENABLED))[0]["count"] == PER_ISSUE
