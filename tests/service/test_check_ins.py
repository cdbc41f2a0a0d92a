"""Check-ins: a scheduled check that found nothing says so without a comment."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

import engine.service.check_ins
import engine.service.daemons
import engine.service.wakeups  # noqa: F401 - all register their use cases
from engine.domain.commands.runs import CompleteRun, RegisterDaemon, RuntimeDraft
from engine.domain.commands.wakeups import CheckIn, ListRuleRuns
from engine.domain.principal import Principal
from engine.domain.views.runs import ClaimedRun
from engine.domain.views.wakeups import RuleRunView
from engine.errors import WakefulError
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]


async def a_check(floor: Floor, **changes: Any) -> UUID:
    """Register an hourly check by agent A on issue I, changed as said."""
    schedule = {"kind": "every", "mode": "continuous", "interval_seconds": 3_600}
    return await floor.wakeup(**{**schedule, "enabled": True, **changes})


async def claimed(floor: Floor, rule: UUID) -> tuple[ClaimedRun, Principal]:
    """Fire a rule; return its run, claimed, and who its token makes of the caller."""
    await floor.fire(rule)
    run = await floor.claim_one()
    return run, await floor.execute.authenticate(run.token)


async def running(floor: Floor, rule: UUID) -> tuple[ClaimedRun, Principal]:
    """Fire a rule; return its run, started, and the run as a caller."""
    run, agent = await claimed(floor, rule)
    await floor.start(run)
    return run, agent


def checking_in(floor: Floor, rule: UUID, note: str = "All quiet.") -> CheckIn:
    """Return the command that checks in to a rule on issue I."""
    return CheckIn(issue_id=floor.world.issue, rule_id=rule, note=note)


async def context_of(floor: Floor, run: ClaimedRun) -> dict[str, Any]:
    (row,) = await floor.sql("SELECT context FROM agent_task_queue WHERE id = $1", run.id)
    context: dict[str, Any] = row["context"]
    return context


async def nothing_was_written(floor: Floor) -> bool:
    """Tell whether no run and no timeline knows of a check-in."""
    rows = await floor.sql(
        "SELECT FROM agent_task_queue WHERE context ? 'wakeup_checkin'"
        " UNION ALL SELECT FROM activity_log WHERE action = 'wakeup_checkin'"
    )
    return not rows


@pytest.mark.parametrize(
    "schedule", [{}, {"kind": "cron", "cron_expression": "0 9 * * *", "interval_seconds": None}]
)
async def test_a_check_in_is_kept_and_told(floor: Floor, schedule: dict[str, Any]) -> None:
    """W-154, W-155: the run keeps note and time; the timeline has note, run and rule."""
    rule = await a_check(floor, **schedule)
    run, agent = await running(floor, rule)
    before = await context_of(floor, run)
    assert await floor.execute(agent, checking_in(floor, rule, " All quiet.\n")) is None
    context = await context_of(floor, run)
    kept = context.pop("wakeup_checkin")
    assert (set(kept), kept["note"], context) == ({"note", "at"}, "All quiet.", before)
    (told,) = await floor.sql("SELECT * FROM activity_log WHERE action = 'wakeup_checkin'")
    assert (told["actor_type"], told["actor_id"]) == ("agent", floor.world.a)
    assert (told["workspace_id"], told["issue_id"]) == (floor.world.workspace_id, floor.world.issue)
    details = told["details"]
    assert (details["note"], details["task_id"]) == ("All quiet.", str(run.id))
    assert (details["wakeup"]["id"], details["wakeup"]["agent_id"]) == (
        str(rule),
        str(floor.world.a),
    )


async def test_a_check_in_takes_the_place_of_the_comment(floor: Floor) -> None:
    """W-155: the output of a run that checked in is no comment; that of the next run is one."""
    rule = await a_check(floor)
    run, agent = await running(floor, rule)
    await floor.execute(agent, checking_in(floor, rule))
    await floor.report(CompleteRun(run_id=run.id, output="quiet"))
    assert not await floor.sql("SELECT FROM comment")
    other, _ = await running(floor, rule)
    await floor.report(CompleteRun(run_id=other.id, output="a storm"))
    comments = await floor.sql("SELECT content FROM comment")
    assert [comment["content"] for comment in comments] == ["a storm"]


async def test_the_last_check_in_counts(floor: Floor) -> None:
    """W-155: a run may check in again; the run keeps the last note, the timeline has them all."""
    rule = await a_check(floor)
    run, agent = await running(floor, rule)
    for note in ("first", "second"):
        await floor.execute(agent, checking_in(floor, rule, note))
    assert (await context_of(floor, run))["wakeup_checkin"]["note"] == "second"
    told = await floor.sql("SELECT FROM activity_log WHERE action = 'wakeup_checkin'")
    assert len(told) == 2


async def test_the_runs_of_a_rule_show_their_check_ins(floor: Floor) -> None:
    """W-212: `checkin_note` is the note of a run that checked in, and null for another."""
    rule = await a_check(floor)
    run, agent = await running(floor, rule)
    await floor.execute(agent, checking_in(floor, rule))
    await floor.report(CompleteRun(run_id=run.id))
    await floor.fire(rule)
    query = ListRuleRuns(issue_id=floor.world.issue, rule_id=rule)
    views: tuple[RuleRunView, ...] = await floor.execute(floor.world.m, query)
    assert [view.checkin_note for view in views] == [None, "All quiet."]


@pytest.mark.parametrize("length", [1, 500])
async def test_a_note_counts_characters(floor: Floor, length: int) -> None:
    """W-154: a note has 1 to 500 characters, however many bytes each takes."""
    rule = await a_check(floor)
    run, agent = await running(floor, rule)
    await floor.execute(agent, checking_in(floor, rule, "🌊" * length))
    assert (await context_of(floor, run))["wakeup_checkin"]["note"] == "🌊" * length


@pytest.mark.parametrize("note", ["", " \n", "é" * 501, "a\x00b"])
async def test_a_note_that_is_none_is_refused(floor: Floor, note: str) -> None:
    """W-154: an empty, a blank, a too long and an unstorable note are 400 for the field `note`."""
    rule = await a_check(floor)
    _, agent = await running(floor, rule)
    code = await floor.execute.refused(agent, checking_in(floor, rule, note), field="note")
    assert code == "invalid_input"
    assert await nothing_was_written(floor)


async def test_only_the_run_of_the_rule_checks_in(floor: Floor) -> None:
    """W-154: a member, an ordinary run, and a run of another rule, issue or agent get 403."""
    world = floor.world
    rule = await a_check(floor)
    others = {
        "another rule": await a_check(floor),
        "another issue": await a_check(floor, issue_id=world.other_issue),
        "another agent": await a_check(floor, agent_id=world.b),
    }
    callers = {"a member": world.m, "its creator's owner": world.o}
    for name, other in others.items():
        _, callers[name] = await running(floor, other)
    callers["a daemon"] = world.daemon
    for name, caller in callers.items():
        code = await refused(floor, caller, checking_in(floor, rule))
        assert code == "not_allowed", name
    assert await nothing_was_written(floor)


async def test_run_rule_and_issue_belong_together(floor: Floor) -> None:
    """W-154: under another issue there is no such rule, and as another agent it is 403."""
    rule = await a_check(floor)
    _, agent = await running(floor, rule)
    elsewhere = CheckIn(issue_id=floor.world.other_issue, rule_id=rule, note="quiet")
    assert await refused(floor, agent, elsewhere) == "not_found"
    impostor = attrs.evolve(agent, agent_id=floor.world.b)
    assert await refused(floor, impostor, checking_in(floor, rule)) == "not_allowed"
    assert await nothing_was_written(floor)


async def test_strangers_learn_nothing(floor: Floor) -> None:
    """W-191: for who is not in the workspace, and for a rule that is not there, it is 404."""
    rule = await a_check(floor)
    assert await refused(floor, floor.world.s, checking_in(floor, rule)) == "not_found"
    _, agent = await running(floor, rule)
    await floor.sql("DELETE FROM issue_wakeup WHERE id = $1", rule)
    assert await refused(floor, agent, checking_in(floor, rule)) == "not_found"


async def test_a_run_checks_in_while_it_runs(floor: Floor) -> None:
    """W-154: a claim that has not started and a run that has ended get 409."""
    rule = await a_check(floor)
    run, agent = await claimed(floor, rule)
    assert await refused(floor, agent, checking_in(floor, rule)) == "conflict"
    await floor.start(run)
    await floor.report(CompleteRun(run_id=run.id))
    assert await refused(floor, agent, checking_in(floor, rule)) == "conflict"
    assert await nothing_was_written(floor)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "event", "event_types": ["comment.created"], "interval_seconds": None},
        {"kind": "at", "mode": "once", "enabled": False, "interval_seconds": None},
    ],
)
async def test_only_schedules_are_checked_in_to(floor: Floor, changes: dict[str, Any]) -> None:
    """W-154: in a run of an event rule or a one-shot timer a check-in is 400, for no field."""
    rule = await a_check(floor, **changes)
    _, agent = await running(floor, rule)
    with pytest.raises(WakefulError) as caught:
        await floor.execute(agent, checking_in(floor, rule))
    assert (caught.value.code, caught.value.details) == ("invalid_input", {})
    assert await nothing_was_written(floor)


async def test_another_attempt_has_not_checked_in(floor: Floor) -> None:
    """W-155: the retry of a lost run starts without the check-in of the attempt before."""
    rule = await a_check(floor)
    run, agent = await running(floor, rule)
    await floor.execute(agent, checking_in(floor, rule))
    main = RuntimeDraft(name="main", provider="test")
    await floor.report(RegisterDaemon(daemon_id="daemon-1", runtimes=(main,)))
    assert await floor.status(run.id) == "failed"
    (row,) = await floor.sql(
        "SELECT context FROM agent_task_queue WHERE retry_of_task_id = $1", run.id
    )
    expected = await context_of(floor, run)
    assert expected.pop("wakeup_checkin")["note"] == "All quiet."
    assert row["context"] == expected
