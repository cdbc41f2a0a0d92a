"""The committed description of the schema: `migrations/schema.sql` and `migrations/functions/`.

Both are read by people and checked by a test; migrations alone make databases. `python -m
engine.storage.schema_dump` migrates a throw-away embedded server and writes them anew (`make
schema`).
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from typing import Final

import trio

from engine.storage import migrate, queries
from engine.storage.database import open_loop
from engine.storage.postgres import Postgres
from engine.storage.postgres_programs import program

_sql = queries.load("schema")
_NOISE: Final = re.compile(r"^-- Dumped .*\n|^\\(?:un)?restrict .*\n", re.MULTILINE)


def describe(dsn: str) -> dict[str, str]:
    """Return the files of a database's description: path below `migrations`, and text.

    Made by the wheel's pg_dump, so texts are comparable only between servers of its version.
    """
    dump = _run("pg_dump", "--schema-only", "--no-owner", "--no-privileges", f"--dbname={dsn}")
    functions = json.loads(_run("psql", "-XAt", f"--dbname={dsn}", "-c", _sql.functions.text))
    files = {f"functions/{name}.sql": text for name, text in functions.items()}
    return {"schema.sql": _NOISE.sub("", dump).strip() + "\n", **files}


def committed() -> dict[str, str]:
    """Return the description as it stands in the package."""
    home = _home()
    paths = [home / "schema.sql", *(home / "functions").glob("*.sql")]
    return {str(path.relative_to(home)): path.read_text() for path in paths if path.exists()}


def write(files: dict[str, str]) -> None:
    """Replace the committed description; files of functions that are gone go too."""
    home = _home()
    for path in committed().keys() - files.keys():
        (home / path).unlink()
    (home / "functions").mkdir(exist_ok=True)
    for path, text in files.items():
        (home / path).write_text(text)


def main() -> None:
    """Migrate a new database, describe it, write the description."""
    with tempfile.TemporaryDirectory(prefix="wakeful-schema-") as folder:
        postgres = Postgres(Path(folder) / "data", settings={"fsync": "off"})
        postgres.start()
        try:
            postgres.create_database("wakeful")
            trio.run(_migrate, postgres.dsn())
            write(describe(postgres.dsn()))
        finally:
            postgres.stop()


async def _migrate(dsn: str) -> None:
    async with open_loop():
        await migrate.up(dsn)


def _home() -> Path:
    home = resources.files("migrations")
    assert isinstance(home, Path), "the description is written in a source tree"
    return home


def _run(name: str, *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - a program of the wheel, no shell
        [str(program(name)), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
