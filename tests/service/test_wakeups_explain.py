"""Explanations: every state of a rule, what stands in its way, and what became of its facts."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

from engine.domain.commands.tracker import DeleteIssue, DeleteWorkspace
from engine.domain.commands.wakeups import (
    CreateRule,
    DeleteRule,
    DisableRule,
    EnableRule,
    ExplainRule,
    TriggerRule,
)
from engine.domain.explain import Code, State
from engine.domain.principal import Principal
from engine.domain.views.explain import ExplanationView
from engine.domain.views.wakeups import RuleView
from engine.service.dispatch import record_contention
from engine.storage.database import Database, Lane
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.wakeup_steps import (
    a_draft,
    comment,
    create,
    dispatch,
    refused,
    run_for,
    stored,
)
from tests.sql.psql_session import PsqlSession

ANSWER_SECONDS_MAX = 0.1  # W-213


async def explain(
    execute: Executor, world: World, rule: RuleView, caller: Principal | None = None
) -> ExplanationView:
    """Ask as M unless said otherwise."""
    query = ExplainRule(issue_id=rule.issue_id, rule_id=rule.id)
    view = await execute(caller or world.m, query)
    assert isinstance(view, ExplanationView)
    return view


async def timer(execute: Executor, world: World, **changes: Any) -> RuleView:
    """Register a rule that wakes A every hour, changed as said."""
    every = {"kind": "every", "mode": None, "event_types": (), "interval_seconds": 3_600}
    return await create(execute, world, **{**every, **changes})


async def run_of_rule(sql: Sql, rule: RuleView, status: str) -> UUID:
    """Make a run as a dispatch of the rule would have made it, in this status."""
    run = await run_for(sql, rule, status)
    await sql(
        "UPDATE agent_task_queue SET originator_user_id = $2 WHERE id = $1", run, rule.created_by
    )
    return run


async def reopen(sql: Sql, world: World) -> None:
    """Close issue I and open it again, like psql."""
    for status in ("done", "todo"):
        await sql("UPDATE issue SET status = $2 WHERE id = $1", world.issue, status)


async def test_a_rule_that_waits(execute: Executor, world: World, sql: Sql) -> None:
    """W-213: waiting for an event or a time, in words; nothing is written."""
    event, every = await create(execute, world), await timer(execute, world)
    before = await stored(sql)
    view = await explain(execute, world, event)
    assert (view.state, view.code, view.next_dispatch) == ("active", "waiting_event", "idle")
    assert view.summary[0] == "Wakes A when someone comments."
    assert (view.pending, view.waiting_run, view.problems) == ((), None, ())
    assert [each.code for each in view.guards] == ["self_loop_own_run"]
    view = await explain(execute, world, every)
    assert (view.state, view.code) == ("active", "waiting_time")
    assert view.summary[0] == "Wakes A every hour."
    assert len(view.next_times) == 5
    assert view.next_times[0].at == every.next_fire_at
    steps = {b.at - a.at for a, b in zip(view.next_times, view.next_times[1:], strict=False)}
    assert steps == {timedelta(hours=1)}
    assert await stored(sql) == before


async def test_strangers_learn_nothing(execute: Executor, world: World) -> None:
    """W-191: a stranger finds no rule, and a rule is found on its own issue only."""
    rule = await create(execute, world)
    query = ExplainRule(issue_id=world.issue, rule_id=rule.id)
    assert await refused(execute, world.s, query) == "not_found"
    assert await refused(execute, world.daemon, query) == "not_allowed"
    elsewhere = ExplainRule(issue_id=world.other_issue, rule_id=rule.id)
    assert await refused(execute, world.m, elsewhere) == "not_found"
    assert (await explain(execute, world, rule, world.n)).state is State.ACTIVE


async def test_the_times_of_a_zone(execute: Executor, world: World, sql: Sql) -> None:
    """W-214: five times with wall time, offset and mark; the first pass of an overlap is marked."""
    rule = await timer(
        execute,
        world,
        kind="cron",
        interval_seconds=None,
        cron_expression="30 2 * * *",
        timezone="Europe/Berlin",
    )
    await sql("UPDATE issue_wakeup SET next_fire_at = '2027-10-30T00:30:00Z'")
    times = (await explain(execute, world, rule)).next_times
    assert [(each.local, each.utc_offset, each.dst) for each in times] == [
        ("2027-10-30T02:30:00", "+02:00", None),
        ("2027-10-31T02:30:00", "+02:00", "overlap_first"),
        ("2027-11-01T02:30:00", "+01:00", None),
        ("2027-11-02T02:30:00", "+01:00", None),
        ("2027-11-03T02:30:00", "+01:00", None),
    ]


async def test_an_input_is_about_to_fire(
    execute: Executor, world: World, sql: Sql, database: Database
) -> None:
    """W-213, W-216: an input is listed since when it waits, and how dispatch takes it is told."""
    rule, every = await create(execute, world), await timer(execute, world)
    await comment(sql, world.issue)
    await comment(sql, world.issue)
    view = await explain(execute, world, rule)
    assert (view.state, view.next_dispatch) == ("firing", "started")
    ((kind, count),) = [(each.event_type, each.count) for each in view.pending]
    assert (kind, count) == ("comment.created", 2)
    assert [each.outcome for each in view.last_facts] == ["pending"]
    await sql("UPDATE issue_wakeup SET next_fire_at = wakeful_now() WHERE id = $1", every.id)
    due = await explain(execute, world, every)
    assert (due.state, due.next_dispatch) == ("firing", "started")
    assert [each.event_type for each in due.pending] == ["time.due"]
    assert due.next_times[0].at > due.pending[0].since
    await dispatch(database, world.issue)
    view = await explain(execute, world, rule)
    assert (view.state, view.next_dispatch, view.pending) == ("waiting", "idle", ())
    assert view.waiting_run is not None
    assert view.waiting_run.status == "queued"
    await comment(sql, world.issue)
    assert (await explain(execute, world, rule)).next_dispatch == "added"


async def test_facts_and_what_became_of_them(
    execute: Executor, world: World, sql: Sql, database: Database
) -> None:
    """W-215: a run, a fact merged into it, a discarded one and an ignored one, each told."""
    rule = await create(execute, world, filter_actor_type="member", filter_actor_id=world.m.user_id)
    for _ in range(2):
        await comment(sql, world.issue, world.m.user_id)
        await dispatch(database, world.issue)
    await comment(sql, world.issue, world.n.user_id)
    view = await explain(execute, world, rule)
    run = view.waiting_run
    assert run is not None
    assert [(each.outcome, each.task_id, each.task_status) for each in view.last_facts] == [
        ("merged", run.id, "queued"),
        ("run", run.id, "queued"),
    ]
    assert {each.actor_id for each in view.last_facts} == {world.m.user_id}
    (ignored,) = view.ignored
    assert (ignored.reason, ignored.count, ignored.actor_id) == (
        "filtered_actor",
        1,
        world.n.user_id,
    )
    assert "Ignored so far: 1 x filtered_actor." in view.summary
    await comment(sql, world.issue, world.m.user_id)
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    view = await explain(execute, world, rule)
    assert [each.outcome for each in view.last_facts] == ["discarded", "merged", "run"]
    assert view.last_facts[0].task_id is None


async def test_times_and_what_became_of_them(
    execute: Executor, world: World, sql: Sql, database: Database
) -> None:
    """W-215: the first time starts the run, a later one is merged into it; ten facts are shown."""
    rule = await timer(execute, world)
    for _ in range(12):
        await sql("UPDATE issue_wakeup SET next_fire_at = wakeful_now() WHERE id = $1", rule.id)
        await dispatch(database, world.issue)
    outcomes = [each.outcome for each in (await explain(execute, world, rule)).last_facts]
    assert outcomes == 10 * ["merged"]
    await sql(
        "DELETE FROM issue_wakeup_receipt x"
        " WHERE x.seq > (SELECT min(y.seq) + 1 FROM issue_wakeup_receipt y)"
    )
    outcomes = [each.outcome for each in (await explain(execute, world, rule)).last_facts]
    assert outcomes == ["merged", "run"]


async def test_a_claimed_run_holds_the_next_inputs(
    execute: Executor, world: World, sql: Sql
) -> None:
    """W-100, W-255: a claimed run is `own_run_claimed`, after 90 s without a start it is lost."""
    rule = await create(execute, world)
    run = await run_of_rule(sql, rule, "dispatched")
    claim = "UPDATE agent_task_queue SET dispatched_at = wakeful_now() - make_interval(secs => $2)"
    await sql(f"{claim} WHERE id = $1", run, 10)
    await comment(sql, world.issue)
    view = await explain(execute, world, rule)
    assert (view.state, view.code, view.next_dispatch) == ("waiting", "own_run_claimed", "held")
    assert len(view.pending) == 1
    assert view.waiting_run is not None
    assert (view.waiting_run.id, view.waiting_run.status) == (run, "dispatched")
    await sql(f"{claim} WHERE id = $1", run, 91)
    view = await explain(execute, world, rule)
    assert (view.state, view.code) == ("waiting", "claim_recovery_wait")
    assert [each.code for each in view.problems] == ["claim_recovery_wait"]
    await sql("INSERT INTO run_lease VALUES ($1, wakeful_now() + interval '20 seconds')", run)
    assert (await explain(execute, world, rule)).code is Code.OWN_RUN_CLAIMED


async def test_what_keeps_the_run_from_being_claimed(
    execute: Executor, world: World, sql: Sql
) -> None:
    """W-235: a silent daemon is `agent_offline`; other runs of the agent are `agent_busy`."""
    rule = await create(execute, world)
    await run_of_rule(sql, rule, "queued")
    view = await explain(execute, world, rule)
    assert (view.state, view.code, view.problems) == ("waiting", "waiting_event", ())
    other = "INSERT INTO agent_task_queue (agent_id, issue_id, status) VALUES ($1, $2, 'running')"
    await sql(f"{other} RETURNING id", world.a, world.issue)
    view = await explain(execute, world, rule)
    assert (view.state, view.code) == ("waiting", "agent_busy")
    assert "this issue" in view.problems[0].text
    await sql(
        "UPDATE agent_task_queue SET issue_id = $1 WHERE status = 'running'", world.other_issue
    )
    await sql("UPDATE agent SET max_concurrent_tasks = 1 WHERE id = $1", world.a)
    view = await explain(execute, world, rule)
    assert view.code is Code.AGENT_BUSY
    assert "1 of 1" in view.problems[0].text
    await sql("UPDATE agent SET max_concurrent_tasks = 2 WHERE id = $1", world.a)
    assert (await explain(execute, world, rule)).problems == ()
    await sql("UPDATE agent_runtime SET last_seen_at = wakeful_now() - interval '151 seconds'")
    view = await explain(execute, world, rule)
    assert (view.state, view.code) == ("waiting", "agent_offline")
    assert view.problems[0].text.startswith("The daemon of A was last seen at ")


async def test_every_obstacle_is_named(execute: Executor, world: World, sql: Sql) -> None:
    """W-216: what the next dispatch would meet is told at once, all of it, without a dispatch."""
    rule = await create(execute, world)
    await sql("UPDATE agent SET visibility = 'private' WHERE id = $1", world.a)
    view = await explain(execute, world, rule)
    assert (view.state, view.code, view.next_dispatch) == ("blocked", "permission_lost", "idle")
    assert [each.code for each in view.problems] == ["permission_lost"]
    assert view.problems[0].text == "Its creator may no longer invoke A."
    await sql("UPDATE agent SET archived_at = wakeful_now() WHERE id = $1", world.a)
    await comment(sql, world.issue)
    view = await explain(execute, world, rule)
    assert (view.code, view.next_dispatch) == ("agent_unavailable", "switched_off")
    assert [each.code for each in view.problems] == ["agent_unavailable", "permission_lost"]
    await sql("UPDATE issue SET status = 'done' WHERE id = $1", world.issue)
    view = await explain(execute, world, rule)
    assert (view.state, view.code) == ("ended", "issue_closed")
    assert [each.code for each in view.problems] == [
        "issue_closed",
        "agent_unavailable",
        "permission_lost",
    ]


async def test_the_claim_gate_is_asked(execute: Executor, world: World, sql: Sql) -> None:
    """W-216, W-236: what the gate would refuse is a problem; what it has refused is told."""
    rule = await create(execute, world, mode="once")
    run = await run_for(sql, rule, "queued", wakeup_revision=7)
    view = await explain(execute, world, rule)
    assert [each.code for each in view.problems] == ["claim_refused"]
    await sql(
        "UPDATE agent_task_queue SET status = 'failed', failure_reason = 'invalid_task_identity',"
        " error = 'the wakeup behind this run was changed meanwhile' WHERE id = $1",
        run,
    )
    await sql("UPDATE issue_wakeup SET enabled = false, last_task_id = $1", run)
    view = await explain(execute, world, rule)
    assert (view.state, view.code) == ("consumed", "claim_refused")
    assert any("changed meanwhile" in each for each in view.summary)


async def test_why_a_rule_is_off(
    execute: Executor, world: World, sql: Sql, database: Database
) -> None:
    """W-188, W-255: off by the closing, by a person or by a lost right are three codes."""
    closed = await create(execute, world)
    await reopen(sql, world)
    by_hand, lost = await create(execute, world), await create(execute, world, agent_id=world.b)
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=by_hand.id))
    await sql("UPDATE agent SET visibility = 'private' WHERE id = $1", world.b)
    await comment(sql, world.issue)
    await dispatch(database, world.issue)
    expected = ((closed, "issue_closed"), (by_hand, "disabled"), (lost, "permission_lost"))
    for rule, code in expected:
        view = await explain(execute, world, rule)
        assert (view.state, view.code, view.next_dispatch) == ("disabled", code, "idle")
    await execute(world.m, EnableRule(issue_id=world.issue, rule_id=closed.id, revision=1))
    assert (await explain(execute, world, closed)).state is State.ACTIVE


async def test_a_spent_one_shot(
    execute: Executor, world: World, sql: Sql, database: Database
) -> None:
    """W-255: a one-shot whose run has ended is `consumed`; waking it by hand is about to fire."""
    rule = await create(execute, world, mode="once")
    await comment(sql, world.issue)
    await dispatch(database, world.issue)
    assert (await explain(execute, world, rule)).state is State.WAITING
    await sql("UPDATE agent_task_queue SET status = 'completed' WHERE wakeup_id = $1", rule.id)
    view = await explain(execute, world, rule)
    assert (view.state, view.code, view.next_times) == ("consumed", "consumed", ())
    await execute(world.m, TriggerRule(issue_id=world.issue, rule_id=rule.id))
    view = await explain(execute, world, rule)
    assert (view.state, view.next_dispatch) == ("firing", "started")
    assert [each.event_type for each in view.pending] == ["wakeup.manual"]


async def test_contention_is_told(
    execute: Executor, world: World, sql: Sql, database: Database
) -> None:
    """W-071, W-255: inputs that dispatch could not take because others held the issue say so."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await database.write(Lane.DISPATCH, lambda session: record_contention(session, world.issue))
    view = await explain(execute, world, rule)
    assert (view.state, view.code, view.next_dispatch) == ("waiting", "contention", "started")
    assert [each.code for each in view.problems] == ["contention"]
    await dispatch(database, world.issue)
    assert (await explain(execute, world, rule)).problems == ()


async def test_a_rule_that_makes_no_sense(execute: Executor, world: World, sql: Sql) -> None:
    """W-076, W-213: what other writers broke is explained, too, and never an error."""
    rule = await timer(
        execute, world, kind="cron", interval_seconds=None, cron_expression="0 * * * *"
    )
    await sql("UPDATE issue_wakeup SET cron_expression = 'tomorrow', next_fire_at = wakeful_now()")
    view = await explain(execute, world, rule)
    assert (view.state, view.code, view.next_dispatch) == ("blocked", "waiting_time", None)
    assert view.summary[0].startswith("It cannot be dispatched as it is stored: ")
    await sql("UPDATE issue_wakeup SET cron_expression = '0 0 31 2 *'")
    ended = await explain(execute, world, rule)
    assert ended.next_dispatch == "started"
    await sql("UPDATE issue_wakeup SET next_fire_at = NULL")
    assert (await explain(execute, world, rule)).state is State.ENDED
    await sql("UPDATE issue_wakeup SET enabled = false")
    assert (await explain(execute, world, rule)).state is State.DISABLED
    await sql(
        "INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, payload)"
        " VALUES ($1, 1, 'k', 'wakeup.manual', '{\"actor_type\": 7, \"occurred_at\": \"x\"}')",
        rule.id,
    )
    assert len((await explain(execute, world, rule)).last_facts) == 1


async def test_counts_go_with_their_rules(execute: Executor, world: World, sql: Sql) -> None:
    """W-189, W-254: what was ignored goes with the rule, its issue and its workspace."""
    count = "SELECT count(*) / 7 AS rules FROM wakeup_ignored"
    rules = [await create(execute, world) for _ in range(3)]
    other = CreateRule(issue_id=world.other_issue, draft=a_draft(world))
    await execute(world.m, other)
    left = [(await sql(count))[0]["rules"]]
    for step in (
        DeleteRule(issue_id=world.issue, rule_id=rules[0].id),
        DeleteIssue(workspace_id=world.workspace_id, issue_id=world.issue),
        DeleteWorkspace(workspace_id=world.workspace_id),
    ):
        await execute(world.o, step)
        left.append((await sql(count))[0]["rules"])
    assert left == [4, 3, 1, 0]


async def test_private_agents_are_left_out(
    execute: Executor, world: World, sql: Sql, run_of: RunOf
) -> None:
    """W-194: to N nothing in an explanation names P, its id or its run; O sees all."""
    heard = await create(
        execute, world, world.o, filter_actor_type="agent", filter_actor_id=world.p
    )
    deaf = await create(
        execute, world, world.o, filter_actor_type="member", filter_actor_id=world.m.user_id
    )
    run = await run_of(world.p, world.issue, world.o.user_id)
    await sql(
        "INSERT INTO comment"
        " (issue_id, workspace_id, author_type, author_id, content, source_task_id)"
        " VALUES ($1, $2, 'agent', $3, 'x', $4)",
        world.issue,
        world.workspace_id,
        world.p,
        run.run_id,
    )
    for rule in (heard, deaf):
        seen = repr(await explain(execute, world, rule, world.o))
        assert str(world.p) in seen
        hidden = repr(await explain(execute, world, rule, world.n))
        assert str(world.p) not in hidden
        assert str(run.run_id) not in hidden
        assert "when P comments" not in hidden
    view = await explain(execute, world, deaf, world.o)
    assert view.ignored[0].source_task_id == run.run_id
    assert (await explain(execute, world, heard, world.n)).summary[0] == (
        "Wakes A when the selected agent comments."
    )


async def test_an_explanation_waits_for_nobody(
    execute: Executor, world: World, sql: Sql, database_url: str
) -> None:
    """W-213: while a dispatch holds rule, run and receipts, the answer comes within 100 ms."""
    rule = await create(execute, world)
    run = await run_for(sql, rule, "queued")
    await comment(sql, world.issue)
    await explain(execute, world, rule)  # what a first call prepares is no part of an answer
    before = await stored(sql)
    with PsqlSession(database_url) as other:
        held = other.ask(
            f"BEGIN; SELECT (own_run ->> 'id') FROM dispatch_load_alone('{world.issue}', '{{}}', 9)"
        )
        assert held == [str(run)], "the dispatch holds what it would change"
        blocked = other.ask("SELECT count(*) > 2 FROM pg_locks WHERE pid = pg_backend_pid()")
        assert blocked == ["t"]
        since = monotonic()
        view = await explain(execute, world, rule)
        took = monotonic() - since
        other.ask("ROLLBACK")
    assert (view.state, view.next_dispatch) == ("firing", "added")
    assert took < ANSWER_SECONDS_MAX
    assert await stored(sql) == before
