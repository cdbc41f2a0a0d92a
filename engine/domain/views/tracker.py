"""What the tracker answers: field names are the wire's (api.md, The tracker)."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

import attrs

from engine.domain.access import Visibility
from engine.domain.principal import PrincipalKind, Role
from engine.domain.records import Json, RunStatus

# --- Identity -----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class PersonView:
    """A person, whatever their workspaces."""

    user_id: UUID
    email: str
    name: str


@attrs.frozen(kw_only=True)
class ActingAgentView:
    """The agent as which a run acts."""

    id: UUID
    name: str


@attrs.frozen(kw_only=True)
class ActingRunView:
    """The run behind a run token."""

    id: UUID
    issue_id: UUID | None
    status: RunStatus


@attrs.frozen(kw_only=True)
class OpenWorkspaceView:
    """A workspace that the caller can open; `role` is that of the person behind the call."""

    id: UUID
    name: str
    slug: str
    issue_prefix: str
    role: Role | None


@attrs.frozen(kw_only=True)
class MeView:
    """Who calls; what the credential does not have is null."""

    kind: PrincipalKind
    member: PersonView | None
    agent: ActingAgentView | None
    run: ActingRunView | None
    workspaces: tuple[OpenWorkspaceView, ...]
    instance_admin: bool


@attrs.frozen(kw_only=True)
class BootstrapView:
    """What the first start made; the tokens exist nowhere else."""

    workspace_id: UUID
    workspace: str
    user_id: UUID
    member_token: str
    daemon_token: str


# --- Workspaces, members, tokens ----------------------------------------------------------------


@attrs.frozen(kw_only=True)
class WorkspaceView:
    """A workspace."""

    id: UUID
    name: str
    slug: str
    issue_prefix: str
    settings: Json
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class MemberView:
    """A membership with its person."""

    id: UUID
    user_id: UUID
    email: str
    name: str
    role: Role
    created_at: datetime


@attrs.frozen(kw_only=True)
class NewMemberView(MemberView):
    """A membership just made; `token` is shown this once, null for a person known already."""

    token: str | None


@attrs.frozen(kw_only=True)
class TokenView:
    """A token without its text; `workspace_id` is that of a daemon token."""

    id: UUID
    name: str
    kind: str
    workspace_id: UUID | None
    expires_at: datetime | None
    created_at: datetime


@attrs.frozen(kw_only=True)
class NewTokenView(TokenView):
    """A token just made; `token` is shown this once."""

    token: str


# --- Agents -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class RuntimeView:
    """Where an agent runs; `status` is online or offline."""

    id: UUID
    name: str
    provider: str
    status: str
    last_seen_at: datetime | None


@attrs.frozen(kw_only=True)
class AgentView:
    """An agent; `status` is offline, working or idle, `invokers` are ids of users."""

    id: UUID
    workspace_id: UUID
    name: str
    instructions: str
    visibility: Visibility
    owner_id: UUID
    invokers: tuple[UUID, ...]
    runtime_id: UUID | None
    runtime: RuntimeView | None
    status: str
    max_concurrent_tasks: int
    archived_at: datetime | None
    created_at: datetime
    updated_at: datetime


# --- Issues and timeline ------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class IssueLabelView:
    """A label that an issue has."""

    id: UUID
    name: str
    color: str | None


@attrs.frozen(kw_only=True)
class IssueView:
    """An issue; `labels` are in the order of their names, `properties` by the id of each."""

    id: UUID
    workspace_id: UUID
    identifier: str
    number: int
    title: str
    description: str
    status: str
    category: str | None
    priority: str
    assignee_type: str | None
    assignee_id: UUID | None
    creator_type: str
    creator_id: UUID | None
    parent_id: UUID | None
    stage: int | None
    project_id: UUID | None
    start_date: date | None
    due_date: date | None
    labels: tuple[IssueLabelView, ...]
    properties: Json
    metadata: Json
    revision: int
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class ActivityView:
    """One entry of a timeline."""

    id: UUID
    action: str
    actor_type: str
    actor_id: UUID | None
    details: Json
    created_at: datetime
