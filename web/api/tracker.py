"""Who calls, workspaces, members, tokens and agents."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import tracker as ask
from engine.domain.views import Page
from engine.domain.views.tracker import (
    AgentView,
    MemberView,
    MeView,
    NewMemberView,
    NewTokenView,
    TokenView,
    WorkspaceView,
)
from web.routing import MEMBERS, Call, Routes, Scope
from web.schemas.inputs import Nothing, Paging
from web.schemas.tracker import (
    AgentChange,
    NewAgent,
    NewMember,
    NewToken,
    NewWorkspace,
    WorkspaceChange,
)

routes: Final = Routes("Workspaces and agents")
_CREATED: Final = (HTTPStatus.CREATED,)


@routes("GET", "/me", answers=MeView, scope=Scope.INSTANCE)
async def get_me(call: Call[Nothing]) -> Any:
    """Say who the token is, and which workspaces it opens."""
    return await call.read(ask.Me())


# --- Workspaces ---------------------------------------------------------------------------------


@routes("GET", "/workspaces", takes=Paging, answers=Page[WorkspaceView], scope=Scope.INSTANCE)
async def list_workspaces(call: Call[Paging]) -> Any:
    """List the caller's workspaces, by name."""
    return await call.read(ask.ListWorkspaces(**call.input.sent()))


@routes(
    "POST",
    "/workspaces",
    takes=NewWorkspace,
    answers=WorkspaceView,
    statuses=_CREATED,
    kinds=MEMBERS,
    scope=Scope.INSTANCE,
)
async def create_workspace(call: Call[NewWorkspace]) -> Any:
    """Make a workspace; the caller becomes its owner."""
    return await call.submit(ask.CreateWorkspace(**call.input.sent()))


@routes("GET", "/workspaces/{id}", answers=WorkspaceView, scope=Scope.INSTANCE)
async def get_workspace(call: Call[Nothing]) -> Any:
    """Return a workspace."""
    return await call.read(ask.GetWorkspace(workspace_id=call.id))


@routes(
    "PATCH",
    "/workspaces/{id}",
    takes=WorkspaceChange,
    answers=WorkspaceView,
    kinds=MEMBERS,
    scope=Scope.INSTANCE,
)
async def update_workspace(call: Call[WorkspaceChange]) -> Any:
    """Change a workspace; only the settings that are sent change."""
    return await call.submit(ask.UpdateWorkspace(workspace_id=call.id, **call.input.sent()))


@routes("DELETE", "/workspaces/{id}", kinds=MEMBERS, scope=Scope.INSTANCE)
async def delete_workspace(call: Call[Nothing]) -> None:
    """Remove a workspace with everything in it."""
    await call.submit(ask.DeleteWorkspace(workspace_id=call.id))


# --- Members ------------------------------------------------------------------------------------


@routes("GET", "/members", takes=Paging, answers=Page[MemberView])
async def list_members(call: Call[Paging]) -> Any:
    """List the members of the workspace, by name."""
    return await call.read(ask.ListMembers(workspace_id=call.workspace_id, **call.input.sent()))


@routes(
    "POST", "/members", takes=NewMember, answers=NewMemberView, statuses=_CREATED, kinds=MEMBERS
)
async def add_member(call: Call[NewMember]) -> Any:
    """Make a person a member; the token of a new person is shown this once."""
    return await call.submit(ask.AddMember(workspace_id=call.workspace_id, **call.input.sent()))


@routes("DELETE", "/members/{id}", kinds=MEMBERS)
async def remove_member(call: Call[Nothing]) -> None:
    """End a membership and the credentials that hang on it."""
    await call.submit(ask.RemoveMember(workspace_id=call.workspace_id, member_id=call.id))


# --- Tokens -------------------------------------------------------------------------------------


@routes("GET", "/tokens", takes=Paging, answers=Page[TokenView], kinds=MEMBERS)
async def list_tokens(call: Call[Paging]) -> Any:
    """List the caller's tokens, and for administrators the daemon tokens of the workspace."""
    return await call.read(ask.ListTokens(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/tokens", takes=NewToken, answers=NewTokenView, statuses=_CREATED, kinds=MEMBERS)
async def create_token(call: Call[NewToken]) -> Any:
    """Make a token; its text is shown this once."""
    return await call.submit(ask.CreateToken(workspace_id=call.workspace_id, **call.input.sent()))


@routes("DELETE", "/tokens/{id}", kinds=MEMBERS)
async def revoke_token(call: Call[Nothing]) -> None:
    """End a token now."""
    await call.submit(ask.RevokeToken(workspace_id=call.workspace_id, token_id=call.id))


# --- Agents -------------------------------------------------------------------------------------


@routes("GET", "/agents", takes=Paging, answers=Page[AgentView])
async def list_agents(call: Call[Paging]) -> Any:
    """List the agents that the caller may see, archived ones too, by name."""
    return await call.read(ask.ListAgents(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/agents", takes=NewAgent, answers=AgentView, statuses=_CREATED, kinds=MEMBERS)
async def create_agent(call: Call[NewAgent]) -> Any:
    """Make an agent of the caller."""
    return await call.submit(ask.CreateAgent(workspace_id=call.workspace_id, **call.input.sent()))


@routes("GET", "/agents/{id}", answers=AgentView)
async def get_agent(call: Call[Nothing]) -> Any:
    """Return an agent."""
    return await call.read(ask.GetAgent(workspace_id=call.workspace_id, agent_id=call.id))


@routes("PATCH", "/agents/{id}", takes=AgentChange, answers=AgentView, kinds=MEMBERS)
async def update_agent(call: Call[AgentChange]) -> Any:
    """Change an agent; what is not sent stays as it is."""
    command = ask.UpdateAgent(workspace_id=call.workspace_id, agent_id=call.id, **call.input.sent())
    return await call.submit(command)


@routes("POST", "/agents/{id}/archive", answers=AgentView, kinds=MEMBERS)
async def archive_agent(call: Call[Nothing]) -> Any:
    """Retire an agent; it gets no more work."""
    return await call.submit(ask.ArchiveAgent(workspace_id=call.workspace_id, agent_id=call.id))


@routes("POST", "/agents/{id}/unarchive", answers=AgentView, kinds=MEMBERS)
async def unarchive_agent(call: Call[Nothing]) -> Any:
    """Take a retired agent back into service."""
    return await call.submit(ask.UnarchiveAgent(workspace_id=call.workspace_id, agent_id=call.id))
