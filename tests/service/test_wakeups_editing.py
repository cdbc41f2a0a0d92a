"""Editing the text of a rule beside everything else that changes it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from engine.domain.commands.wakeups import DisableRule, EditInstruction
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from engine.storage.database import Database
from tests.service.conftest import Executor, Sql, World
from tests.service.wakeup_steps import comment, create, dispatch, refused, stored


def editing(rule: RuleView, **changes: Any) -> EditInstruction:
    """Return the command that gives a rule, as read, a new text, changed as said."""
    values = {
        "issue_id": rule.issue_id,
        "rule_id": rule.id,
        "instruction": "Read all of it.",
        "expected_instruction": rule.instruction,
        "revision": rule.revision,
    }
    return EditInstruction(**{**values, **changes})


async def test_of_two_editors_one_wins(execute: Executor, sql: Sql, world: World) -> None:
    """W-028: of two who edit the same text one succeeds, the other gets 409; the winner's stays."""
    rule = await create(execute, world)
    outcomes: list[str] = []

    async def edit(text: str) -> None:
        try:
            await execute(world.m, editing(rule, instruction=text))
        except WakefulError as error:
            outcomes.append(error.code)
        else:
            outcomes.append(text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(edit, "One.")
        nursery.start_soon(edit, "Two.")
    (winner,) = set(outcomes) - {"stale_revision"}
    assert len(outcomes) == 2
    (row,) = await sql("SELECT instruction FROM issue_wakeup")
    assert row["instruction"] == winner


async def test_the_next_dispatch_uses_the_new_text(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-028, W-029: a queued prompt stays until a fact is added: new text, old and new facts."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await dispatch(database, world.issue)
    before = await stored(sql)
    await execute(world.m, editing(rule))
    after = await stored(sql)
    for table in ("issue_wakeup_receipt", "agent_task_queue", "activity_log"):
        assert after[table] == before[table]
    (row,) = await sql("SELECT revision, enabled, created_by, source_task_id FROM issue_wakeup")
    assert tuple(row.values()) == (1, True, world.m.user_id, None)
    await comment(sql, world.issue)
    await dispatch(database, world.issue)
    (run,) = await sql("SELECT handoff_note FROM agent_task_queue")
    assert "Read all of it." in run["handoff_note"]
    assert "Read the newest comment." not in run["handoff_note"]
    assert '"coalesced_count":2' in run["handoff_note"]


async def test_a_rule_at_rest_can_be_edited(execute: Executor, sql: Sql, world: World) -> None:
    """W-029: on a closed issue, and for a rule that is off, a text can be edited; it stays off."""
    rule = await create(execute, world)
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    await sql("UPDATE issue SET status = 'done' WHERE id = $1", world.issue)
    await execute(world.m, editing(rule, instruction="  Read all of it. "))
    (row,) = await sql("SELECT instruction, enabled, revision FROM issue_wakeup")
    assert tuple(row.values()) == ("Read all of it.", False, 1)


@pytest.mark.parametrize("change", ["archived_at = wakeful_now()", "runtime_id = NULL"])
async def test_a_rule_whose_agent_cannot_run_can_be_edited(
    execute: Executor, sql: Sql, world: World, change: str
) -> None:
    """W-028, W-029: a text is edited for an archived agent, or one without a runtime."""
    rule = await create(execute, world)
    await sql(f"UPDATE agent SET {change} WHERE id = $1", world.a)
    before = await stored(sql)
    await execute(world.m, editing(rule))
    after = await stored(sql)
    (row,) = await sql("SELECT instruction, enabled, revision FROM issue_wakeup")
    assert tuple(row.values()) == ("Read all of it.", True, 1)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"issue_wakeup"}
    await sql("UPDATE agent SET visibility = 'private' WHERE id = $1", world.a)
    assert await refused(execute, world.m, editing(rule)) == "cannot_invoke_agent"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"revision": 2}, "stale_revision"),
        ({"expected_instruction": "Another text."}, "stale_revision"),
        ({"instruction": "  "}, "invalid_input"),
        ({"instruction": "x" * 12_001}, "invalid_input"),
    ],
)
async def test_a_refused_edit_changes_nothing(
    execute: Executor, sql: Sql, world: World, changes: dict[str, Any], code: str
) -> None:
    """W-028, W-002: another text or revision is 409, a bad text 400; nothing is stored."""
    rule = await create(execute, world)
    before = await stored(sql)
    assert await refused(execute, world.m, editing(rule, **changes)) == code
    assert await stored(sql) == before


async def test_who_may_edit(execute: Executor, world: World) -> None:
    """W-191: the creator and admins edit, another member is refused, a stranger finds nothing."""
    rule = await create(execute, world)
    assert await refused(execute, world.n, editing(rule)) == "not_allowed"
    assert await refused(execute, world.s, editing(rule)) == "not_found"
    await execute(world.g, editing(rule))
