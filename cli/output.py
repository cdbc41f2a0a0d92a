"""What commands print: JSON or a table on standard output, messages on standard error (W-203)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

import click

from client import limits

F = TypeVar("F", bound=Callable[..., Any])
Cell: TypeAlias = Callable[[Mapping[str, Any]], object]
Columns: TypeAlias = Mapping[str, Cell]

_GAP: Final = "  "


class Format(StrEnum):
    """How data is printed."""

    JSON = "json"
    TABLE = "table"


def output_option(command: F) -> F:
    """Give a command `--output`; it receives `output`, a `Format`."""
    option = click.option(
        "--output",
        type=click.Choice(list(Format), case_sensitive=False),
        default=Format.JSON,
        show_default=True,
        help="How to print the data.",
    )
    return option(command)


def page_options(command: F) -> F:
    """Give a command `--limit` and `--offset`: which part of a list it prints."""
    for option in (
        click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many."),
        click.option(
            "--limit", type=click.IntRange(1, limits.PAGE_MAX), default=50, show_default=True
        ),
    ):
        command = option(command)
    return command


def field(name: str) -> Cell:
    """Return the cell that shows a field as it stands."""
    return lambda item: item[name]


def print_json(data: object) -> None:
    """Print data as JSON for people and programs."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def print_items(items: Iterable[Mapping[str, Any]], columns: Columns) -> None:
    """Print a table with its header line; no item is a header line alone."""
    rows = [[_text(cell(item)) for cell in columns.values()] for item in items]
    for line in _aligned([list(columns), *rows]):
        click.echo(line)


def print_page(page: Mapping[str, Any], output: Format, columns: Columns) -> None:
    """Print one part of a list; a table is followed by how much more there is."""
    if output is Format.JSON:
        print_json(page)
        return
    items = page["items"]
    print_items(items, columns)
    if page["total"] > len(items):
        note(f"{len(items)} of {page['total']}")


def note(text: str) -> None:
    """Say something that is no data."""
    click.echo(text, err=True)


def _text(value: object) -> str:
    """Return a cell on one line; nothing is a dash, yes and no are words."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case _:
            return " ".join(str(value).split())


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield _GAP.join(cells).rstrip()
