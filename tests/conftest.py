"""The fixtures of every test: one server, a migrated template, a database of its own for each test.

`database_url` is the usual way in: after a test that used it, every guarantee of
`docs/guarantees.md` that SQL can state is asked of the database, and each must return no row.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import trio

from engine.storage import migrate, queries
from engine.storage.database import Database, open_loop
from engine.storage.postgres import Postgres
from tests.tidy import documents, sources

GUARANTEES = "docs/guarantees.md"
ROWS_SHOWN_MAX = 5
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the faults, which take longest, so that no process is left alone with them."""
    items.sort(key=lambda item: "faults" not in item.path.parts)


@contextmanager
def running(settings: dict[str, str]) -> Iterator[Postgres]:
    """Run a server over a new directory, which goes with it."""
    with tempfile.TemporaryDirectory(prefix="wakeful-test-") as folder:
        Path(folder).chmod(0o755)  # so that the server's account gets there as in production
        server = Postgres(Path(folder) / "data", settings=settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


async def _migrate(dsn: str) -> None:
    async with open_loop():
        await migrate.up(dsn)


def _execute(postgres: Postgres, script: str, database: str = "postgres") -> str:
    """Run a script with psql and return what it prints."""
    options = ("-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", database)
    return postgres.tool("psql", *options, text=script).stdout


@cache
def invariants() -> str:
    """Return the psql script that prints each guarantee's id, then its counter-examples."""
    if not (sources.ROOT / GUARANTEES).exists():
        return ""
    return "\n".join(
        f"\\echo {guarantee.id}\n{sql.rstrip(';')};"
        for guarantee in documents.guarantees(sources.read(GUARANTEES))
        for sql in guarantee.sql
    )


def broken(postgres: Postgres, database: str) -> dict[str, list[str]]:
    """Return the guarantees that do not hold in a database, with the first rows that say so."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in _execute(postgres, invariants(), database).splitlines():
        if documents.GUARANTEE.fullmatch(line):
            current = line
        elif len(rows := found.setdefault(current, [])) < ROWS_SHOWN_MAX:
            rows.append(line)
    return found


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server of the whole test run; nothing on it is durable, which makes it fast."""
    with running(FAST) as server:
        yield server


@pytest.fixture
def durable_postgres() -> Iterator[Postgres]:
    """A server of the test's own, durable as in production, with a migrated `wakeful`: to kill."""
    with running({}) as server:
        server.create_database("wakeful")
        trio.run(_migrate, server.dsn())
        yield server


@pytest.fixture(scope="session")
def template_url(postgres: Postgres) -> str:
    """A migrated database to clone; nobody may be connected to it while a clone is made."""
    postgres.create_database("template")
    trio.run(_migrate, postgres.dsn("template"))
    return postgres.dsn("template")


@pytest.fixture
def create_database(postgres: Postgres) -> Iterator[Callable[[str], str]]:
    """Return a function that creates a database from a template and returns its name."""
    created = []

    def create(template: str) -> str:
        name = f"test_{next(_numbers)}"
        _execute(postgres, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        created.append(name)
        return name

    yield create
    for name in created:
        _execute(postgres, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def empty_url(postgres: Postgres, create_database: Callable[[str], str]) -> str:
    """An empty database: no schema, no guarantees."""
    return postgres.dsn(create_database("template0"))


@pytest.fixture
def database_url(
    postgres: Postgres, template_url: str, create_database: Callable[[str], str]
) -> Iterator[str]:
    """A migrated database of the test's own; afterwards the guarantees must hold in it."""
    name = create_database("template")
    yield postgres.dsn(name)
    if found := broken(postgres, name):
        lines = [f"{guarantee}: {row}" for guarantee, rows in found.items() for row in rows]
        pytest.fail("guarantees do not hold:\n" + "\n".join(lines))


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The gateway to the test's database, as the engine opens it."""
    gateway_sql = queries.load("gateway")
    async with (
        open_loop(),
        Database.open(database_url, begin=gateway_sql.begin, flush=gateway_sql.flush) as gateway,
    ):
        yield gateway
