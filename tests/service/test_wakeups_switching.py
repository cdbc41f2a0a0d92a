"""Switching rules on and off, waking by hand, deleting."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from engine.domain.commands.wakeups import (
    CreateRule,
    DeleteRule,
    DisableRule,
    EnableRule,
    GetRule,
    ListRuleRuns,
    ListRules,
    TriggerRule,
)
from engine.domain.records import Kind, RunStatus
from engine.domain.views.wakeups import RuleView
from engine.storage.database import Database
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.wakeup_steps import (
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


def enabling(rule: RuleView, **changes: Any) -> EnableRule:
    """Return the command that switches a rule on, as read, changed as said."""
    values = {"issue_id": rule.issue_id, "rule_id": rule.id, "revision": rule.revision}
    return EnableRule(**{**values, **changes})


async def off(execute: Executor, world: World, rule: RuleView) -> RuleView:
    """Switch a rule off."""
    view = await execute(world.m, DisableRule(issue_id=rule.issue_id, rule_id=rule.id))
    assert isinstance(view, RuleView)
    return view


async def timer(execute: Executor, world: World, **changes: Any) -> RuleView:
    """Register a timer on issue I as M."""
    command = CreateRule(issue_id=world.issue, draft=a_timer(world, **changes))
    view = await execute(world.m, command)
    assert isinstance(view, RuleView)
    return view


async def now(sql: Sql) -> datetime:
    """Return the database's time."""
    (row,) = await sql("SELECT wakeful_now() AS at")
    at = row["at"]
    assert isinstance(at, datetime)
    return at


async def the_time_has_come(sql: Sql, rule: RuleView) -> None:
    """Let the time of a timer lie a second back."""
    await sql(
        "UPDATE issue_wakeup SET next_fire_at = wakeful_now() - interval '1 s' WHERE id = $1",
        rule.id,
    )


# --- Off ----------------------------------------------------------------------------------------


async def test_disabling_withdraws_what_has_not_started(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-027: inputs go, reserved ones too, and unstarted runs; started runs go on."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await sql("UPDATE issue_wakeup_receipt SET task_id = wakeful_uuid7()")
    await comment(sql, world.issue)
    running = await run_for(sql, rule, "running")
    queued = await run_for(sql, rule, "queued")
    view = await off(execute, world, rule)
    assert (view.enabled, view.revision) == (False, rule.revision)
    assert view.disabled_at is not None
    assert await receipts(sql, rule) == []
    assert [row["task_id"] for row in await receipts(sql, rule, pending=False)] == [None, None]
    assert await statuses(sql, queued, running) == ["cancelled", "running"]
    await comment(sql, world.issue)
    assert await receipts(sql, rule) == []
    assert (await dispatch(database, world.issue)).started == 0


async def test_disabling_twice_changes_nothing(execute: Executor, sql: Sql, world: World) -> None:
    """W-027: the second call is a success that keeps disabled_at and every other row."""
    rule = await create(execute, world)
    await run_for(sql, rule, "running")
    first = await off(execute, world, rule)
    before = await stored(sql)
    assert await off(execute, world, rule) == first
    assert await stored(sql) == before


async def test_a_spent_one_shot_can_be_switched_off(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-027: switching off what has fired withdraws its unclaimed run."""
    rule = await create(execute, world, mode="once")
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1
    view = await off(execute, world, rule)
    assert view.disabled_at is not None
    assert view.last_task_status is RunStatus.CANCELLED


async def test_a_rule_without_its_agent_can_be_switched_off(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-191: disable and delete need no right to invoke, and no agent that can run."""
    rule = await create(execute, world)
    await sql(
        "UPDATE agent SET archived_at = wakeful_now(), runtime_id = NULL, visibility = 'private'"
        " WHERE id = $1",
        world.a,
    )
    assert await refused(execute, world.m, enabling(rule)) == "cannot_invoke_agent"
    assert (await off(execute, world, rule)).enabled is False
    await execute(world.m, DeleteRule(issue_id=world.issue, rule_id=rule.id))
    assert await execute(world.m, ListRules(issue_id=world.issue)) == ()


# --- On -----------------------------------------------------------------------------------------


async def test_enabling_works_on_what_is_stored(execute: Executor, world: World) -> None:
    """W-023: the filter stays, the revision grows; an older one is 409, the new one a repeat."""
    rule = await create(execute, world, filter_actor_type="member", filter_actor_id=world.n.user_id)
    await off(execute, world, rule)
    view = await execute(world.m, enabling(rule))
    assert (view.enabled, view.disabled_at, view.revision) == (True, None, 2)
    assert (view.filter_actor_type, view.filter_actor_id) == ("member", world.n.user_id)
    assert await refused(execute, world.m, enabling(rule)) == "stale_revision"
    assert await execute(world.m, enabling(view)) == view
    assert await refused(execute, world.m, enabling(view, rearm=True)) == "conflict"
    later = view.created_at + timedelta(days=1)
    assert await refused(execute, world.m, enabling(view, at=later)) == "conflict"
    assert await refused(execute, world.m, enabling(view, revision=0)) == "invalid_input"


@pytest.mark.parametrize("change", ["archived_at = wakeful_now()", "runtime_id = NULL"])
async def test_an_agent_that_cannot_run_is_judged_where_something_starts(
    execute: Executor, sql: Sql, world: World, change: str
) -> None:
    """W-023, W-012: a repeated enable is 200 whatever its agent is; enable and wake-now are 400."""
    rule = await create(execute, world)
    await sql(f"UPDATE agent SET {change} WHERE id = $1", world.a)
    before = await stored(sql)
    assert await execute(world.m, enabling(rule)) == rule
    assert await refused(execute, world.m, enabling(rule, rearm=True)) == "conflict"
    waking = TriggerRule(issue_id=rule.issue_id, rule_id=rule.id)
    assert await refused(execute, world.m, waking) == "agent_unavailable"
    assert await stored(sql) == before
    await off(execute, world, rule)
    assert await refused(execute, world.m, enabling(rule)) == "agent_unavailable"
    assert await refused(execute, world.m, enabling(rule, revision=2)) == "stale_revision"


async def test_who_enables_answers_for_the_rule(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-022, W-023: an admin enables as by a save: its run is the admin's, whatever M may do."""
    rule = await create(execute, world)
    await off(execute, world, rule)
    view = await execute(world.g, enabling(rule))
    assert (view.created_by, view.source_task_id) == (world.g.user_id, None)
    await sql("DELETE FROM member WHERE user_id = $1", world.m.user_id)
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1
    (run,) = await sql("SELECT originator_user_id FROM agent_task_queue")
    assert run["originator_user_id"] == world.g.user_id


async def test_enabling_keeps_filters_of_older_rules(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-057: a stored filter_agent_id on a mutation type is not rewritten by an enable."""
    rule = await create(execute, world)
    await sql("UPDATE issue_wakeup SET filter_agent_id = $1", world.b)
    await off(execute, world, rule)
    view = await execute(world.m, enabling(rule))
    assert (view.filter_agent_id, view.filter_actor_id) == (world.b, None)


async def test_enabling_starts_afresh(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-026: facts stored before it produce no run, later ones do."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await sql("UPDATE issue_wakeup SET enabled = false, last_error = 'x' WHERE id = $1", rule.id)
    assert len(await receipts(sql, rule)) == 1
    view = await execute(world.m, enabling(rule))
    assert view.last_error is None
    assert await receipts(sql, rule) == []
    assert (await dispatch(database, world.issue)).started == 0
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1


async def test_a_spent_one_shot_is_rearmed(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-024: it needs rearm, is refused while its run has not ended, and fires once more."""
    rule = await create(execute, world, mode="once")
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1
    assert await refused(execute, world.m, enabling(rule)) == "invalid_input"
    for status in ("queued", "deferred", "dispatched", "waiting_local_directory", "running"):
        await sql("UPDATE agent_task_queue SET status = $1", status)
        assert await refused(execute, world.m, enabling(rule, rearm=True)) == "conflict"
    await sql("UPDATE agent_task_queue SET status = 'completed', started_at = wakeful_now()")
    view = await execute(world.m, enabling(rule, rearm=True))
    assert (view.enabled, view.last_task_id) == (True, None)
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1


async def test_a_planned_time_is_switched_on_again(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-024: an unspent future time stays; one gone by needs a new future time."""
    rule = await timer(execute, world, kind="at", interval_seconds=None, after_seconds=3_600)
    await off(execute, world, rule)
    view = await execute(world.m, enabling(rule))
    assert view.next_fire_at == rule.next_fire_at
    await off(execute, world, rule)
    await the_time_has_come(sql, rule)
    here = await now(sql)
    assert await refused(execute, world.m, enabling(view)) == "invalid_schedule"
    assert await refused(execute, world.m, enabling(view, at=here)) == "invalid_schedule"
    planned = here + timedelta(hours=1)
    assert (await execute(world.m, enabling(view, at=planned))).next_fire_at == planned
    assert execute.work is not None
    assert execute.work.due == [planned]


async def test_a_spent_time_needs_a_new_one(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-024: a time that has fired, even before it came, is rearmed only with a new time."""
    rule = await timer(execute, world, kind="at", interval_seconds=None, after_seconds=3_600)
    await execute(world.m, TriggerRule(issue_id=world.issue, rule_id=rule.id))
    assert (await dispatch(database, world.issue)).started == 1
    await sql("UPDATE agent_task_queue SET status = 'completed', started_at = wakeful_now()")
    assert await refused(execute, world.m, enabling(rule)) == "invalid_input"
    assert await refused(execute, world.m, enabling(rule, rearm=True)) == "invalid_schedule"
    planned = await now(sql) + timedelta(hours=1)
    view = await execute(world.m, enabling(rule, rearm=True, at=planned))
    assert (view.enabled, view.next_fire_at) == (True, planned)


async def test_a_time_belongs_to_kind_at(execute: Executor, sql: Sql, world: World) -> None:
    """W-024: `at` in the body for another kind is 400."""
    rule = await timer(execute, world)
    await off(execute, world, rule)
    planned = await now(sql) + timedelta(hours=1)
    assert await refused(execute, world.m, enabling(rule, at=planned)) == "invalid_schedule"


async def test_missed_times_are_not_replayed(execute: Executor, sql: Sql, world: World) -> None:
    """W-025: an interval counts from now, cron takes its next time, and both are announced."""
    every = await timer(execute, world)
    cron = await timer(
        execute, world, kind="cron", interval_seconds=None, cron_expression="0 12 * * *"
    )
    for rule in (every, cron):
        await off(execute, world, rule)
        await sql(
            "UPDATE issue_wakeup SET next_fire_at = next_fire_at - interval '3 days' WHERE id = $1",
            rule.id,
        )
        view = await execute(world.m, enabling(rule))
        assert execute.work is not None
        assert execute.work.due == [view.next_fire_at]
        if view.kind is Kind.EVERY:
            assert view.next_fire_at == view.updated_at + timedelta(seconds=3_600)
        else:
            assert timedelta(0) < view.next_fire_at - view.updated_at <= timedelta(days=1)


async def test_enabling_is_judged_like_a_save(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-023: references must hold, the agent be the caller's, who then answers for the rule."""
    thread = await comment(sql, world.issue)
    rule = await create(execute, world, parent_comment_id=thread)
    await off(execute, world, rule)
    assert await refused(execute, world.n, enabling(rule)) == "not_allowed"
    await sql("UPDATE comment SET deleted_at = wakeful_now()")
    assert await refused(execute, world.m, enabling(rule)) == "invalid_input"
    await sql("UPDATE comment SET deleted_at = NULL")
    await sql("UPDATE issue SET status = 'cancelled' WHERE id = $1", world.issue)
    assert await refused(execute, world.m, enabling(rule)) == "issue_closed"
    await sql("UPDATE issue SET status = 'todo' WHERE id = $1", world.issue)
    run = await run_of(world.b, world.issue, world.g.user_id)
    view = await execute(run, enabling(rule))
    assert (view.created_by, view.source_task_id) == (world.g.user_id, run.run_id)


# --- By hand ------------------------------------------------------------------------------------


async def test_waking_by_hand_queues_one_run(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-030: one wakeup.manual receipt by the member, whose issue is looked at, becomes one run."""
    rule = await create(execute, world)
    await execute(world.m, TriggerRule(issue_id=world.issue, rule_id=rule.id))
    assert execute.work is not None
    assert execute.work.issues == {world.issue}
    (receipt,) = await receipts(sql, rule)
    key = receipt["event_key"]
    assert UUID(key.removeprefix("manual:")).version == 7
    assert (receipt["event_type"], receipt["coalesce_key"]) == ("wakeup.manual", None)
    payload = receipt["payload"]
    at = receipt["created_at"]
    assert datetime.fromisoformat(payload["requested_at"]) == at
    assert datetime.fromisoformat(payload["occurred_at"]) == at
    me = str(world.m.user_id)
    assert payload == {
        "event_id": key,
        "event_type": "wakeup.manual",
        "version": 1,
        "occurred_at": payload["occurred_at"],
        "requested_at": payload["requested_at"],
        "first_occurred_at": payload["requested_at"],
        "workspace_id": str(world.workspace_id),
        "issue_id": str(world.issue),
        "actor_type": "member",
        "actor_id": me,
        "agent_id": None,
        "source_task_id": None,
        "coalesced_count": 1,
        "actors": [{"type": "member", "id": me}],
        "source_task_ids": [],
    }
    assert (await dispatch(database, world.issue)).started == 1
    (run,) = await sql("SELECT * FROM agent_task_queue")
    assert run["status"] == "queued"
    facts = run["context"]["wakeup_evidence"]["facts"]
    assert [fact["event_type"] for fact in facts] == ["wakeup.manual"]
    assert facts[0]["payload"]["actor_id"] == me


async def test_an_agent_wakes_with_its_run_as_source(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-031: a wake-up by a run names agent and run, so that its chain goes on."""
    rule = await create(execute, world)
    run = await run_of(world.b, world.issue, world.m.user_id)
    await execute(run, TriggerRule(issue_id=world.issue, rule_id=rule.id))
    (receipt,) = await receipts(sql, rule)
    payload = receipt["payload"]
    assert (payload["actor_type"], payload["actor_id"]) == ("agent", str(world.b))
    assert (payload["agent_id"], payload["source_task_id"]) == (str(world.b), str(run.run_id))
    assert payload["source_task_ids"] == [str(run.run_id)]


async def test_when_waking_by_hand_is_refused(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-031: 400 on a closed issue and for what is switched off, not for a spent one-shot."""
    rule = await create(execute, world, mode="once")
    trigger = TriggerRule(issue_id=world.issue, rule_id=rule.id)
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1
    await sql("UPDATE agent_task_queue SET status = 'completed', started_at = wakeful_now()")
    await execute(world.m, trigger)
    assert (await dispatch(database, world.issue)).started == 1
    await sql("UPDATE issue SET status = 'done' WHERE id = $1", world.issue)
    assert await refused(execute, world.m, trigger) == "issue_closed"
    await sql("UPDATE issue SET status = 'todo' WHERE id = $1", world.issue)
    await off(execute, world, rule)
    assert await refused(execute, world.m, trigger) == "wakeup_disabled"
    assert await receipts(sql, rule) == []


# --- Gone ---------------------------------------------------------------------------------------


async def test_deleting_leaves_what_has_run(execute: Executor, sql: Sql, world: World) -> None:
    """W-032: row and receipts go, the queued run is cancelled, what has run stays to be read."""
    rule = await create(execute, world)
    other = await create(execute, world)
    await comment(sql, world.issue)
    queued = await run_for(sql, rule, "queued")
    running = await run_for(sql, rule, "running")
    done = await run_for(sql, rule, "completed")
    assert await execute(world.m, DeleteRule(issue_id=world.issue, rule_id=rule.id)) is None
    get = GetRule(issue_id=world.issue, rule_id=rule.id)
    assert await refused(execute, world.m, get) == "not_found"
    assert await receipts(sql, rule, pending=False) == []
    assert len(await receipts(sql, other)) == 1
    assert await statuses(sql, queued, running, done) == ["cancelled", "running", "completed"]
    told = await sql("SELECT details FROM activity_log WHERE action = 'wakeup_created'")
    assert str(rule.id) in {row["details"]["wakeup"]["id"] for row in told}


async def test_the_runs_of_a_rule_are_listed(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-032: the latest ten runs, newest first, with their triggers and whether they commented."""
    rule = await create(execute, world)
    types = ["comment.created", "task.completed", "comment.created", 7]
    evidence = {"facts": [{"event_type": each} for each in types]}
    runs = [await run_for(sql, rule, "completed", wakeup_evidence=evidence) for _ in range(11)]
    await sql(
        "INSERT INTO comment (issue_id, workspace_id, content, source_task_id)"
        " VALUES ($1, $2, 'words', $3)",
        world.issue,
        world.workspace_id,
        runs[10],
    )
    shown = await execute(world.n, ListRuleRuns(issue_id=world.issue, rule_id=rule.id))
    assert [view.id for view in shown] == runs[:0:-1]
    assert [view.commented for view in shown] == [True, *[False] * 9]
    assert {view.triggers for view in shown} == {("comment.created", "task.completed")}
    assert shown[0].status is RunStatus.COMPLETED
    missing = ListRuleRuns(issue_id=world.other_issue, rule_id=rule.id)
    assert await refused(execute, world.n, missing) == "not_found"
