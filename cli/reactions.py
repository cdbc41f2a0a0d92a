"""`wakeful react`: an emoji for an issue or a comment."""

from __future__ import annotations

import click

from cli.connection import Failure, Found, calling, server_options
from cli.output import print_json
from cli.targets import only_one, target_options
from client.api import Target


@click.command()
@click.argument("emoji")
@target_options
@click.option("--remove", is_flag=True, help="Take your reaction back.")
@server_options
def react(
    found: Found, *, emoji: str, issue: str | None, comment: str | None, remove: bool
) -> None:
    """React with EMOJI to an issue or a comment."""
    only_one(issue, comment)
    name = issue or comment
    if name is None:
        raise Failure("name what to react to: --issue or --comment")
    with calling(found) as api:
        target: Target = "issues" if issue is not None else "comments"
        if not remove:
            print_json(api.react(target, name, emoji))
            return
        api.take_reaction_back(target, name, emoji)
    print_json({"emoji": emoji, "removed": True})
