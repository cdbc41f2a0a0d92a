"""A cluster for the benchmarks: the product's own server with its own settings, durable commits.

Each family of rows gets databases of its own, cloned from one that is migrated (`bench/world.sql`
says what is in them), so that no row pays for what another left behind.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from engine.domain.principal import Principal, PrincipalKind, Role
from engine.settings import Settings
from engine.storage import migrate
from engine.storage.database import open_loop
from engine.storage.postgres import Postgres
from engine.storage.postgres_programs import program

HERE: Final = Path(__file__).resolve().parent
EMPTY: Final = "migrated"  # the database that all others are cloned from
HINTED: Final = "-c wakeful.hinted=on"  # a writer that needs no NOTIFY
NOTIFYING: Final = ""
ERROR_CHARS_MAX: Final = 500  # every client of pgbench complains
_TPS: Final = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)


class Kind(StrEnum):
    """The kinds of ids in `bench/world.sql`."""

    ISSUE = "8000"
    WORKSPACE = "8001"
    PERSON = "8002"
    TOKEN = "8003"
    RUNTIME = "8004"
    AGENT = "8005"
    RULE = "9000"


def bench_id(kind: Kind, number: int) -> UUID:
    """Return the id of the `number`-th thing of a kind, counted from 1."""
    return UUID(f"00000000-0000-7000-{kind}-{number:012x}")


@attrs.frozen(kw_only=True)
class Sizes:
    """How large a world is: agents and issues a workspace, and which issues have how many rules."""

    workspaces: int = 1
    agents: int = 1
    issues: int
    first_rule: int = 1
    last_rule: int
    rules_each: int = 1


@attrs.frozen
class Cluster:
    """A running server; can be handed to another process."""

    address: str  # of the database EMPTY

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return self.address.replace(f"/{EMPTY}?", f"/{database}?")

    def settings(self, database: str, **values: Any) -> Settings:
        """Return the settings of an engine on a database: the defaults, except for `values`."""
        return Settings(database_url=self.url(database), **values)

    def create(self, database: str, template: str = EMPTY) -> None:
        """Clone a database and write everything to disk, so that nobody pays for it later."""
        self.psql("postgres", f"CREATE DATABASE {database} TEMPLATE {template}")
        self.psql("postgres", "CHECKPOINT")

    def drop(self, database: str) -> None:
        """Drop a database."""
        self.psql("postgres", f"DROP DATABASE {database}")

    def create_world(self, database: str, sizes: Sizes) -> None:
        """Clone a database and fill it (see `bench/world.sql`)."""
        self.psql("postgres", f"CREATE DATABASE {database} TEMPLATE {EMPTY}")
        self.psql(database, (HERE / "world.sql").read_text(), **attrs.asdict(sizes))
        self.psql("postgres", "CHECKPOINT")

    def psql(self, database: str, script: str, /, **variables: object) -> str:
        """Run a script and return what it prints, columns separated by bars."""
        values = [part for item in variables.items() for part in ("-v", "{}={}".format(*item))]
        return self._run(
            "psql",
            *("-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", *values, "-d", self.url(database)),
            text=script,
        )

    def pgbench(self, database: str, script: str, *options: str, session: str = "") -> float:
        """Run a script with pgbench and return the transactions per second, connecting aside.

        `session` are options of its connections.
        """
        with tempfile.NamedTemporaryFile("w", suffix=".pgbench") as file:
            file.write(script)
            file.flush()
            said = self._run(
                "pgbench",
                *("-n", "-M", "prepared", "-f", file.name, *options, self.url(database)),
                environment={"PGOPTIONS": session},
            )
        found = _TPS.search(said)
        assert found is not None, said
        return float(found[1])

    def _run(
        self,
        name: str,
        *arguments: str,
        text: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        done = subprocess.run(
            [str(program(name)), *arguments],
            check=False,
            capture_output=True,
            text=True,
            input=text,
            env={**_without_postgres(os.environ), **environment},
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed: {done.stderr[:ERROR_CHARS_MAX]}")
        return done.stdout


def _without_postgres(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out the variables that would send the programs to another server."""
    return {name: value for name, value in environment.items() if not name.startswith("PG")}


@contextmanager
def running_cluster() -> Iterator[tuple[Cluster, Path]]:
    """Run a server in a new directory, which goes with it; yield it with the directory.

    From the main thread, whose end would end the server.
    """
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        Path(folder).chmod(0o755)  # so that the server's account gets there as in production
        server = Postgres(Path(folder) / "data")
        server.start()
        try:
            server.create_database(EMPTY)
            cluster = Cluster(server.dsn(EMPTY))
            trio.run(_migrate, cluster.address)
            yield cluster, Path(folder)
        finally:
            server.stop()


async def _migrate(dsn: str) -> None:
    async with open_loop():
        await migrate.up(dsn)


def member(workspace: int = 1) -> Principal:
    """Return the person of a workspace."""
    return Principal(
        kind=PrincipalKind.MEMBER,
        user_id=bench_id(Kind.PERSON, workspace),
        roles={bench_id(Kind.WORKSPACE, workspace): Role.OWNER},
    )


def daemon(workspace: int = 1) -> Principal:
    """Return the daemon of a workspace."""
    return Principal(
        kind=PrincipalKind.DAEMON,
        workspace_id=bench_id(Kind.WORKSPACE, workspace),
        token_id=bench_id(Kind.TOKEN, workspace),
        daemon_id="bench",
    )
