"""Rules that the platform has paused: how they are listed, told, woken, and switched on again."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from engine.domain.access import Visibility
from engine.domain.commands.inventory import ListPaused
from engine.domain.commands.tracker import UpdateAgent, UpdateIssue
from engine.domain.commands.wakeups import (
    EnableRule,
    ExplainRule,
    GetRule,
    ListRules,
    ReplaceRule,
    TriggerRule,
)
from engine.domain.principal import Principal
from engine.domain.records import PauseReason
from engine.domain.views.inventory import PausedRuleView
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from engine.storage import migrate, queries
from engine.storage.database import ConstraintViolation, Database
from tests.service.conftest import Executor, Sql, World
from tests.service.runs_seed import Floor, floor  # noqa: F401 - a fixture
from tests.service.test_inventory import inventory, rule_on, summaries
from tests.service.test_inventory_plans import explained, nodes
from tests.service.wakeup_steps import (
    a_draft,
    comment,
    create,
    dispatch,
    receipts,
    refused,
    run_for,
    statuses,
    stored,
)
from web import wire

SECRET: Final = "zanzibar"
PAUSE: Final = (
    "UPDATE issue_wakeup SET enabled = false, paused_reason = $2,"
    " disabled_at = CASE WHEN $2 <> 'max_fires' THEN wakeful_now() END WHERE id = $1"
)
SWITCHED_OFF: Final = (PauseReason.LOOP, PauseReason.RATE)  # the third leaves disabled_at null


async def pause(sql: Sql, rule: RuleView, reason: str) -> None:
    """Pause a rule as the platform does: the limits that do it are not asked here."""
    await sql(PAUSE, rule.id, reason)


async def paused(
    execute: Executor, world: World, caller: Principal | None = None
) -> tuple[PausedRuleView, ...]:
    """Return the paused list of the world's workspace, as N unless said otherwise."""
    found = await execute(caller or world.n, ListPaused(workspace_id=world.workspace_id))
    assert isinstance(found, tuple)
    return found


async def shown(execute: Executor, world: World, rule: RuleView) -> RuleView:
    """Return a rule as M sees it now."""
    view = await execute(world.m, GetRule(issue_id=rule.issue_id, rule_id=rule.id))
    assert isinstance(view, RuleView)
    return view


# --- Lists --------------------------------------------------------------------------------------


async def test_paused_rules_of_open_issues(execute: Executor, sql: Sql, world: World) -> None:
    """W-150: of three paused rules those of the open issue, with issue, agent and reason."""
    first, second = [await create(execute, world) for _ in range(2)]
    over = await rule_on(execute, world, world.other_issue)
    await create(execute, world)
    assert await paused(execute, world) == ()
    for rule, reason in ((first, "rate"), (second, "max_fires"), (over, "loop")):
        await pause(sql, rule, reason)
    assert len(await paused(execute, world)) == 3
    await execute(world.m, UpdateIssue(issue_id=world.other_issue, status="done"))
    place: dict[str, Any] = {"issue_id": world.issue, "agent_id": world.a}
    assert await paused(execute, world) == (
        PausedRuleView(**place, id=first.id, paused_reason=PauseReason.RATE),
        PausedRuleView(**place, id=second.id, paused_reason=PauseReason.MAX_FIRES),
    )
    await sql("UPDATE issue_wakeup SET enabled = true WHERE id = $1", first.id)
    assert [each.id for each in await paused(execute, world)] == [second.id]


async def test_the_paused_list_is_bounded(execute: Executor, sql: Sql, world: World) -> None:
    """W-150: at most 200 rules, the first by issue and id."""
    await sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
        "   mode, enabled, disabled_at, paused_reason)"
        " SELECT $1, CASE WHEN n % 2 = 0 THEN $2::uuid ELSE $3 END, $4, $5, 'x', 'event',"
        "        'continuous', false, wakeful_now(), 'loop' FROM generate_series(1, 250) n",
        *(world.workspace_id, world.issue, world.other_issue, world.a, world.m.user_id),
    )
    found = [(each.issue_id, each.id) for each in await paused(execute, world)]
    assert len(found) == 200
    rows = await sql("SELECT issue_id, id FROM issue_wakeup ORDER BY issue_id, id LIMIT 200")
    assert found == [(row["issue_id"], row["id"]) for row in rows]


@pytest.mark.parametrize(
    ("who", "code"),
    [("o", None), ("g", None), ("n", None), ("s", "not_found"), ("daemon", "not_allowed")],
)
async def test_who_sees_the_paused_list(
    execute: Executor, sql: Sql, world: World, who: str, code: str | None
) -> None:
    """W-150, W-195: members see it, private agents included, and never an instruction."""
    rule = await create(execute, world, instruction=SECRET)
    await pause(sql, rule, "loop")
    hidden = UpdateAgent(agent_id=world.a, visibility=Visibility.PRIVATE)
    await execute(world.o, hidden)
    caller = getattr(world, who)
    if code is not None:
        assert await refused(execute, caller, ListPaused(workspace_id=world.workspace_id)) == code
        return
    (found,) = await paused(execute, world, caller)
    assert found.agent_id == world.a
    assert wire.names(PausedRuleView) == ("issue_id", "id", "agent_id", "paused_reason")
    assert SECRET not in wire.dumps(found).decode()


async def test_a_paused_rule_has_a_class_of_its_own(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-208: paused is an open rule with a reason, whose runs have ended; the reason is told."""
    rules = {reason: await create(execute, world) for reason in PauseReason}
    for reason, rule in rules.items():
        await pause(sql, rule, reason)
    over = await rule_on(execute, world, world.other_issue)
    await pause(sql, over, "loop")
    await execute(world.m, UpdateIssue(issue_id=world.other_issue, status="done"))
    on = await create(execute, world)
    run = await run_for(sql, rules[PauseReason.MAX_FIRES], "running")
    found = await inventory(execute, world, scope="paused")
    assert {item.id for item in found.items} == {rules[each].id for each in SWITCHED_OFF}
    counts = found.counts
    assert (counts.all, counts.active, counts.paused, counts.disabled, counts.ended) == (
        *(5, 2, 2),
        *(0, 1),
    )
    await sql("UPDATE agent_task_queue SET status = 'completed' WHERE id = $1", run)
    found = await inventory(execute, world, scope="paused")
    assert {item.id: item.paused_reason for item in found.items} == {
        rule.id: reason for reason, rule in rules.items()
    }
    for rule in await execute(world.n, ListRules(issue_id=world.issue)):
        reasons = [reason for reason, each in rules.items() if each.id == rule.id]
        assert rule.paused_reason == (reasons[0] if reasons else None)
    (board,) = await summaries(execute, world)
    assert [(each.id, each.paused_reason) for each in board.previews] == [(on.id, None)]


async def test_the_paused_list_reads_paused_rules_alone(
    execute: Executor, sql: Sql, world: World, database: Database
) -> None:
    """W-150, W-206: beside 5,000 rules that somebody switched off the list reads an index alone."""
    await sql("ALTER TABLE issue_wakeup DISABLE TRIGGER USER")
    await sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
        "   mode, enabled, disabled_at, paused_reason)"
        " SELECT $1, $2, $3, $4, 'x', 'event', 'continuous', false, wakeful_now(),"
        "        CASE WHEN n <= 20 THEN 'rate' END FROM generate_series(1, 5000) n",
        *(world.workspace_id, world.issue, world.a, world.m.user_id),
    )
    await sql("ALTER TABLE issue_wakeup ENABLE TRIGGER USER")
    await sql("CHECKPOINT")
    await sql("VACUUM (ANALYZE) issue_wakeup")
    query = queries.load("inventory").paused
    for mode in ("force_custom_plan", "force_generic_plan"):
        plan = await explained(database, mode, query, world.workspace_id, 200)
        rules = [node for node in nodes(plan) if node.get("Relation Name") == "issue_wakeup"]
        assert {(node["Node Type"], node["Index Name"]) for node in rules} == {
            ("Index Only Scan", "issue_wakeup_paused_idx")
        }
        assert sum(node["Actual Rows"] for node in rules) == 20
    assert len(await paused(execute, world)) == 20


async def test_reasons_are_a_closed_list(execute: Executor, sql: Sql, world: World) -> None:
    """W-150: the database knows the reasons of the code, and takes no other."""
    rule = await create(execute, world)
    for reason in PauseReason:
        await pause(sql, rule, reason)
    with pytest.raises(ConstraintViolation) as caught:
        await pause(sql, rule, "mood")
    assert caught.value.constraint == "issue_wakeup_paused_reason_check"


async def test_the_reason_is_not_undone_unseen(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-150, W-244: the step refuses to be undone while a rule is paused, and says how many are."""
    rule = await create(execute, world)
    await pause(sql, rule, "loop")
    with pytest.raises(WakefulError, match="1 rules are paused") as caught:
        await migrate.down(database_url, "18")
    assert caught.value.code == "migration_refused"
    await sql("UPDATE issue_wakeup SET paused_reason = NULL")
    assert "0020_pause_rules" in await migrate.down(database_url, "18")


# --- What a pause means ---------------------------------------------------------------------------


@pytest.mark.parametrize("reason", PauseReason)
async def test_switching_on_ends_a_pause(
    execute: Executor, sql: Sql, world: World, database: Database, reason: PauseReason
) -> None:
    """W-026, W-149: enabling clears the reason; what came before the pause starts no run."""
    rule = await create(execute, world)
    await comment(sql, world.issue)
    await pause(sql, rule, reason)
    assert len(await receipts(sql, rule)) == 1
    enable = EnableRule(issue_id=world.issue, rule_id=rule.id, revision=rule.revision)
    view = await execute(world.m, enable)
    assert (view.enabled, view.paused_reason, view.disabled_at) == (True, None, None)
    assert view.revision == rule.revision + 1
    assert (await dispatch(database, world.issue)).started == 0
    await comment(sql, world.issue)
    assert (await dispatch(database, world.issue)).started == 1


async def test_a_save_ends_a_pause(execute: Executor, sql: Sql, world: World) -> None:
    """W-020: a replacement clears the reason, and a refused one leaves everything as it is."""
    rule = await create(execute, world)
    await pause(sql, rule, "max_fires")
    before = await stored(sql)
    replace = partial(ReplaceRule, issue_id=world.issue, rule_id=rule.id)
    assert await refused(execute, world.m, replace(draft=a_draft(world, event_types=()))) != ""
    assert await stored(sql) == before
    view = await execute(world.m, replace(draft=a_draft(world)))
    assert (view.enabled, view.paused_reason, view.revision) == (True, None, 2)


@pytest.mark.parametrize("reason", PauseReason)
async def test_waking_a_paused_rule(
    execute: Executor, sql: Sql, world: World, database: Database, reason: PauseReason
) -> None:
    """W-031: wake-now is 400 for a pause that switched off; after `max_fires` it starts a run."""
    rule = await create(execute, world)
    await pause(sql, rule, reason)
    trigger = TriggerRule(issue_id=world.issue, rule_id=rule.id)
    if reason in SWITCHED_OFF:
        assert await refused(execute, world.m, trigger) == "wakeup_disabled"
        return
    await execute(world.m, trigger)
    assert (await dispatch(database, world.issue)).started == 1
    view = await shown(execute, world, rule)
    assert (view.enabled, view.disabled_at, view.paused_reason) == (False, None, reason)


@pytest.mark.parametrize("reason", PauseReason)
async def test_the_gate_asks_whether_a_pause_switched_off(
    floor: Floor,  # noqa: F811 - the fixture
    reason: PauseReason,
) -> None:
    """W-149, W-106, W-108: queued runs are refused at claim, but the last one of `max_fires`."""
    rule = await create(floor.execute, floor.world)
    fired = await floor.fire(rule.id)
    await pause(floor.sql, rule, reason)
    runs = await floor.claim()
    status = "failed" if reason in SWITCHED_OFF else "dispatched"
    assert [run.id for run in runs] == ([] if reason in SWITCHED_OFF else [fired])
    assert await statuses(floor.sql, fired) == [status]


@pytest.mark.parametrize("reason", PauseReason)
async def test_a_pause_is_explained(
    execute: Executor, sql: Sql, world: World, database: Database, reason: PauseReason
) -> None:
    """W-235, W-255: each reason has a code; a lost right is a problem beside it, not the reason."""
    rule = await create(execute, world)
    await pause(sql, rule, reason)
    query = ExplainRule(issue_id=world.issue, rule_id=rule.id)
    view = await execute(world.m, query)
    assert (view.state, view.code, view.next_dispatch) == ("paused", f"paused_{reason}", "idle")
    assert view.summary[1].startswith("It was paused ")
    await sql("UPDATE agent SET visibility = 'private' WHERE id = $1", world.a)
    view = await execute(world.m, query)
    assert (view.state, view.code) == ("paused", f"paused_{reason}")
    assert [each.code for each in view.problems] == ["permission_lost"]
    await sql("UPDATE agent SET visibility = 'workspace' WHERE id = $1", world.a)
    if reason not in SWITCHED_OFF:
        await execute(world.m, TriggerRule(issue_id=world.issue, rule_id=rule.id))
        view = await execute(world.m, query)
        assert (view.state, view.next_dispatch) == ("firing", "started")
        await dispatch(database, world.issue)
        assert (await execute(world.m, query)).state == "waiting"
    await execute(world.m, UpdateIssue(issue_id=world.issue, status="done"))
    view = await execute(world.m, query)
    assert (view.state, view.code) == ("ended", "issue_closed")
