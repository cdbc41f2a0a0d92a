"""The fixtures of the engine's tests: a seeded database, a foreign writer, and a running engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import trio

from engine.app import Engine
from engine.storage.postgres import Postgres
from tests.conftest import broken
from tests.engine.foreign import Psql, foreign
from tests.engine.world import World, running, seed

SEEDED = "template_of_a_world"


async def _seed(url: str) -> World:
    async with running(url) as seeder:
        return await seed(seeder)


@pytest.fixture(scope="session")
def world(postgres: Postgres, template_url: str) -> World:
    """The world of `tests.engine.world`, in a database to clone; its engine has stopped."""
    created = postgres.tool("createdb", "--template=template", SEEDED)
    assert created.returncode == 0
    return trio.run(_seed, postgres.dsn(SEEDED))


@pytest.fixture
def database_url(
    postgres: Postgres, world: World, create_database: Callable[[str], str]
) -> Iterator[str]:
    """A database of the test's own with the world in it; the guarantees hold afterwards."""
    name = create_database(SEEDED)
    yield postgres.dsn(name)
    assert broken(postgres, name) == {}


@pytest.fixture
async def psql(database_url: str) -> AsyncIterator[Psql]:
    async with foreign(database_url) as writer:
        # The world may have been made minutes ago, and its daemon has been silent since.
        await writer("UPDATE agent_runtime SET last_seen_at = wakeful_now()")
        yield writer


@pytest.fixture
async def engine(psql: Psql, database_url: str) -> AsyncIterator[Engine]:
    """An engine that only hints and due times move: it does not sweep within a test."""
    async with running(database_url) as opened:
        yield opened
