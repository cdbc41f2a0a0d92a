"""`wakeful label`: labels, and which issues have them."""

from __future__ import annotations

import click

from cli.catalogues import NAMED, entry_id_of
from cli.connection import Found, calling, server_options
from cli.keys import key_option
from cli.output import Format, field, output_option, page_options, print_json, print_page


@click.group()
def label() -> None:
    """Make labels and attach them to issues; LABEL is a name or an id."""


@label.command("list")
@page_options
@output_option
@server_options
def list_labels(found: Found, output: Format, limit: int, offset: int) -> None:
    """List the labels, by name."""
    with calling(found) as api:
        page = api.entries("labels", limit=limit, offset=offset)
    print_page(page, output, {**NAMED, "COLOR": field("color")})


@label.command("create")
@click.argument("name")
@click.option("--color", help="As #rrggbb.")
@key_option
@server_options
def create(found: Found, name: str, color: str | None, idempotency_key: str | None) -> None:
    """Make a label."""
    with calling(found) as api:
        print_json(
            api.create_entry("labels", idempotency_key=idempotency_key, name=name, color=color)
        )


@label.command("attach")
@click.argument("issue", metavar="ISSUE")
@click.argument("label", metavar="LABEL")
@server_options
def attach(found: Found, issue: str, label: str) -> None:
    """Give an issue a label."""
    with calling(found) as api:
        label_id = entry_id_of(api, "labels", label)
        api.attach_label(issue, label_id)
    print_json({"issue": issue, "label_id": label_id, "attached": True})


@label.command("detach")
@click.argument("issue", metavar="ISSUE")
@click.argument("label", metavar="LABEL")
@server_options
def detach(found: Found, issue: str, label: str) -> None:
    """Take a label from an issue."""
    with calling(found) as api:
        label_id = entry_id_of(api, "labels", label)
        api.detach_label(issue, label_id)
    print_json({"issue": issue, "label_id": label_id, "attached": False})
