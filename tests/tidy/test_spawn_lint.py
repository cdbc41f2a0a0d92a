"""WKF001: work outlives its caller only in the modules that count it (S-069, S-071)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

RULE: Final = "WKF001"
REMEDY: Final = "use spawn or run_sync of the engine, which count the work"
LOOKED_AT: Final = ("engine", "web")  # where work is counted; client and cli are other processes
FIXTURE: Final = "tests/tidy/fixtures/untracked_spawn.py"

# Who may start tasks and threads, and why its work is counted all the same.
APPROVED: Final = {
    "engine/actors/postoffice.py": "starts the task of an inbox, whose messages are counted",
    "engine/actors/spawning.py": "is spawn and run_sync: a token begins before the hand-over",
    "engine/app.py": "starts the services of the engine, which are infrastructure, not work",
    "engine/storage/database.py": "runs asyncpg's loop; the caller's token covers each unit",
    "web/exchange.py": "reads on while it answers, in a nursery that ends before the request does",
}

METHODS: Final = frozenset(
    (
        "start_soon",
        "spawn_system_task",
        "start_thread_soon",
        "create_task",
        "ensure_future",
        "run_in_executor",
        "to_thread",
        "start_new_thread",
    )
)
CLASSES: Final = {
    "threading": frozenset(("Thread", "Timer")),
    "concurrent.futures": frozenset(("ThreadPoolExecutor", "ProcessPoolExecutor")),
    "multiprocessing": frozenset(("Process", "Pool")),
}


def untracked(source: Source) -> Iterator[Finding]:
    """Find every mention of something that starts a task or a thread past the ledger."""
    for node in ast.walk(source.tree):
        for name in started(node):
            line = getattr(node, "lineno", 1)
            yield Finding(source.path, line, f"{RULE}: {name} starts uncounted work", REMEDY)


def started(node: ast.AST) -> Iterator[str]:
    """Yield what one node of the syntax tree mentions: an attribute or an imported name."""
    match node:
        case ast.Attribute(attr=name) if name in METHODS:
            yield name
        case ast.Attribute(value=owner, attr=name) if name in CLASSES.get(
            ast.unparse(owner), frozenset()
        ):
            yield name
        case ast.ImportFrom(module=str(module), names=names):
            for alias in names:
                is_class = alias.name in CLASSES.get(module, frozenset())
                if alias.name in METHODS or is_class or module == "trio.to_thread":
                    yield alias.name


def test_work_starts_only_where_it_is_counted() -> None:
    """S-071: outside the approved modules nothing in engine or web starts a task or a thread."""
    looked_at = (
        source for source in sources.python(under=LOOKED_AT) if source.path not in APPROVED
    )
    sources.expect_none(sources.findings(untracked, looked_at))


def test_every_uncounted_start_of_the_fixture_is_found() -> None:
    """S-069, S-071: the lint fails on a fixture, at each of its marked lines and at no other."""
    fixture = sources.read(FIXTURE)
    marked = {number for number, line in enumerate(fixture.lines, 1) if line.endswith(f"# {RULE}")}
    found = [finding.line for finding in sources.findings(untracked, [fixture])]
    assert sorted(found) == sorted(marked)
    assert len(marked) >= len(METHODS)


def test_what_is_approved_needs_it() -> None:
    """S-071: an approved module that exists does start tasks or threads, else it loses approval."""
    exist = [sources.read(path) for path in APPROVED if path in sources.files()]
    assert exist
    assert [source.path for source in exist if not list(untracked(source))] == []
