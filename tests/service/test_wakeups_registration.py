"""Creating and replacing rules, with dispatches in between."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

import pytest

from engine.domain.commands.wakeups import CreateRule, GetRule, ListRules, ReplaceRule, TriggerRule
from engine.domain.records import Kind, Mode, RunStatus
from engine.storage.database import Database
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.wakeup_steps import (
    a_draft,
    a_timer,
    comment,
    create,
    dispatch,
    receipts,
    refused,
    run_for,
    statuses,
    stored,
)

AN_ISSUE = attrgetter("issue")
A_STRANGER = attrgetter("s.user_id")


async def test_a_member_registers_a_rule(execute: Executor, sql: Sql, world: World) -> None:
    """W-015: the stored row comes back: revision 1, enabled, created by the member, no source."""
    view = await create(execute, world)
    assert (view.revision, view.enabled, view.disabled_at) == (1, True, None)
    assert (view.created_by, view.created_by_name) == (world.m.user_id, "M")
    assert (view.source_task_id, view.created_by_agent) == (None, False)
    assert (view.agent_id, view.agent_name) == (world.a, "A")
    assert (view.workspace_id, view.issue_id) == (world.workspace_id, world.issue)
    assert (view.kind, view.mode, view.event_types) == (
        Kind.EVENT,
        Mode.CONTINUOUS,
        ("comment.created",),
    )
    (row,) = await sql("SELECT * FROM issue_wakeup")
    assert row["id"] == view.id
    assert row["instruction"] == view.instruction == "Read the newest comment."


async def test_an_agent_registers_a_rule_for_itself(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-015, W-012: an agent means itself; the person behind its run creates, the run is source."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    view = await create(execute, world, run, agent_id=None)
    assert (view.agent_id, view.created_by, view.created_by_agent) == (
        world.a,
        world.m.user_id,
        True,
    )
    assert (view.source_task_id, view.source_agent_id, view.source_agent_name) == (
        run.run_id,
        world.a,
        "A",
    )


async def test_the_list_is_in_order_and_shows_the_last_run(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-015: rules come by created_at, id, with the status of their last run."""
    first = await create(execute, world)
    second = await create(execute, world, kind="at", mode=None, event_types=(), after_seconds=60)
    await execute(world.m, CreateRule(issue_id=world.other_issue, draft=a_draft(world)))
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1
    shown = await execute(world.n, ListRules(issue_id=world.issue))
    assert [view.id for view in shown] == [first.id, second.id]
    assert [view.last_task_status for view in shown] == [RunStatus.QUEUED, None]
    assert shown[0].last_task_id is not None
    assert await execute(world.n, GetRule(issue_id=world.issue, rule_id=second.id)) == second


async def test_nothing_before_the_registration_fires_it(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-016: a rule watches from its commit onward: the comment before it does nothing."""
    await comment(sql, world.issue)
    rule = await create(execute, world)
    assert (await dispatch(database, world.issue)).started == 0
    assert await receipts(sql, rule, pending=False) == []
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1


async def test_a_timer_counts_from_its_registration(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-005: the first firing lies the given time after created_at, and the scheduler is told."""
    timers: list[tuple[dict[str, Any], int]] = [
        ({"kind": "at", "mode": None, "event_types": (), "after_seconds": 5}, 5),
        ({"kind": "every", "event_types": (), "interval_seconds": 60}, 60),
    ]
    for changes, seconds in timers:
        view = await create(execute, world, **changes)
        assert view.next_fire_at == view.created_at + timedelta(seconds=seconds)
        assert execute.work is not None
        assert execute.work.due == [view.next_fire_at]
        (row,) = await sql("SELECT next_fire_at FROM issue_wakeup WHERE id = $1", view.id)
        assert row["next_fire_at"] == view.next_fire_at


async def test_a_registration_is_told_on_the_timeline(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-233: wakeup_created is written with the rule, by whoever called, and copies the rule."""
    run = await run_of(world.b, world.issue, world.m.user_id)
    view = await create(execute, world, run)
    (told,) = await sql("SELECT * FROM activity_log WHERE action = 'wakeup_created'")
    assert (told["issue_id"], told["actor_type"], told["actor_id"]) == (
        world.issue,
        "agent",
        world.b,
    )
    assert told["details"]["wakeup"]["id"] == str(view.id)
    assert told["details"]["wakeup"]["event_types"] == ["comment.created"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"kind": "weekly"}, "invalid_input"),
        ({"instruction": "  "}, "invalid_input"),
        ({"event_types": ("issue.created",)}, "invalid_event_type"),
        ({"agent_id": None}, "missing_field"),
        ({"filter_task_id": AN_ISSUE}, "invalid_filter"),
        ({"filter_actor_type": "member"}, "invalid_filter"),
        ({"filter_actor_type": "member", "filter_actor_id": A_STRANGER}, "invalid_filter"),
        ({"filter_actor_type": "agent", "filter_actor_id": AN_ISSUE}, "invalid_filter"),
        ({"filter_agent_id": AN_ISSUE}, "invalid_filter"),
        ({"parent_comment_id": AN_ISSUE}, "invalid_input"),
        ({"agent_id": attrgetter("p")}, "cannot_invoke_agent"),
        ({"agent_id": AN_ISSUE}, "cannot_invoke_agent"),
    ],
)
async def test_a_refused_registration_leaves_nothing(
    execute: Executor, sql: Sql, world: World, changes: dict[str, Any], code: str
) -> None:
    """W-011, W-012, W-055: what may not be stored is refused and changes no row."""
    before = await stored(sql)
    values = {
        field: value(world) if isinstance(value, attrgetter) else value
        for field, value in changes.items()
    }
    command = CreateRule(issue_id=world.issue, draft=a_draft(world, **values))
    assert await refused(execute, world.m, command) == code
    assert await stored(sql) == before


async def test_an_agent_that_cannot_run_is_refused(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-012: an archived agent and one without a runtime are 400."""
    command = CreateRule(issue_id=world.issue, draft=a_draft(world))
    await sql("UPDATE agent SET archived_at = wakeful_now() WHERE id = $1", world.a)
    assert await execute.refused(world.m, command, field="agent_id") == "agent_unavailable"
    await sql("UPDATE agent SET archived_at = NULL, runtime_id = NULL WHERE id = $1", world.a)
    assert await execute.refused(world.m, command, field="agent_id") == "agent_unavailable"


async def test_filters_name_members_by_their_user(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-055: the id of the membership row is 400, the user's id is stored, with the name shown."""
    (row,) = await sql("SELECT id FROM member WHERE user_id = $1", world.n.user_id)
    draft = a_draft(world, filter_actor_type="member", filter_actor_id=row["id"])
    command = CreateRule(issue_id=world.issue, draft=draft)
    assert await refused(execute, world.m, command) == "invalid_filter"
    view = await create(execute, world, filter_actor_type="member", filter_actor_id=world.n.user_id)
    assert (view.filter_actor_id, view.filter_actor_name) == (world.n.user_id, "N")


async def test_an_agent_filter_on_changes_becomes_an_actor(execute: Executor, world: World) -> None:
    """W-057: filter_agent_id with mutation types alone is stored as the actor pair."""
    view = await create(execute, world, filter_agent_id=world.b)
    assert (view.filter_agent_id, view.filter_actor_type) == (None, "agent")
    assert (view.filter_actor_id, view.filter_actor_name) == (world.b, "B")


async def test_a_watched_run_is_one_of_the_issue(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-018: filter_task_id names a run of this issue; one of another issue is 400."""
    here = await run_of(world.b, world.issue, world.m.user_id)
    there = await run_of(world.b, world.other_issue, world.m.user_id)
    types = ("task.completed",)
    view = await create(execute, world, event_types=types, filter_task_id=here.run_id)
    assert view.filter_task_id == here.run_id
    draft = a_draft(world, event_types=types, filter_task_id=there.run_id)
    command = CreateRule(issue_id=world.issue, draft=draft)
    assert await refused(execute, world.m, command) == "invalid_filter"


async def test_the_thread_is_a_live_comment_of_the_issue(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-019: a comment of another issue and a deleted one are 400, a live one is kept."""
    here, there = await comment(sql, world.issue), await comment(sql, world.other_issue)
    assert (await create(execute, world, parent_comment_id=here)).parent_comment_id == here
    await sql("UPDATE comment SET deleted_at = wakeful_now() WHERE id = $1", here)
    for parent in (here, there):
        draft = a_draft(world, parent_comment_id=parent)
        command = CreateRule(issue_id=world.issue, draft=draft)
        assert await refused(execute, world.m, command) == "invalid_input"


async def test_a_closed_issue_takes_no_rule(execute: Executor, sql: Sql, world: World) -> None:
    """W-026: create and update on a closed issue are 400."""
    rule = await create(execute, world)
    await sql("UPDATE issue SET status = 'done' WHERE id = $1", world.issue)
    for command in (
        CreateRule(issue_id=world.issue, draft=a_draft(world)),
        ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=a_draft(world)),
    ):
        assert await refused(execute, world.m, command) == "issue_closed"


async def test_replacing_replaces_everything(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-020: a spent, failed rule that is off gets a whole new configuration and starts afresh."""
    rule = await create(execute, world, mode="once", filter_agent_id=world.b)
    await sql(
        "UPDATE issue_wakeup SET enabled = false, disabled_at = wakeful_now(),"
        " last_task_id = wakeful_uuid7(), last_error = 'x' WHERE id = $1",
        rule.id,
    )
    command = ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=a_timer(world))
    view = await execute(world.m, command)
    assert (view.id, view.created_at, view.revision) == (rule.id, rule.created_at, 2)
    assert (view.enabled, view.disabled_at) == (True, None)
    assert (view.last_task_id, view.last_error) == (None, None)
    assert (view.kind, view.mode, view.event_types) == (Kind.EVERY, Mode.CONTINUOUS, ())
    assert (view.filter_actor_type, view.filter_actor_id) == (None, None)
    assert (view.instruction, view.interval_seconds) == ("Look again.", 3_600)
    assert view.next_fire_at == view.updated_at + timedelta(seconds=3_600)
    assert execute.work is not None
    assert execute.work.due == [view.next_fire_at]


async def test_replacing_withdraws_inputs_and_unstarted_runs(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-021: pending receipts, reserved ones too, are discarded; a started run goes on."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await sql("UPDATE issue_wakeup_receipt SET task_id = wakeful_uuid7()")
    await comment(sql, world.issue)
    running = await run_for(sql, rule, "running")
    queued, deferred = await run_for(sql, rule, "queued"), await run_for(sql, rule, "deferred")
    assert len(await receipts(sql, rule)) == 2
    command = ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=a_draft(world))
    await execute(world.m, command)
    assert await receipts(sql, rule) == []
    for receipt in await receipts(sql, rule, pending=False):
        assert receipt["processed_at"] is not None
        assert receipt["task_id"] is None
    assert await statuses(sql, queued, deferred, running) == ["cancelled", "cancelled", "running"]
    (row,) = await sql("SELECT * FROM agent_task_queue WHERE id = $1", queued)
    assert row["error"] == "Cancelled before it started: the wakeup was changed meanwhile."
    assert row["completed_at"] is not None
    assert (await dispatch(database, world.issue)).started == 0


async def test_who_replaces_answers_for_the_rule(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-022: an admin may and becomes the creator; N may not; the agent must be the caller's."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    rule = await create(execute, world, run)
    command = ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=a_draft(world))
    assert await refused(execute, world.n, command) == "not_allowed"
    view = await execute(world.g, command)
    assert (view.created_by, view.source_task_id) == (world.g.user_id, None)
    assert await refused(execute, world.m, command) == "not_allowed"
    private = ReplaceRule(
        issue_id=world.issue, rule_id=rule.id, draft=a_draft(world, agent_id=world.p)
    )
    assert await refused(execute, world.g, private) == "cannot_invoke_agent"


async def test_a_refused_replacement_changes_nothing(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-011: row, receipts, queued run and timeline are the same before and after."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await run_for(sql, rule, "queued")
    before = await stored(sql)
    draft = a_draft(world, event_types=("comment.exploded",))
    command = ReplaceRule(issue_id=world.issue, rule_id=rule.id, draft=draft)
    assert await refused(execute, world.m, command) == "invalid_event_type"
    assert await stored(sql) == before


async def test_a_rule_of_another_issue_is_not_there(execute: Executor, world: World) -> None:
    """W-015: a rule is addressed on its own issue only."""
    rule = await create(execute, world)
    for command in (
        GetRule(issue_id=world.other_issue, rule_id=rule.id),
        ReplaceRule(issue_id=world.other_issue, rule_id=rule.id, draft=a_draft(world)),
        TriggerRule(issue_id=world.other_issue, rule_id=rule.id),
        TriggerRule(issue_id=world.issue, rule_id=UUID(int=1)),
    ):
        assert await refused(execute, world.m, command) == "not_found"


async def test_the_registering_run_does_not_wake_its_own_rule(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-058: a rule does not see what its registering run does, but what others do meanwhile."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    commented = await create(execute, world, run)
    ended = await create(execute, world, run, event_types=("task.completed",))
    await sql(
        "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content,"
        " source_task_id) VALUES ($1, $2, 'agent', $3, 'words', $4)",
        world.issue,
        world.workspace_id,
        world.a,
        run.run_id,
    )
    await comment(sql, world.issue, world.m.user_id)
    await sql("UPDATE agent_task_queue SET status = 'completed' WHERE id = $1", run.run_id)
    (receipt,) = await receipts(sql, commented)
    assert receipt["payload"]["coalesced_count"] == 1
    assert receipt["payload"]["actor_type"] == "member"
    assert await receipts(sql, ended) == []
