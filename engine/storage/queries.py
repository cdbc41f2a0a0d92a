"""Named queries: `storage/sql/<aggregate>.sql` cut into blocks.

A file is a sequence of blocks. Each opens with `-- name: some_name`, then comment lines that say
why, which locks and which index, then one statement. Nothing else builds SQL (style.md, SQL).
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"--\s*name:\s*(.*?)\s*")
_IDENTIFIER: Final = re.compile(r"[a-z][a-z0-9_]*")


@attrs.frozen
class Query:
    """One statement and the name under which errors and logs speak of it."""

    name: str
    text: str


class Queries:
    """The queries of one file, each an attribute; any other attribute is an `AttributeError`."""

    def __init__(self, aggregate: str, queries: Mapping[str, Query]) -> None:
        self._aggregate = aggregate
        self._queries = dict(queries)

    def __getattr__(self, name: str) -> Query:
        # Asked only for what the instance lacks; the guard keeps copying from recursing.
        found = self.__dict__.get("_queries", {}).get(name)
        if found is None:
            aggregate = self.__dict__.get("_aggregate", "")
            raise AttributeError(f"{aggregate}.sql has no query {name!r}")
        assert isinstance(found, Query)
        return found

    def __dir__(self) -> list[str]:
        return sorted(self._queries)


@cache
def load(aggregate: str) -> Queries:
    """Return the queries of `storage/sql/<aggregate>.sql`, read from the package's data.

    Raises `ValueError` when the file is absent or its blocks are not as this module's docstring
    says.
    """
    source = resources.files("engine.storage") / "sql" / f"{aggregate}.sql"
    if not source.is_file():
        raise ValueError(f"there is no {aggregate}.sql")
    return parse(aggregate, source.read_text(encoding="utf-8"))


def parse(aggregate: str, text: str) -> Queries:
    """Cut the text of one file into its queries, named `<aggregate>.<block>`.

    Raises `ValueError` for a bad or duplicate name, a block without a statement, and a statement
    in front of the first block.
    """
    queries: dict[str, Query] = {}
    head, *blocks = _cut(text)
    if _statement(head):
        raise ValueError(f"{aggregate}.sql: a statement stands in front of the first name")
    for block in blocks:
        opening = _NAME.fullmatch(block[0].strip())
        assert opening is not None
        name = opening.group(1)
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(f"{aggregate}.sql: {name!r} is not a name")
        if name in queries:
            raise ValueError(f"{aggregate}.sql: the name {name!r} is taken")
        statement = _statement(block[1:])
        if not statement:
            raise ValueError(f"{aggregate}.sql: {name!r} has no statement")
        queries[name] = Query(f"{aggregate}.{name}", statement)
    return Queries(aggregate, queries)


def _cut(text: str) -> list[list[str]]:
    """Lines in front of the first opening line, then one list of lines a block."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        if _NAME.fullmatch(line.strip()):
            parts.append([])
        parts[-1].append(line)
    return parts


def _statement(lines: list[str]) -> str:
    """Return the statement without the comment above it and without the final semicolon."""
    first = 0
    while first < len(lines) and (not lines[first].strip() or lines[first].startswith("--")):
        first += 1
    return "\n".join(lines[first:]).strip().removesuffix(";").rstrip()
