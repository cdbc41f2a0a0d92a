"""The fixtures of the interleaving tests: a seeded database that all specifications share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import trio

from engine.storage.database import open_loop
from engine.storage.postgres import Postgres
from tests.conftest import broken
from tests.engine.world import World, running, seed
from tests.isolation.specification import Explored, Specification, explore

STAGE = "stage"
Exploring = Callable[[Specification], Awaitable[Explored]]


async def _seed(url: str) -> World:
    async with running(url) as seeder:
        return await seed(seeder)


@pytest.fixture(scope="session")
def database_url(postgres: Postgres, template_url: str) -> Iterator[str]:
    """One database for all: each order has a place of its own, and leaves nothing that others see.

    The guarantees are asked after each order, and once more in the end.
    """
    created = postgres.tool("createdb", "--template=template", STAGE)
    assert created.returncode == 0
    yield postgres.dsn(STAGE)
    assert broken(postgres, STAGE) == {}


@pytest.fixture(scope="session")
def world(database_url: str) -> World:
    """The world of `tests.engine.world`; its engine has stopped."""
    return trio.run(_seed, database_url)


@pytest.fixture
async def explored(database_url: str, world: World) -> AsyncIterator[Exploring]:
    """Return a function that plays the orders of a specification."""

    async def play(specification: Specification) -> Explored:
        return await explore(database_url, world, specification)

    async with open_loop():
        yield play
