"""What the catalogues of a workspace answer: field names are the wire's (api.md, The tracker)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.properties import PropertyType
from engine.domain.records import Json


@attrs.frozen(kw_only=True)
class StatusView:
    """A status. The built-in ones are no rows: they have no id and no times."""

    id: UUID | None
    workspace_id: UUID
    key: str
    name: str
    category: str
    color: str | None
    is_system: bool
    archived_at: datetime | None
    created_at: datetime | None
    updated_at: datetime | None


@attrs.frozen(kw_only=True)
class SquadMemberView:
    """A member of a squad: `id` is that of a user for `type` member, else that of an agent."""

    type: str
    id: UUID


@attrs.frozen(kw_only=True)
class SquadView:
    """A squad; people who have left the workspace are not among its members."""

    id: UUID
    workspace_id: UUID
    name: str
    leader_id: UUID
    members: tuple[SquadMemberView, ...]
    instructions: str
    archived_at: datetime | None
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class LabelView:
    """A label."""

    id: UUID
    workspace_id: UUID
    name: str
    color: str | None
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class PropertyView:
    """A property; `config` has the `options` of a select or multi_select."""

    id: UUID
    workspace_id: UUID
    name: str
    type: PropertyType
    config: Json
    archived_at: datetime | None
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class ProjectView:
    """A project."""

    id: UUID
    workspace_id: UUID
    name: str
    description: str
    archived_at: datetime | None
    created_at: datetime
    updated_at: datetime
