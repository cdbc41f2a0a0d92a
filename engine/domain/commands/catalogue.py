"""What callers may ask of a workspace's catalogues: statuses, squads, labels, properties, projects.

Field names are the wire's (api.md, The tracker). Fields of a PATCH are `UNSET` when not sent.
"""

from __future__ import annotations

from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import UNSET, Command, Query, Unset
from engine.domain.records import Json

# --- Statuses -----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListStatuses(Query):
    """The statuses of a workspace: the seven built-in ones, then its own, archived ones too."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetStatus(Query):
    """One status of the workspace's own."""

    status_id: UUID


@attrs.frozen(kw_only=True)
class CreateStatus(Command):
    """A new status; `key` is what issues have as their status."""

    key: str
    name: str
    category: str
    color: str | None = None


@attrs.frozen(kw_only=True)
class UpdateStatus(Command):
    """Change a status; its key and its category stay, and another `category` is refused."""

    status_id: UUID
    name: str | Unset = UNSET
    category: str | Unset = UNSET
    color: str | Unset | None = UNSET


@attrs.frozen(kw_only=True)
class ArchiveStatus(Command):
    """Retire a status: issues that have it keep it, no other issue gets it."""

    status_id: UUID


@attrs.frozen(kw_only=True)
class UnarchiveStatus(Command):
    """Take a retired status back."""

    status_id: UUID


# --- Squads -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class SquadMember:
    """A `type` member with the id of a user, or a `type` agent with its id."""

    type: str
    id: UUID


@attrs.frozen(kw_only=True)
class ListSquads(Query):
    """The squads of a workspace, archived ones too, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetSquad(Query):
    """One squad."""

    squad_id: UUID


@attrs.frozen(kw_only=True)
class CreateSquad(Command):
    """A new squad; its leader, an agent, runs what is assigned to the squad."""

    name: str
    leader_id: UUID
    members: tuple[SquadMember, ...] = ()
    instructions: str = ""


@attrs.frozen(kw_only=True)
class UpdateSquad(Command):
    """Change a squad; `members` replaces the whole list."""

    squad_id: UUID
    name: str | Unset = UNSET
    leader_id: UUID | Unset = UNSET
    members: tuple[SquadMember, ...] | Unset = UNSET
    instructions: str | Unset = UNSET


@attrs.frozen(kw_only=True)
class ArchiveSquad(Command):
    """Retire a squad: nothing more is assigned to it."""

    squad_id: UUID


@attrs.frozen(kw_only=True)
class UnarchiveSquad(Command):
    """Take a retired squad back."""

    squad_id: UUID


# --- Labels -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListLabels(Query):
    """The labels of a workspace, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetLabel(Query):
    """One label."""

    label_id: UUID


@attrs.frozen(kw_only=True)
class CreateLabel(Command):
    """A new label."""

    name: str
    color: str | None = None


@attrs.frozen(kw_only=True)
class UpdateLabel(Command):
    """Change a label, wherever it is attached."""

    label_id: UUID
    name: str | Unset = UNSET
    color: str | Unset | None = UNSET


@attrs.frozen(kw_only=True)
class DeleteLabel(Command):
    """Remove a label, also from every issue that has it."""

    label_id: UUID


# --- Properties ---------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListProperties(Query):
    """The properties of a workspace, archived ones too, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetProperty(Query):
    """One property."""

    property_id: UUID


@attrs.frozen(kw_only=True)
class CreateProperty(Command):
    """A new property; `config` has the `options` of a select or multi_select."""

    name: str
    type: str = "text"
    config: Json = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class UpdateProperty(Command):
    """Change a property; its type stays, and so do values whose option goes."""

    property_id: UUID
    name: str | Unset = UNSET
    config: Json | Unset = UNSET


@attrs.frozen(kw_only=True)
class ArchiveProperty(Command):
    """Retire a property: values stay on issues and can be taken away, none is set."""

    property_id: UUID


@attrs.frozen(kw_only=True)
class UnarchiveProperty(Command):
    """Take a retired property back."""

    property_id: UUID


# --- Projects -----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListProjects(Query):
    """The projects of a workspace, archived ones too, by name."""

    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetProject(Query):
    """One project."""

    project_id: UUID


@attrs.frozen(kw_only=True)
class CreateProject(Command):
    """A new project."""

    name: str
    description: str = ""


@attrs.frozen(kw_only=True)
class UpdateProject(Command):
    """Change a project."""

    project_id: UUID
    name: str | Unset = UNSET
    description: str | Unset = UNSET


@attrs.frozen(kw_only=True)
class ArchiveProject(Command):
    """Retire a project: its issues stay in it, no other issue gets in."""

    project_id: UUID


@attrs.frozen(kw_only=True)
class UnarchiveProject(Command):
    """Take a retired project back."""

    project_id: UUID
