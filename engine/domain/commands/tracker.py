"""What callers may ask of the tracker: who they are, and their workspaces, agents and issues.

Field names are the wire's (api.md, The tracker). Fields of a PATCH are `UNSET` when not sent. A
person is named by the id of the user everywhere but in `RemoveMember`, which takes a membership.
"""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import UNSET, Command, IssueCommand, Query, Unset
from engine.domain.records import Json

# --- Identity -----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Authenticate(Query):
    """Whose token has this SHA-256? Answers a `Principal`; asked before any caller is known."""

    token_hash: bytes


@attrs.frozen(kw_only=True)
class Me(Query):
    """Who am I, and which workspaces can I open?"""


@attrs.frozen(kw_only=True)
class Bootstrap(Command):
    """First start: a workspace, its owner and two tokens, unless there is a workspace already."""


# --- Workspaces ---------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListWorkspaces(Query):
    """The workspaces of the caller, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetWorkspace(Query):
    """The workspace `workspace_id`."""


@attrs.frozen(kw_only=True)
class FindWorkspace(Query):
    """The id of one of the caller's workspaces, by its slug or its id."""

    ref: str


@attrs.frozen(kw_only=True)
class CreateWorkspace(Command):
    """A new workspace; the caller becomes its owner."""

    name: str
    slug: str
    issue_prefix: str


@attrs.frozen(kw_only=True)
class UpdateWorkspace(Command):
    """Change `workspace_id`: a key of `settings` replaces that setting, null removes it."""

    name: str | Unset = UNSET
    settings: Json | Unset = UNSET


@attrs.frozen(kw_only=True)
class DeleteWorkspace(Command):
    """Remove `workspace_id` with everything in it."""


# --- Members ------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListMembers(Query):
    """The members of a workspace, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class AddMember(Command):
    """Make a person a member; a new person's token is answered once."""

    email: str
    name: str
    role: str


@attrs.frozen(kw_only=True)
class RemoveMember(Command):
    """End a membership and the credentials that hang on it."""

    member_id: UUID


# --- Tokens -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListTokens(Query):
    """The caller's tokens; an administrator sees every daemon token of the workspace."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class CreateToken(Command):
    """A new token of the caller, or for a daemon of the workspace; its text is answered once."""

    name: str
    kind: str
    expires_in_seconds: int | None = None


@attrs.frozen(kw_only=True)
class RevokeToken(Command):
    """End a token now."""

    token_id: UUID


# --- Agents -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListAgents(Query):
    """The agents of a workspace that the caller may see, archived ones too, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetAgent(Query):
    """One agent that the caller may see."""

    agent_id: UUID


@attrs.frozen(kw_only=True)
class CreateAgent(Command):
    """A new agent of the caller; `invokers` are the people whom a private agent admits."""

    name: str
    instructions: str = ""
    visibility: str = "workspace"
    invokers: tuple[UUID, ...] = ()
    runtime_id: UUID | None = None
    max_concurrent_tasks: int = 6


@attrs.frozen(kw_only=True)
class UpdateAgent(Command):
    """Change an agent; `invokers` replaces the whole list."""

    agent_id: UUID
    name: str | Unset = UNSET
    instructions: str | Unset = UNSET
    visibility: str | Unset = UNSET
    invokers: tuple[UUID, ...] | Unset = UNSET
    runtime_id: UUID | Unset | None = UNSET
    max_concurrent_tasks: int | Unset = UNSET


@attrs.frozen(kw_only=True)
class ArchiveAgent(Command):
    """Retire an agent; it gets no more work."""

    agent_id: UUID


@attrs.frozen(kw_only=True)
class UnarchiveAgent(Command):
    """Take a retired agent back into service."""

    agent_id: UUID


# --- Issues -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListIssues(Query):
    """The issues of a workspace, newest first; each filter narrows.

    `assignee` is the id of a user, an agent or a squad, `parent` that of an issue; `search` is
    literal, without regard to case, in title, description and identifier.
    """

    status: str | None = None
    category: str | None = None
    assignee: UUID | None = None
    parent: UUID | None = None
    project: UUID | None = None
    label: UUID | None = None
    search: str | None = None
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetIssue(Query):
    """One issue."""

    issue_id: UUID


@attrs.frozen(kw_only=True)
class FindIssue(Query):
    """The id of an issue, by its identifier in the workspace (`WF-12`) or its id."""

    ref: str


@attrs.frozen(kw_only=True)
class CreateIssue(Command):
    """A new issue; assigned to an agent, or to a squad that an agent leads, it queues a run."""

    title: str
    description: str = ""
    status: str = "todo"
    priority: str = "none"
    assignee_type: str | None = None
    assignee_id: UUID | None = None
    parent_id: UUID | None = None
    stage: int | None = None
    project_id: UUID | None = None
    start_date: date | None = None
    due_date: date | None = None
    metadata: Json = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class UpdateIssue(IssueCommand):
    """Change an issue; `metadata` replaces the whole object, a null assignee takes it away."""

    title: str | Unset = UNSET
    description: str | Unset = UNSET
    status: str | Unset = UNSET
    priority: str | Unset = UNSET
    assignee_type: str | Unset | None = UNSET
    assignee_id: UUID | Unset | None = UNSET
    parent_id: UUID | Unset | None = UNSET
    stage: int | Unset | None = UNSET
    project_id: UUID | Unset | None = UNSET
    start_date: date | Unset | None = UNSET
    due_date: date | Unset | None = UNSET
    metadata: Json | Unset = UNSET


@attrs.frozen(kw_only=True)
class DeleteIssue(IssueCommand):
    """Remove an issue with its comments and rules; its sub-issues stay, without a parent."""


@attrs.frozen(kw_only=True)
class AttachLabel(IssueCommand):
    """Give an issue a label."""

    label_id: UUID


@attrs.frozen(kw_only=True)
class DetachLabel(IssueCommand):
    """Take a label from an issue."""

    label_id: UUID


@attrs.frozen(kw_only=True)
class SetProperty(IssueCommand):
    """Give an issue a value of a property: JSON, judged by the type of the property."""

    property_id: UUID
    value: Any


@attrs.frozen(kw_only=True)
class ClearProperty(IssueCommand):
    """Take the value of a property from an issue."""

    property_id: UUID


@attrs.frozen(kw_only=True)
class PatchMetadata(IssueCommand):
    """Merge a patch into the metadata of an issue (RFC 7396); answers what it is then."""

    patch: Json


# --- Comments and timeline ----------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListComments(Query):
    """The comments of an issue, oldest first."""

    issue_id: UUID
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class CreateComment(IssueCommand):
    """Say something on an issue; agents that are mentioned or replied to get a run."""

    body: str
    parent_id: UUID | None = None


@attrs.frozen(kw_only=True)
class ListTimeline(Query):
    """The activities of an issue, newest first."""

    issue_id: UUID
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0
