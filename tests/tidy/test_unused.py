"""No dead queries and no dead bounds: what is named is used, and what is used exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

LIMITS: Final = "engine/limits.py"
NAME: Final = re.compile(r"^--\s*name:\s*(\w+)", re.MULTILINE)


def bound_names(source: Source) -> dict[str, str]:
    """Return the names that a module gives to query files: `RULES = load("rules")`."""
    bound = {}
    for node in source.tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call)
            ) if aggregate := loaded(call):
                bound[name] = aggregate
            case _:
                pass
    return bound


def loaded(call: ast.Call) -> str | None:
    """Return the aggregate that `load("aggregate")` loads, or None for any other call."""
    match call:
        case ast.Call(
            func=ast.Name(id="load") | ast.Attribute(value=ast.Name(id="queries"), attr="load"),
            args=[ast.Constant(value=str(aggregate))],
        ):
            return aggregate
        case _:
            return None


def bindings(source: Source, bound_in: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the expressions that stand for a query file in one module, each with its aggregate.

    `bound_in` holds the bound names of every module by its dotted name.
    """
    here = dict(bound_in[source.module])
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            called = alias.asname or alias.name
            if alias.name in (names := bound_in.get(node.module or "", {})):
                here[called] = names[alias.name]
            for name, aggregate in bound_in.get(f"{node.module}.{alias.name}", {}).items():
                here[f"{called}.{name}"] = aggregate
    return here


def used_queries(modules: Iterable[Source]) -> Iterator[tuple[str, str, Source, int]]:
    """Yield the aggregate, the query, the file and the line of every query that is named.

    A query is named as an attribute of what `load` returns, directly or by a name bound to it, in
    the module of the name or in one that imports the name or its module.
    """
    modules = list(modules)
    bound_in = {source.module: bound_names(source) for source in modules}
    for source in modules:
        here = bindings(source, bound_in)
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Attribute):
                continue
            aggregate = here.get(ast.unparse(node.value))
            if isinstance(node.value, ast.Call):
                aggregate = loaded(node.value)
            if aggregate is not None:
                yield aggregate, node.attr, source, node.lineno


def query_faults(files: Iterable[Source], modules: Iterable[Source]) -> list[Finding]:
    """Find named queries that nothing uses, and uses of queries that do not exist."""
    named = {
        (PurePath(source.path).stem, match[1]): (source, source.line_of(match.start()))
        for source in files
        for match in NAME.finditer(source.text)
    }
    used = list(used_queries(modules))
    uses = {(aggregate, query) for aggregate, query, _, _ in used}
    found = [
        Finding(source.path, line, f"the query {query} is dead", "use it or delete it")
        for (aggregate, query), (source, line) in named.items()
        if (aggregate, query) not in uses
    ]
    found += [
        Finding(source.path, line, f"{aggregate}.sql has no query {query}", "correct the name")
        for aggregate, query, source, line in used
        if (aggregate, query) not in named
    ]
    return sorted(found)


def dead_limits(limits: Source, modules: Iterable[Source]) -> list[Finding]:
    """Find bounds that no module reads."""
    read = {
        name
        for source in modules
        if source.path != limits.path
        for node in ast.walk(source.tree)
        for name in _read(node)
    }
    return [
        Finding(limits.path, node.lineno, f"{node.target.id} bounds nothing", "use or delete it")
        for node in limits.tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if node.target.id not in read
    ]


def _read(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return [name]
        case _:
            return []


def test_no_query_is_dead() -> None:
    """Every named query is used by the product, and every used query exists."""
    files = sources.sources(".sql", under=["engine/storage/sql"])
    found = query_faults(files, sources.python(under=["engine"]))
    sources.expect_none(found)


def test_no_bound_is_dead() -> None:
    """The product, or a test that holds SQL to it, reads every constant of engine/limits.py."""
    modules = sources.python(under=[*sources.PRODUCT, "tests"])
    found = dead_limits(sources.read(LIMITS), modules)
    sources.expect_none(found)


def test_dead_and_missing_queries_are_found() -> None:
    """A query that nobody names and a name without its query are found, however it is bound."""
    files = [
        Source("engine/storage/sql/rules.sql", "-- name: a\n-- name: b\n-- name: c\n-- name: d\n"),
        Source("engine/storage/sql/runs.sql", "-- name: a\n"),
    ]
    rules = 'RULES: Final = queries.load("rules")\nRULES.a\nRULES.gone\nload("rules").b\n'
    service = (
        "from engine.storage.rules import RULES as SQL\nSQL.c\n"
        "from engine.storage import rules\nrules.RULES.lost\nRULES.d\n"
    )
    modules = [Source("engine/storage/rules.py", rules), Source("engine/service/x.py", service)]
    found = [(finding.path, finding.line) for finding in query_faults(files, modules)]
    assert found == [
        ("engine/service/x.py", 4),
        ("engine/storage/rules.py", 3),
        ("engine/storage/sql/rules.sql", 4),
        ("engine/storage/sql/runs.sql", 1),
    ]


def test_a_dead_bound_is_found() -> None:
    """A constant that no module reads is found; one read by name or by attribute is not."""
    limits = Source("limits.py", "A: Final = 1\nB: Final = 2\nC: Final = 3\n")
    modules = [limits, Source("x.py", "limits.A\nfrom limits import B, C\nprint(B)\n")]
    assert [finding.line for finding in dead_limits(limits, modules)] == [3]
