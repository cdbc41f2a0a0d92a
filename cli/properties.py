"""`wakeful property`: fields of the workspace's own, and their values on issues."""

from __future__ import annotations

from typing import Any, Final

import click

from cli.catalogues import NAMED, entry_id_of
from cli.connection import Found, calling, server_options
from cli.keys import key_option
from cli.output import Format, field, output_option, page_options, print_json, print_page
from cli.values import value_of

_PROPERTIES: Final = {**NAMED, "TYPE": field("type"), "ARCHIVED": field("archived_at")}


@click.group("property")
def property_() -> None:
    """Make properties and set them on issues; PROPERTY is a name or an id."""


@property_.command("list")
@page_options
@output_option
@server_options
def list_properties(found: Found, output: Format, limit: int, offset: int) -> None:
    """List the properties, by name."""
    with calling(found) as api:
        page = api.entries("properties", limit=limit, offset=offset)
    print_page(page, output, _PROPERTIES)


@property_.command("create")
@click.argument("name")
@click.option("--type", "kind", default="text", show_default=True, help="What its values are.")
@click.option(
    "--option", "options", multiple=True, help="A choice of a select or multi_select; repeat it."
)
@key_option
@server_options
def create(
    found: Found, name: str, kind: str, options: tuple[str, ...], idempotency_key: str | None
) -> None:
    """Make a property."""
    config: dict[str, Any] = {"options": list(options)} if options else {}
    with calling(found) as api:
        made = api.create_entry(
            "properties", idempotency_key=idempotency_key, name=name, type=kind, config=config
        )
    print_json(made)


@property_.command("set")
@click.argument("issue", metavar="ISSUE")
@click.argument("property", metavar="PROPERTY")
@click.argument("value")
@server_options
def set_(found: Found, issue: str, property: str, value: str) -> None:  # noqa: A002 - click's name
    """Give an issue a value of a property; VALUE is JSON, or else a text."""
    parsed = value_of(value)
    with calling(found) as api:
        property_id = entry_id_of(api, "properties", property)
        api.set_property(issue, property_id, parsed)
    print_json({"issue": issue, "property_id": property_id, "value": parsed})


@property_.command("clear")
@click.argument("issue", metavar="ISSUE")
@click.argument("property", metavar="PROPERTY")
@server_options
def clear(found: Found, issue: str, property: str) -> None:  # noqa: A002 - click's name
    """Take the value of a property from an issue."""
    with calling(found) as api:
        property_id = entry_id_of(api, "properties", property)
        api.clear_property(issue, property_id)
    print_json({"issue": issue, "property_id": property_id, "cleared": True})
