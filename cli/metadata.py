"""`wakeful issue metadata`: what programs keep with an issue."""

from __future__ import annotations

from typing import Any

import click

from cli.connection import Failure, Found, calling, server_options
from cli.output import print_json
from cli.values import value_of


@click.command("metadata")
@click.argument("issue", metavar="ISSUE")
@click.argument("values", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--remove", "removed", metavar="KEY", multiple=True, help="Take a key away.")
@server_options
def metadata(found: Found, issue: str, values: tuple[str, ...], removed: tuple[str, ...]) -> None:
    """Set keys of an issue's metadata, and print it; VALUE is JSON, or else a text."""
    patch = dict.fromkeys(removed) | dict(_pair(text) for text in values)
    with calling(found) as api:
        print_json(api.patch_metadata(issue, patch) if patch else api.issue(issue)["metadata"])


def _pair(text: str) -> tuple[str, Any]:
    """Return key and value. Raises `Failure`, also for null, which would remove the key."""
    key, equals, value = text.partition("=")
    if not equals:
        raise Failure(f"{text!r} is not KEY=VALUE")
    parsed = value_of(value)
    if parsed is None:
        raise Failure(f"metadata holds no null: --remove {key} takes the key away")
    return key, parsed
