"""`wakeful squad`: agents and people under a leading agent."""

from __future__ import annotations

from typing import Final

import click

from cli.agents import agent_id_of
from cli.catalogues import NAMED
from cli.connection import Found, calling, server_options
from cli.keys import key_option
from cli.output import Format, field, output_option, page_options, print_json, print_page

_SQUADS: Final = {
    **NAMED,
    "LEADER": field("leader_id"),
    "MEMBERS": lambda squad: len(squad["members"]),
    "ARCHIVED": field("archived_at"),
}


@click.group()
def squad() -> None:
    """Make squads; what is assigned to one, its leader runs."""


@squad.command("list")
@page_options
@output_option
@server_options
def list_squads(found: Found, output: Format, limit: int, offset: int) -> None:
    """List the squads, by name."""
    with calling(found) as api:
        page = api.entries("squads", limit=limit, offset=offset)
    print_page(page, output, _SQUADS)


@squad.command("create")
@click.argument("name")
@click.option("--leader", required=True, help="The agent (name or id) that leads it.")
@click.option("--agent", "agents", multiple=True, help="An agent in it; may be repeated.")
@click.option("--user", "users", multiple=True, help="The id of a user in it; may be repeated.")
@click.option("--instructions", default="", help="What its leader is told besides.")
@key_option
@server_options
def create(
    found: Found,
    *,
    name: str,
    leader: str,
    agents: tuple[str, ...],
    users: tuple[str, ...],
    instructions: str,
    idempotency_key: str | None,
) -> None:
    """Make a squad."""
    with calling(found) as api:
        leader_id = agent_id_of(api, leader)
        in_it = [{"type": "agent", "id": agent_id_of(api, agent)} for agent in agents]
        made = api.create_entry(
            "squads",
            idempotency_key=idempotency_key,
            name=name,
            leader_id=leader_id,
            members=[*in_it, *({"type": "member", "id": user} for user in users)],
            instructions=instructions,
        )
    print_json(made)
