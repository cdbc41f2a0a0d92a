"""The tables of docs/use/access.md, made of the matrix.

`.venv/bin/python -m tests.web.access_page` writes them; what stands above the mark in that page is
written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.web.access_matrix import MATRIX, PRIVATE, Row
from web.api import ROUTES
from web.routing import Route

PAGE: Final = Path(__file__).parents[2] / "docs/use/access.md"
MARK: Final = "<!-- From here on the page is made of tests/web/access_matrix.py. -->\n"
_COLUMNS: Final[Mapping[str, str]] = {
    "owner": "owner",
    "admin": "admin",
    "creator": "whose it is",
    "member": "member",
    "run": "run",
    "orphan": "run of nobody",
    "outsider": "outsider",
    "instance": "instance",
    "daemon": "daemon",
    "nobody": "no token",
}
_SUCCESS: Final = range(200, 300)


def tables() -> str:
    """Return everything below the mark."""
    return "\n".join([*_of_all(), *_of_private()]) + "\n"


def _of_all() -> Iterator[str]:
    for tag, routes in groupby(ROUTES, key=lambda route: route.tag):
        yield from _table(tag, ((route, MATRIX[route.name]) for route in routes))


def _of_private() -> Iterator[str]:
    rows = ((route, PRIVATE[route.name]) for route in ROUTES if route.name in PRIVATE)
    yield from _table("Where the agent is a private one of the creator", rows)


def _table(title: str, rows: Iterable[tuple[Route, Row]]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield _line("call", _COLUMNS.values())
    yield "|---" * (len(_COLUMNS) + 1) + "|"
    for route, row in rows:
        yield _line(f"{route.method} `{route.path}`", (_word(row[name]) for name in _COLUMNS))


def _line(first: str, cells: Iterable[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"


def _word(status: int) -> str:
    return "yes" if status in _SUCCESS else str(status)


if __name__ == "__main__":
    written = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(written + MARK + tables())
