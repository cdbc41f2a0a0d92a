"""Where memberships end: people who remove each other, and owners who go together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from uuid import UUID

import attrs
import pytest

from engine.domain.commands.tracker import RemoveMember
from engine.domain.principal import Principal, Role
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import use_case
from tests.isolation.places import NOTHING, Place
from tests.isolation.specification import Ends, Part, Specification

Prepare: TypeAlias = Callable[[Session, World], Awaitable[Place]]
Judge: TypeAlias = Callable[[Dedicated, Place, Ends], Awaitable[str]]

_TOWN: Final = Query(
    "town.make",
    "INSERT INTO workspace (name, slug, issue_prefix) VALUES ('Town', gen_random_uuid(), 'TOWN')"
    " RETURNING id",
)
_JOIN: Final = Query(
    "town.join", "INSERT INTO member (workspace_id, user_id, role) VALUES ($1, $2, $3) RETURNING id"
)
_LEFT: Final = Query(
    "town.members", "SELECT m.id, m.role FROM member m WHERE m.workspace_id = $1 ORDER BY m.id"
)


@attrs.frozen(kw_only=True)
class Town(Place):
    """A workspace of its own with two people, `one` and `two`, and their memberships by name."""

    people: dict[str, Principal]
    memberships: dict[str, UUID]


async def _town(session: Session, world: World, role: Role) -> Town:
    """Make a town whose two people have this role, beside an owner who does nothing."""
    workspace = await session.fetchval(_TOWN)
    assert isinstance(workspace, UUID)
    people, memberships = {}, {}
    for name, person in (("one", world.g), ("two", world.m)):
        people[name] = attrs.evolve(person, roles={workspace: role})
        memberships[name] = await session.fetchval(_JOIN, workspace, person.user_id, role)
    if role is not Role.OWNER:
        await session.fetchval(_JOIN, workspace, world.o.user_id, Role.OWNER)
    return Town(
        world=attrs.evolve(world, workspace_id=workspace),
        issue=NOTHING,
        agent=NOTHING,
        runtime=NOTHING,
        people=people,
        memberships=memberships,
    )


async def two_owners(session: Session, world: World) -> Place:
    """A town with two owners."""
    return await _town(session, world, Role.OWNER)


async def two_admins(session: Session, world: World) -> Place:
    """A town with two admins, and an owner."""
    return await _town(session, world, Role.ADMIN)


def town(place: Place) -> Town:
    """Return the place, which is a town."""
    assert isinstance(place, Town)
    return place


def remove(who: str, whom: str, *, may: str) -> Part:
    """One person ends a membership, or is refused with this code."""
    return use_case(
        who,
        lambda place: RemoveMember(
            workspace_id=place.world.workspace_id, member_id=town(place).memberships[whom]
        ),
        by=lambda place: town(place).people[who],
        stops=("members.lock_owners", "identity.stand_person", "members.delete"),
        may=(may,),
    )


def judge(whose: dict[str, str]) -> Judge:
    """Return what tells who got their way: one of them; `whose` membership each wants to end."""

    async def told(session: Dedicated, place: Place, ends: Ends) -> str:
        (done,) = [name for name, ended in ends.items() if ended.is_done]
        left = {row["id"] for row in await session.fetch(_LEFT, place.world.workspace_id)}
        gone = {name for name, each in town(place).memberships.items() if each not in left}
        assert gone == {whose[done]}
        return done

    return told


@pytest.mark.parametrize("prepare", [two_owners, two_admins])
async def test_two_who_remove_each_other(explored: Exploring, prepare: Prepare) -> None:
    """Of two who remove each other one does, and the other finds no workspace, in every order."""
    whose = {"one": "two", "two": "one"}
    parts = [remove(who, whom, may="not_found") for who, whom in whose.items()]
    found = await explored(Specification(parts=parts, prepare=prepare, judge=judge(whose)))
    assert found.is_complete
    assert found.outcomes.keys() == {"one", "two"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}
    assert found.all_waited == 0


async def test_two_owners_who_go_together(explored: Exploring) -> None:
    """Of the last two owners who leave one stays, in every order."""
    whose = {"one": "one", "two": "two"}
    parts = [remove(who, whom, may="conflict") for who, whom in whose.items()]
    found = await explored(Specification(parts=parts, prepare=two_owners, judge=judge(whose)))
    assert found.is_complete
    assert found.outcomes.keys() == {"one", "two"}
    assert found.waits.keys() == {("one", "two"), ("two", "one")}
