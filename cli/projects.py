"""`wakeful project`: what issues can be part of."""

from __future__ import annotations

import click

from cli.catalogues import NAMED
from cli.connection import Found, calling, server_options
from cli.keys import key_option
from cli.output import Format, field, output_option, page_options, print_json, print_page


@click.group()
def project() -> None:
    """Make projects; `wakeful issue create --project` puts issues into them."""


@project.command("list")
@page_options
@output_option
@server_options
def list_projects(found: Found, output: Format, limit: int, offset: int) -> None:
    """List the projects, by name."""
    with calling(found) as api:
        page = api.entries("projects", limit=limit, offset=offset)
    print_page(page, output, {**NAMED, "ARCHIVED": field("archived_at")})


@project.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is about.")
@key_option
@server_options
def create(found: Found, name: str, description: str, idempotency_key: str | None) -> None:
    """Make a project."""
    with calling(found) as api:
        made = api.create_entry(
            "projects", idempotency_key=idempotency_key, name=name, description=description
        )
    print_json(made)
