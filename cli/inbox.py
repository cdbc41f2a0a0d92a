"""`wakeful inbox`: what asks for a person's attention."""

from __future__ import annotations

from typing import Final

import click

from cli.connection import Found, calling, known, server_options
from cli.output import Format, field, output_option, page_options, print_json, print_page

_ITEMS: Final = {
    "ITEM": field("id"),
    "TYPE": field("type"),
    "CREATED": field("created_at"),
    "READ": field("read_at"),
    "TITLE": field("title"),
}


@click.group(invoke_without_command=True)
@click.option("--unread", is_flag=True, help="Only what is not marked as read.")
@page_options
@output_option
@server_options
def inbox(found: Found, *, output: Format, unread: bool, limit: int, offset: int) -> None:
    """List what asks for your attention, newest first; it takes a person's token."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    with calling(found) as api:
        page = api.inbox(unread="true" if unread else None, limit=limit, offset=offset)
    print_page(page, output, _ITEMS)


@inbox.command("read")
@click.argument("item", metavar="ITEM")
@server_options
def read(found: Found, item: str) -> None:
    """Mark an item as read."""
    with calling(found) as api, known("inbox item"):
        print_json(api.read_inbox_item(item))
