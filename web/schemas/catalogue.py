"""Inputs of statuses, squads, labels, properties and projects (api.md, The tracker)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from web.schemas.inputs import Id, Input, listed, unsent


class NewStatus(Input):
    """A status to make; issues have its `key`."""

    key: str
    name: str
    category: str
    color: str | None = None


class StatusChange(Input):
    """What changes about a status; its category never does."""

    name: str = unsent()
    category: str = unsent()
    color: str | None = unsent()


class Participant(Input):
    """A member of a squad: a member by the id of the user, or an agent."""

    type: str
    id: Id


Participants = Annotated[tuple[Participant, ...], BeforeValidator(listed("members"))]


class NewSquad(Input):
    """A squad to make, led by an agent."""

    name: str
    leader_id: Id
    members: Participants = ()
    instructions: str = ""


class SquadChange(Input):
    """What changes about a squad; `members` replaces the whole list."""

    name: str = unsent()
    leader_id: Id = unsent()
    members: Participants = unsent()
    instructions: str = unsent()


class NewLabel(Input):
    """A label to make."""

    name: str
    color: str | None = None


class LabelChange(Input):
    """What changes about a label."""

    name: str = unsent()
    color: str | None = unsent()


class NewProperty(Input):
    """A property to make; `config` has the `options` of a select or multi_select."""

    name: str
    type: str = "text"
    config: dict[str, Any] = Field(default_factory=dict)


class PropertyChange(Input):
    """What changes about a property; its type never does."""

    name: str = unsent()
    config: dict[str, Any] = unsent()


class NewProject(Input):
    """A project to make."""

    name: str
    description: str = ""


class ProjectChange(Input):
    """What changes about a project."""

    name: str = unsent()
    description: str = unsent()


class PropertyValue(Input):
    """A value for a property of an issue, of the property's type."""

    value: Any


class MergePatch(Input):
    """A merge patch (RFC 7396): the body itself, any object; null removes a key."""

    model_config = ConfigDict(extra="allow")

    def sent(self) -> dict[str, Any]:
        """Return the patch as the field of a command."""
        return {"patch": dict(self.model_extra or {})}
