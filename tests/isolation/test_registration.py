"""Where rules are made: the limit, the watched run, the key of a request, writers beside them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import Kept, Once
from engine.domain.commands.runs import CompleteRun
from engine.domain.commands.tracker import UpdateIssue
from engine.domain.commands.wakeups import CreateRule, EnableRule
from engine.domain.rules import RuleDraft
from engine.domain.views.wakeups import RuleView
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import (
    A_CLOSING,
    A_COMMENT,
    SNAPSHOT,
    as_daemon,
    use_case,
    writer,
)
from tests.isolation.places import (
    COMMENT,
    Place,
    a_place,
    dispatch_rest,
    rule_at,
    rules_at,
    runs_at,
    told,
    with_rule,
    with_run,
)
from tests.isolation.specification import SAMPLE_MAX, Ends, Part, Specification

SAVING: Final = ("wakeups.lock_listening", "wakeups.lock_issue", "wakeups.insert")
FEW: Final = 30  # orders: each of these makes 31 rules first
NEARLY_FULL: Final = Query(
    "registration.nearly_full",
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "   mode, event_types)"
    " SELECT $1, $2, $3, $4, 'look', 'event', 'continuous', '{comment.created}'"
    "   FROM generate_series(1, $5)",
)
SAVE: Final = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "   mode, event_types)"
    " VALUES ('{workspace}', '{issue}', '{agent}', '{m}', 'look', 'event', 'continuous',"
    "   '{{comment.created}}')"
)
A_LOOK: Final = "SELECT count(*) FROM issue_wakeup WHERE issue_id = '{issue}'"
OFF: Final = Query(
    "registration.off",
    "UPDATE issue_wakeup SET enabled = false, disabled_at = wakeful_now() WHERE id = $1",
)


def draft(place: Place, **changes: Any) -> RuleDraft:
    """Return a rule for the agent of the place that listens to comments, changed as said."""
    values: dict[str, Any] = {
        "agent_id": place.agent,
        "instruction": "look",
        "kind": "event",
        "mode": "continuous",
        "event_types": (COMMENT,),
    }
    return RuleDraft(**{**values, **changes})


def create(name: str = "create", **changes: Any) -> Part:
    """M registers a rule."""
    may = changes.pop("may", ())
    return use_case(
        name,
        lambda place: CreateRule(issue_id=place.issue, draft=draft(place, **changes)),
        stops=SAVING,
        may=may,
    )


async def one_place_left(session: Session, world: World) -> Place:
    """An issue with one enabled rule less than it may have."""
    place = await a_place(session, world)
    count = limits.RULES_PER_ISSUE_MAX - 1
    owners = (world.workspace_id, place.issue, place.agent, world.m.user_id)
    await session.execute(NEARLY_FULL, *owners, count)
    return place


async def one_of_two(session: Dedicated, place: Place, ends: Ends) -> str:
    """Exactly one of two could be saved; return which, and how the other was refused."""
    assert len(await rules_at(session, place)) == limits.RULES_PER_ISSUE_MAX
    (saved,) = [name for name, ended in ends.items() if ended.is_done]
    (refused,) = [ended.code for ended in ends.values() if not ended.is_done]
    return f"{saved}, {refused}"


async def test_two_rules_for_the_last_place(explored: Exploring) -> None:
    """W-013: of two requests for the last place of an issue exactly one gets it, in every order."""
    may = ("wakeup_capacity_exceeded",)
    found = await explored(
        Specification(
            parts=(create("one", may=may), create("two", may=may)),
            prepare=one_place_left,
            judge=one_of_two,
            orders_max=FEW,
        )
    )
    assert found.outcomes.keys() == {f"{name}, {may[0]}" for name in ("one", "two")}
    assert found.waits.keys() >= {("one", "two"), ("two", "one")}


async def test_two_writers_for_the_last_place_under_repeatable_read(explored: Exploring) -> None:
    """W-013: nor do two snapshots that both show the last place free get one rule too many."""
    may = ("23514", "40001")
    parts = [writer(name, SNAPSHOT, A_LOOK, SAVE, may=may) for name in ("one", "two")]
    found = await explored(
        Specification(parts=parts, prepare=one_place_left, judge=one_of_two, orders_max=FEW)
    )
    assert found.outcomes.keys() == {f"{name}, {code}" for name in ("one", "two") for code in may}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}


async def test_a_request_and_a_writer_for_the_last_place(explored: Exploring) -> None:
    """W-013: a request beside a writer in REPEATABLE READ: one of them gets the last place."""
    parts = (
        create("request", may=("wakeup_capacity_exceeded",)),
        writer("psql", SNAPSHOT, A_LOOK, SAVE, may=("23514", "40001")),
    )
    found = await explored(
        Specification(parts=parts, prepare=one_place_left, judge=one_of_two, orders_max=FEW)
    )
    assert found.outcomes.keys() == {
        "psql, wakeup_capacity_exceeded",
        "request, 23514",
        "request, 40001",
    }


async def a_running_run(session: Session, world: World) -> Place:
    """A run at work."""
    return await with_run(session, await a_place(session, world), status="running")


def watch(may: tuple[str, ...] = ("wakeup_source_busy",)) -> Part:
    """M registers a rule that fires when the run of the place has completed."""
    return use_case(
        "watch",
        lambda place: CreateRule(
            issue_id=place.issue,
            draft=draft(
                place, mode="once", event_types=("task.completed",), filter_task_id=place.run
            ),
        ),
        stops=("wakeups.lock_source", *SAVING, "wakeups.add_snapshot"),
        may=may,
    )


async def told_once(session: Dedicated, place: Place, ends: Ends) -> str:
    """A rule that was saved knows of the end of its run, exactly once."""
    if not ends["watch"].is_done:
        assert await rules_at(session, place) == []
        return ends["watch"].code
    (rule,) = await rules_at(session, place)
    (receipt,) = await told(session, rule["id"])
    assert (receipt["event_type"], receipt["count"]) == ("task.completed", 1)
    await dispatch_rest(session, place)
    assert [run["wakeup_id"] for run in await runs_at(session, place)] == [None, rule["id"]]
    return "told"


async def test_a_rule_and_the_end_of_the_run_that_it_watches(explored: Exploring) -> None:
    """W-017: a rule that watches a run which ends meanwhile fires exactly once, or is refused."""
    complete = use_case(
        "complete",
        lambda place: CompleteRun(run_id=place.run, output="done"),
        by=as_daemon,
        stops=("runs.complete", "runs.fallback_comments"),
    )
    found = await explored(
        Specification(parts=(watch(), complete), prepare=a_running_run, judge=told_once)
    )
    assert found.outcomes.keys() == {"told", "wakeup_source_busy"}
    assert ("complete", "watch") in found.waits
    assert ("watch", "complete") not in found.waits


async def test_a_rule_and_a_writer_that_ends_the_run_that_it_watches(explored: Exploring) -> None:
    """W-017, W-018: the same holds where a direct writer ends the run."""
    ending = writer("psql", "UPDATE agent_task_queue SET status = 'completed' WHERE id = '{run}'")
    found = await explored(
        Specification(parts=(watch(), ending), prepare=a_running_run, judge=told_once)
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"told", "wakeup_source_busy"}
    assert found.waits.keys() == {("psql", "watch")}


async def test_twins_of_one_request(explored: Exploring) -> None:
    """W-033: two requests under one key make one rule, and both get the answer of the one."""

    def kept(view: RuleView) -> Kept:
        return Kept(201, str(view.id))

    def twin(name: str) -> Part:
        once = Once(route="test", key="", digest=b"same", render=kept)
        return use_case(
            name,
            lambda place: CreateRule(
                issue_id=place.issue,
                draft=draft(place),
                once=attrs.evolve(once, key=str(place.issue)),
            ),
            stops=("once.get", *SAVING, "once.keep"),
        )

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        (rule,) = await rules_at(session, place)
        (maker,) = [name for name, ended in ends.items() if isinstance(ended.result, RuleView)]
        (answer,) = [ended.result for name, ended in ends.items() if name != maker]
        assert isinstance(answer, Kept)
        assert UUID(answer.body) == rule["id"]
        return maker

    found = await explored(
        Specification(parts=(twin("one"), twin("two")), prepare=a_place, judge=judge)
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"one", "two"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}


async def test_a_rule_and_a_comment_under_repeatable_read(explored: Exploring) -> None:
    """W-016: who has an older snapshot than a rule is told of, comes first, or tries again."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        (rule,) = await rules_at(session, place)
        count = len(await told(session, rule["id"]))
        assert ends["psql"].is_done or count == 0
        return f"{ends['psql'].code}, told {count}"

    commenter = writer("psql", SNAPSHOT, A_LOOK, A_COMMENT, A_LOOK, may=("40001",))
    found = await explored(
        Specification(
            parts=(create(), commenter), prepare=a_place, judge=judge, orders_max=SAMPLE_MAX
        )
    )
    assert found.outcomes.keys() == {"done, told 0", "done, told 1", "40001, told 0"}
    assert ("create", "psql") in found.waits


async def test_a_rule_and_a_writer_that_comments_and_closes(explored: Exploring) -> None:
    """W-016, W-186: who has commented and closes never fails for a rule that is being saved."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        rules = await rules_at(session, place)
        assert [rule["enabled"] for rule in rules] == [False] * len(rules)
        return ends["create"].code

    found = await explored(
        Specification(
            parts=(
                create(may=("issue_closed", "55P03")),
                writer("psql", A_COMMENT, A_CLOSING),
            ),
            prepare=a_place,
            judge=judge,
            orders_max=12,  # each of those that wait for each other takes seven tenths of a second
        )
    )
    assert found.outcomes.keys() == {"done", "issue_closed", "55P03"}
    assert found.all_waited > 0


async def test_enabling_a_rule_of_an_issue_that_closes(explored: Exploring) -> None:
    """W-026, G-09: a rule is enabled before its issue closes, and goes off again, or not at all."""

    async def a_rule_that_is_off(session: Session, world: World) -> Place:
        place = await with_rule(session, await a_place(session, world))
        await session.execute(OFF, place.rule)
        return place

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        rule = await rule_at(session, place)
        assert rule is not None
        assert not rule["enabled"]
        return ends["enable"].code

    enable = use_case(
        "enable",
        lambda place: EnableRule(issue_id=place.issue, rule_id=place.rule, revision=1),
        stops=(
            "wakeups.hold_owners",
            "wakeups.lock_rule",
            "wakeups.lock_listening",
            "wakeups.enable",
        ),
        may=("issue_closed",),
    )
    close = use_case(
        "close",
        lambda place: UpdateIssue(issue_id=place.issue, status="done"),
        stops=("issues.lock", "issues.update"),
    )
    found = await explored(
        Specification(
            parts=(enable, close), prepare=a_rule_that_is_off, judge=judge, orders_max=SAMPLE_MAX
        )
    )
    assert found.outcomes.keys() == {"done", "issue_closed"}
    assert found.waits.keys() == {("enable", "close"), ("close", "enable")}
