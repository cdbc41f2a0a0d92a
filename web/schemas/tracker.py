"""Inputs of workspaces, members, tokens and agents (api.md, The tracker)."""

from __future__ import annotations

from typing import Any

from web.schemas.inputs import Id, Ids, Input, Whole, unsent


class NewWorkspace(Input):
    """A workspace to make."""

    name: str
    slug: str
    issue_prefix: str


class WorkspaceChange(Input):
    """What changes about a workspace; a setting that is null is removed."""

    name: str = unsent()
    settings: dict[str, Any] = unsent()


class NewMember(Input):
    """A person to make a member."""

    email: str
    name: str
    role: str


class NewToken(Input):
    """A token to make."""

    name: str
    kind: str
    expires_in_seconds: Whole | None = None


class NewAgent(Input):
    """An agent to make."""

    name: str
    instructions: str = ""
    visibility: str = "workspace"
    invokers: Ids = ()
    runtime_id: Id | None = None
    max_concurrent_tasks: Whole = 6


class AgentChange(Input):
    """What changes about an agent; `invokers` replaces the whole list."""

    name: str = unsent()
    instructions: str = unsent()
    visibility: str = unsent()
    invokers: Ids = unsent()
    runtime_id: Id | None = unsent()
    max_concurrent_tasks: Whole = unsent()
