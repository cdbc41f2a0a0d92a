"""The loader of named queries."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import engine
from engine.storage import queries
from engine.storage.queries import Query, load, parse

PACKAGE = Path(engine.__file__).parent
TWO = """-- Queries of an example.

-- name: first
-- Why it is there.
-- Locks nothing.
SELECT 1;

-- name: second
SELECT '-- name: inside a line'
-- a comment in the statement stays
  FROM thing;
"""


def test_a_block_is_a_query_named_after_file_and_block() -> None:
    """A block becomes one attribute: its statement, without leading comments and semicolon."""
    found = parse("example", TWO)
    assert found.first == Query("example.first", "SELECT 1")
    assert found.second.text.startswith("SELECT '-- name: inside a line'\n-- a comment")
    assert found.second.text.endswith("FROM thing")
    assert dir(found) == ["first", "second"]


def test_an_unknown_name_is_an_error() -> None:
    """A query that the file lacks fails where it is named, and says what is missing where."""
    with pytest.raises(AttributeError, match=r"example\.sql has no query 'third'"):
        _ = parse("example", TWO).third


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n", "the name 'a' is taken"),
        ("-- name: a\n-- nothing but words\n-- name: b\nSELECT 1\n", "'a' has no statement"),
        ("-- name: a b\nSELECT 1\n", "'a b' is not a name"),
        ("-- name:\nSELECT 1\n", "'' is not a name"),
        ("SELECT 0;\n-- name: a\nSELECT 1\n", "in front of the first name"),
    ],
)
def test_a_file_that_is_not_blocks_is_refused(text: str, complaint: str) -> None:
    """Duplicate, bad and empty blocks and stray statements are errors at load time."""
    with pytest.raises(ValueError, match=complaint):
        parse("example", text)


def test_an_absent_file_is_refused() -> None:
    """Asking for the queries of an aggregate that has none is an error."""
    with pytest.raises(ValueError, match=r"there is no nothing_of_that_name\.sql"):
        load("nothing_of_that_name")


def test_every_shipped_file_loads() -> None:
    """Each file under `storage/sql` is a sequence of well-formed blocks."""
    files = sorted((PACKAGE / "storage" / "sql").glob("*.sql"))
    assert files
    for file in files:
        assert dir(load(file.stem)), file.name
        assert load(file.stem) is load(file.stem)


def test_queries_load_from_an_archive(tmp_path: Path) -> None:
    """The texts are package data: they load where the package is no folder, as in a wheel."""
    archive = tmp_path / "wheel.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for name in ("__init__.py", "storage/__init__.py", "storage/queries.py"):
            target.write(PACKAGE / name, f"engine/{name}")
        target.writestr("engine/storage/sql/example.sql", TWO)
    program = (
        "import engine.storage.queries as q; "
        "assert '.zip' in q.__file__; print(q.load('example').first.text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(archive)},
    )
    assert done.stdout == "SELECT 1\n"
    assert ".zip" not in str(queries.__file__)
