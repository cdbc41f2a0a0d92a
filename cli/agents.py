"""Agents as people name them: by name, or by id."""

from __future__ import annotations

from uuid import UUID

from cli.connection import Failure
from client.api import Wakeful


def agent_id_of(api: Wakeful, text: str) -> str:
    """Return the id that `text` is or the agent in service of that name has; else `Failure`."""
    try:
        return str(UUID(text))
    except ValueError:
        agent = api.find_agent(text)
    if agent is None:
        raise Failure(f"there is no agent {text!r}")
    agent_id: str = agent["id"]
    return agent_id
