"""Where facts meet dispatches: no fact is lost or told twice, whoever commits first."""

from __future__ import annotations

from typing import Final

import attrs

from engine.domain.commands.tracker import CreateComment
from engine.service.dispatch import Dispatched
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import A_COMMENT, dispatch, dispatch_free, use_case, writer
from tests.isolation.places import (
    Place,
    a_place,
    dispatch_rest,
    runs_at,
    say,
    told,
    with_rule,
    with_run,
)
from tests.isolation.specification import SAMPLE_MAX, Ends, Part, Specification

ELSEWHERE: Final = A_COMMENT.replace("{issue}", "{other}")
DUE: Final = Query(
    "facts.due", "UPDATE issue_wakeup SET next_fire_at = wakeful_now() WHERE id = $1"
)


async def one_fact(session: Session, world: World) -> Place:
    """A rule with a fact that waits."""
    place = await with_rule(session, await a_place(session, world))
    await say(session, place)
    return place


async def a_queued_run(session: Session, world: World) -> Place:
    """A rule with a fact that waits, and a queued run that it can go into."""
    place = await one_fact(session, world)
    return await with_run(session, place)


def comment() -> Part:
    """M comments through the engine."""
    return use_case(
        "comment",
        lambda place: CreateComment(issue_id=place.issue, body="words"),
        stops=("comments.insert",),
    )


async def all_told_once(session: Dedicated, place: Place, count: int) -> int:
    """Return how many facts were left; the next dispatch puts them all into the same run."""
    before = await told(session, place.rule)
    assert sum(each["count"] for each in before) == count
    left: int = sum(each["count"] for each in before if not each["is_over"])
    await dispatch_rest(session, place)
    (run,) = await runs_at(session, place)
    after = await told(session, place.rule)
    assert sum(each["count"] for each in after) == count
    assert {(each["is_over"], each["task_id"]) for each in after} == {(True, run["id"])}
    return left


async def test_comments_meet_a_dispatch(explored: Exploring) -> None:
    """G-01, G-02: a comment beside a dispatch is in its run or waits for the next one."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        return f"{await all_told_once(session, place, 3)} left"

    found = await explored(
        Specification(
            parts=(comment(), writer("psql", A_COMMENT), dispatch()),
            prepare=one_fact,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"0 left", "1 left", "2 left"}
    assert {("psql", "dispatch"), ("comment", "dispatch"), ("dispatch", "comment")} <= {
        *found.waits
    }


async def test_merges_meet_a_consumption(explored: Exploring) -> None:
    """W-063, G-02: a receipt that is merged while it is consumed stays pending, with every fact."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        done = ends["dispatch"].result
        assert isinstance(done, Dispatched)
        left = await all_told_once(session, place, 3)
        assert bool(done.missed) == (not done.rules)
        return f"missed, {left} left" if done.missed else f"{left} left"

    found = await explored(
        Specification(
            parts=(comment(), writer("psql", A_COMMENT), dispatch_free()),
            prepare=a_queued_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() >= {"0 left", "1 left", "2 left", "missed, 3 left"}
    assert not [pair for pair in found.waits if pair[0] == "dispatch"]


async def test_two_dispatches_of_one_issue(explored: Exploring) -> None:
    """W-081, G-04: of two dispatches of an issue one starts the run, the other finds nothing."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        dones = [ended.result for ended in ends.values()]
        started = [isinstance(done, Dispatched) and done.started for done in dones]
        assert sum(started) == 1
        (run,) = await runs_at(session, place)
        (receipt,) = await told(session, place.rule)
        assert receipt["task_id"] == run["id"]
        return "the first" if started[0] else "the second"

    found = await explored(
        Specification(parts=(dispatch("one"), dispatch("two")), prepare=one_fact, judge=judge)
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"the first", "the second"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}


async def test_a_group_and_a_single_dispatch(explored: Exploring) -> None:
    """W-077: a group passes by an issue that is worked alone, and one that it has is waited for."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        group = ends["group"].result
        assert isinstance(group, Dispatched)
        (run,) = await runs_at(session, place)
        (receipt,) = await told(session, place.rule)
        assert receipt["task_id"] == run["id"]
        return f"started {group.started}, missed {len(group.missed)}"

    found = await explored(
        Specification(
            parts=(dispatch_free("group"), dispatch("alone")), prepare=one_fact, judge=judge
        )
    )
    assert found.is_complete
    assert found.outcomes.keys() == {
        "started 1, missed 0",
        "started 0, missed 1",
        "started 0, missed 0",
    }
    assert found.waits.keys() == {("alone", "group")}


async def test_two_dispatches_of_one_timer(explored: Exploring) -> None:
    """G-06: a timer that has come due fires once, whichever dispatch has it."""

    async def a_due_timer(session: Session, world: World) -> Place:
        place = await with_rule(
            session,
            await a_place(session, world),
            kind="every",
            event_types=[],
            interval_seconds=3_600,
        )
        await session.execute(DUE, place.rule)
        return place

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        dones = [ended.result for ended in ends.values()]
        started = [isinstance(done, Dispatched) and done.started for done in dones]
        (run,) = await runs_at(session, place)
        (receipt,) = await told(session, place.rule)
        assert (receipt["event_type"], receipt["task_id"]) == ("time.due", run["id"])
        return "the first" if started[0] else "the second"

    found = await explored(
        Specification(parts=(dispatch("one"), dispatch("two")), prepare=a_due_timer, judge=judge)
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"the first", "the second"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}


async def test_writers_in_opposite_orders(explored: Exploring) -> None:
    """W-051: two writers that touch two issues in opposite orders do not deadlock."""

    async def two_listeners(session: Session, world: World) -> Place:
        other = await with_rule(session, await a_place(session, world))
        place = await with_rule(session, await a_place(session, world))
        return attrs.evolve(place, other=other.issue, run=other.rule)

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        for rule in (place.rule, place.run):
            (receipt,) = await told(session, rule)
            assert (receipt["count"], receipt["is_over"]) == (2, False)
        return "both told"

    found = await explored(
        Specification(
            parts=(writer("one", A_COMMENT, ELSEWHERE), writer("two", ELSEWHERE, A_COMMENT)),
            prepare=two_listeners,
            judge=judge,
        )
    )
    assert found.is_complete
    assert found.all_waited == 0
