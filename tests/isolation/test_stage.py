"""The runner itself: it finds what it is there for, in code that is known to be wrong."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.isolation.conftest import Exploring
from tests.isolation.parts import A_COMMENT, SNAPSHOT, writer
from tests.isolation.places import Place, a_place
from tests.isolation.specification import FOREIGN, Ends, Part, Specification

READ: Final = Query("test.read", "SELECT revision FROM issue WHERE id = $1")
WRITE: Final = Query("test.write", "UPDATE issue SET revision = $2 WHERE id = $1")
COUNT: Final = "UPDATE issue SET revision = revision + 1 WHERE id = '{issue}'"
TOUCH_AGENT: Final = "UPDATE agent SET name = name WHERE id = '{agent}'"
TOUCH_ISSUE: Final = "UPDATE issue SET title = title WHERE id = '{issue}'"
STRAY_FACT: Final = (
    "INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, payload)"
    " VALUES (gen_random_uuid(), 1, '{issue}', 'comment.created', '{{}}')"
)


async def revision(session: Dedicated, place: Place, ends: Ends) -> str:
    """Return how often the issue was counted."""
    return str(await session.fetchval(READ, place.issue))


async def fine(session: Dedicated, place: Place, ends: Ends) -> str:
    """Judge nothing."""
    return "fine"


def careless(name: str) -> Part:
    """Return a part that counts by reading and then writing."""

    async def unit(session: Session, place: Place) -> Any:
        count = await session.fetchval(READ, place.issue)
        await session.execute(WRITE, place.issue, count + 1)

    return Part(name=name, unit=unit, writing=FOREIGN)


async def test_a_lost_update_is_found(explored: Exploring) -> None:
    """Two that read and then write lose a count in some order, and in some they do not."""
    parts = (careless("one"), careless("two"))
    found = await explored(Specification(parts=parts, prepare=a_place, judge=revision))
    assert found.is_complete
    assert found.outcomes.keys() == {"2", "3"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}


async def test_what_is_atomic_loses_nothing(explored: Exploring) -> None:
    """Two that count in one statement lose nothing in any order; the second waits for the first."""
    parts = (writer("one", COUNT), writer("two", COUNT))
    found = await explored(Specification(parts=parts, prepare=a_place, judge=revision))
    assert (found.orders, found.is_complete) == (4, True)
    assert found.outcomes.keys() == {"3"}
    assert found.waits == {("one", "two"): 1, ("two", "one"): 1}


async def test_a_deadlock_fails_the_specification(explored: Exploring) -> None:
    """Two that lock in opposite orders are a deadlock, which the failure shows step by step."""
    parts = (
        writer("one", TOUCH_AGENT, TOUCH_ISSUE),
        writer("two", TOUCH_ISSUE, TOUCH_AGENT),
    )
    with pytest.raises(AssertionError, match="40P01") as caught:
        await explored(Specification(parts=parts, prepare=a_place, judge=fine))
    assert "one waits for two" in str(caught.value)
    assert "all wait" in str(caught.value)


async def test_a_broken_guarantee_fails_the_specification(explored: Exploring) -> None:
    """G-02: the guarantees are asked after each order: a receipt without a rule is found."""
    stray = (writer("stray", STRAY_FACT),)
    with pytest.raises(AssertionError, match="G-02"):
        await explored(Specification(parts=stray, prepare=a_place, judge=fine))
    clean = (writer("clean", "DELETE FROM issue_wakeup_receipt"),)
    found = await explored(Specification(parts=clean, prepare=a_place, judge=fine))
    assert (found.orders, found.is_complete) == (1, True)


async def test_a_refusal_that_is_not_expected_fails_the_specification(explored: Exploring) -> None:
    """An error that a part may not end with fails the order; one that it may have is its end."""
    for may in ((), ("40001",)):
        parts = (
            writer("one", SNAPSHOT, A_COMMENT, COUNT, may=may),
            writer("two", COUNT),
        )
        specification = Specification(parts=parts, prepare=a_place, judge=fine)
        if may:
            found = await explored(specification)
            assert found.ends["one", "40001"] > 0
            assert found.ends["one", "done"] > 0
        else:
            with pytest.raises(AssertionError, match="40001"):
                await explored(specification)
