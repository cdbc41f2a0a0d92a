"""One word per thing, and no word for "everything else"."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

# Words that say nothing about what a thing does, so that everything ends up in it.
EMPTY: Final = frozenset(
    ("common", "helper", "helpers", "manager", "managers", "misc", "util", "utils", "utilities")
)
GIVEN: Final = frozenset({"handle_starttag", "handle_data"})  # by html.parser, to be overridden
REMEDY: Final = "name it after what it does"


def defined(node: ast.AST) -> list[str]:
    """Return the names that one node defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.alias(asname=str(name)):
            return [name]
        case _:
            return []


def is_empty(name: str) -> bool:
    """Tell whether a name is of the form `handle_...` or ends in an empty word, as its noun."""
    if name in GIVEN:
        return False
    split = sources.words(name)
    return bool(split) and (split[-1] in EMPTY or (len(split) > 1 and split[0] == "handle"))


def empty_names(source: Source) -> Iterator[Finding]:
    """Find definitions with empty names in a Python file."""
    for node in ast.walk(source.tree):
        for name in filter(is_empty, defined(node)):
            line = getattr(node, "lineno", 1)
            yield Finding(source.path, line, f"{name!r} says nothing", REMEDY)


def empty_path(source: Source) -> Iterator[Finding]:
    """Find a file whose path has an empty name in it."""
    for part in PurePath(source.path).with_suffix("").parts:
        if is_empty(part) or not EMPTY.isdisjoint(sources.words(part)):
            yield Finding(source.path, 1, f"the path part {part!r} says nothing", REMEDY)


def test_definitions_are_named_after_what_they_do() -> None:
    """No definition is called utils, helpers, common, misc, manager or handle_something."""
    found = sources.findings(empty_names, sources.python())
    sources.expect_none(found)


def test_files_are_named_after_what_they_hold() -> None:
    """No file or folder is called utils, helpers, common, misc or manager."""
    found = sources.findings(empty_path, map(Source, sources.files(), sources.files()))
    sources.expect_none(found)


def test_an_empty_name_is_found() -> None:
    """The words are found in every case style and kind of definition, and in paths, not in uses."""
    text = (
        "class LockManager: ...\n"
        "def handle_claim(row_helper): ...\n"
        "import engine as common\n"
        "run_utils = 1\n"
        "handle = contextlib.asynccontextmanager\n"
        "common_payload = 1\n"
    )
    assert sources.lines(empty_names, text) == [1, 2, 2, 3, 4]
    assert sources.lines(empty_path, "", "engine/storage/utils_of_sql.py") == [1]
    assert sources.lines(empty_path, "", "engine/storage/database.py") == []
