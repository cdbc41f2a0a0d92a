"""`wakeful status`: the statuses that issues can have."""

from __future__ import annotations

from typing import Final

import click

from cli.connection import Found, calling, server_options
from cli.keys import key_option
from cli.output import Format, field, output_option, page_options, print_json, print_page

_CATEGORIES: Final = ("backlog", "todo", "in_progress", "done", "closed")
_STATUSES: Final = {
    "KEY": field("key"),
    "NAME": field("name"),
    "CATEGORY": field("category"),
    "BUILT IN": field("is_system"),
    "ARCHIVED": field("archived_at"),
}


@click.group()
def status() -> None:
    """List statuses and make more of them, as an owner or admin."""


@status.command("list")
@page_options
@output_option
@server_options
def list_statuses(found: Found, output: Format, limit: int, offset: int) -> None:
    """List the statuses: the seven built-in ones, then the workspace's own."""
    with calling(found) as api:
        page = api.entries("statuses", limit=limit, offset=offset)
    print_page(page, output, _STATUSES)


@status.command("create")
@click.argument("key")
@click.option("--name", help="What people see.  [default: KEY]")
@click.option("--category", required=True, type=click.Choice(_CATEGORIES), help="What it means.")
@click.option("--color", help="As #rrggbb.")
@key_option
@server_options
def create(
    found: Found,
    *,
    key: str,
    name: str | None,
    category: str,
    color: str | None,
    idempotency_key: str | None,
) -> None:
    """Make a status; issues have its KEY, which never changes."""
    with calling(found) as api:
        made = api.create_entry(
            "statuses",
            idempotency_key=idempotency_key,
            key=key,
            name=name or key,
            category=category,
            color=color,
        )
    print_json(made)
