"""Rules that are saved beside writers who also write elsewhere, and on issues that go."""

from __future__ import annotations

from typing import Final

import attrs
import pytest

from engine.domain.commands.tracker import DeleteIssue
from engine.storage.database import Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import A_COMMENT, use_case, writer
from tests.isolation.places import Place, a_place, rules_at
from tests.isolation.specification import SAMPLE_MAX, Ends, Specification
from tests.isolation.test_registration import SAVE, create

SAVE_ELSEWHERE: Final = SAVE.replace("{issue}", "{other}")
SAVE_OFF: Final = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "   mode, enabled)"
    " VALUES ('{workspace}', '{issue}', '{agent}', '{m}', 'look', 'event', 'once', false)"
)
RETITLE: Final = "UPDATE issue SET title = 'Another one' WHERE id = '{issue}'"
BUSY: Final = "55P03"


async def two_issues(session: Session, world: World) -> Place:
    """Two issues of one workspace."""
    other = await a_place(session, world)
    return attrs.evolve(await a_place(session, world), other=other.issue)


@pytest.mark.parametrize("writing", [A_COMMENT, RETITLE])
async def test_a_rule_elsewhere_and_then_a_fact_here(explored: Exploring, writing: str) -> None:
    """W-013, W-051: who saves a rule on one issue and writes to another one never fails for it.

    Activations of a workspace follow each other, so that a save on the other issue waits for that
    writer, who waits for the save: it gives up before the server sees a deadlock.
    """

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        assert len(await rules_at(session, place)) == (1 if ends["create"].is_done else 0)
        return ends["create"].code

    found = await explored(
        Specification(
            parts=(create(may=(BUSY,)), writer("psql", SAVE_ELSEWHERE, writing)),
            prepare=two_issues,
            judge=judge,
            orders_max=10,  # each of those that wait for each other takes seven tenths of a second
        )
    )
    assert found.outcomes.keys() == {"done", BUSY}
    assert found.all_waited > 0


async def test_two_writers_who_save_and_write_crosswise(explored: Exploring) -> None:
    """W-013, W-051: nor do two such writers deadlock; one of them may have to try again."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        return ", ".join(sorted(each.code for each in ends.values()))

    found = await explored(
        Specification(
            parts=(
                writer("one", SAVE, may=(BUSY,)),
                writer("two", SAVE_ELSEWHERE, A_COMMENT, may=(BUSY,)),
            ),
            prepare=two_issues,
            judge=judge,
            orders_max=10,
        )
    )
    assert found.outcomes.keys() >= {"done, done"}


@pytest.mark.parametrize("saving", [SAVE, SAVE_OFF])
async def test_a_writer_who_saves_on_an_issue_that_goes(explored: Exploring, saving: str) -> None:
    """W-189, W-190: a rule that a direct writer saves goes with its issue, or is refused."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        assert await rules_at(session, place) == []
        return ends["psql"].code

    delete = use_case(
        "delete",
        lambda place: DeleteIssue(issue_id=place.issue),
        stops=("issues.lock_for_delete", "closing.lock_rules", "closing.lock_inputs"),
    )
    found = await explored(
        Specification(
            parts=(delete, writer("psql", saving, may=("23503",))),
            prepare=a_place,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"done", "23503"}
    assert {("delete", "psql"), ("psql", "delete")} <= {*found.waits}
