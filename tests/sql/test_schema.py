"""The committed description of the schema, and the steps of the package both ways."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.storage import migrate, schema_dump
from engine.storage.database import open_loop
from engine.storage.postgres import Postgres
from engine.storage.postgres_programs import program
from tests import conftest


def test_the_committed_schema_is_the_migrated_one(template_url: str) -> None:
    """W-237: `migrations/schema.sql` and `functions/` say what the migrations make."""
    described = schema_dump.describe(template_url)
    committed = schema_dump.committed()
    assert committed.keys() == described.keys(), "run: make schema"
    for path, text in described.items():
        assert committed[path] == text, f"migrations/{path} is out of date; run: make schema"


def test_functions_of_extensions_are_not_described(database_url: str) -> None:
    """W-237: the description has our functions and nothing that an extension brought."""
    before = schema_dump.describe(database_url).keys()
    assert "functions/wakeful_uuid7.sql" in before
    sql = "CREATE EXTENSION pg_trgm; CREATE FUNCTION twice(int) RETURNS int RETURN $1 * 2"
    subprocess.run([str(program("psql")), "-Xqc", sql, database_url], check=True)
    after = schema_dump.describe(database_url)
    assert after.keys() - before == {"functions/twice.sql"}
    assert "similarity" not in after["functions/twice.sql"]


async def test_every_step_can_be_undone(empty_url: str) -> None:
    """W-237: on an empty database each step's down file restores the schema before its up file."""
    async with open_loop():
        before = ["0"]
        await migrate.up(empty_url, migrate.read_steps()[0].name)
        await migrate.down(empty_url, migrate.NOTHING)
        for step in migrate.read_steps():
            described = schema_dump.describe(empty_url)
            await migrate.up(empty_url, step.name)
            await migrate.down(empty_url, before[-1])
            assert schema_dump.describe(empty_url) == described, step.name
            await migrate.up(empty_url, step.name)
            before.append(step.name)


def test_a_description_is_written_and_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template_url: str
) -> None:
    """W-237: `make schema` writes the description and removes files of functions that are gone."""
    monkeypatch.setattr(schema_dump, "_home", lambda: tmp_path)
    old = {"schema.sql": "a\n", "functions/gone.sql": "b\n"}
    schema_dump.write(old)
    assert schema_dump.committed() == old
    schema_dump.main()
    assert schema_dump.committed() == schema_dump.describe(template_url)


def test_a_guarantee_that_does_not_hold_is_found(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a test each guarantee with a counter-example is named with its first rows, no other."""
    script = "\\echo G-01\nSELECT 1, 'x';\n\\echo G-02\nSELECT 1 WHERE false;\n"
    script += "\\echo G-03\nSELECT generate_series(1, 99);\n"
    monkeypatch.setattr(conftest, "invariants", lambda: script)
    found = conftest.broken(postgres, "postgres")
    assert found == {"G-01": ["1|x"], "G-03": ["1", "2", "3", "4", "5"]}
