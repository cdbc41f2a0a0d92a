"""The catalogues of a workspace: statuses, squads, labels, properties, projects."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import UNSET, Unset
from engine.domain.commands import catalogue as ask
from engine.domain.views import Page
from engine.domain.views.catalogue import (
    LabelView,
    ProjectView,
    PropertyView,
    SquadView,
    StatusView,
)
from web.routing import MEMBERS, Call, Routes
from web.schemas.catalogue import (
    LabelChange,
    NewLabel,
    NewProject,
    NewProperty,
    NewSquad,
    NewStatus,
    Participant,
    ProjectChange,
    PropertyChange,
    SquadChange,
    StatusChange,
)
from web.schemas.inputs import Nothing, Paging

routes: Final = Routes("Catalogues")
_CREATED: Final = (HTTPStatus.CREATED,)


# --- Statuses -----------------------------------------------------------------------------------


@routes("GET", "/statuses", takes=Paging, answers=Page[StatusView])
async def list_statuses(call: Call[Paging]) -> Any:
    """List the statuses: the seven built-in ones, then the workspace's own, archived ones too."""
    return await call.read(ask.ListStatuses(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/statuses", takes=NewStatus, answers=StatusView, statuses=_CREATED, kinds=MEMBERS)
async def create_status(call: Call[NewStatus]) -> Any:
    """Make a status; for owners and admins."""
    return await call.submit(ask.CreateStatus(workspace_id=call.workspace_id, **call.input.sent()))


@routes("GET", "/statuses/{id}", answers=StatusView)
async def get_status(call: Call[Nothing]) -> Any:
    """Return a status of the workspace's own."""
    return await call.read(ask.GetStatus(workspace_id=call.workspace_id, status_id=call.id))


@routes("PATCH", "/statuses/{id}", takes=StatusChange, answers=StatusView, kinds=MEMBERS)
async def update_status(call: Call[StatusChange]) -> Any:
    """Change a status; its key and category never change."""
    command = ask.UpdateStatus(
        workspace_id=call.workspace_id, status_id=call.id, **call.input.sent()
    )
    return await call.submit(command)


@routes("POST", "/statuses/{id}/archive", answers=StatusView, kinds=MEMBERS)
async def archive_status(call: Call[Nothing]) -> Any:
    """Retire a status: issues keep it, none gets it any more."""
    return await call.submit(ask.ArchiveStatus(workspace_id=call.workspace_id, status_id=call.id))


@routes("POST", "/statuses/{id}/unarchive", answers=StatusView, kinds=MEMBERS)
async def unarchive_status(call: Call[Nothing]) -> Any:
    """Take a retired status back."""
    return await call.submit(ask.UnarchiveStatus(workspace_id=call.workspace_id, status_id=call.id))


# --- Squads -------------------------------------------------------------------------------------


@routes("GET", "/squads", takes=Paging, answers=Page[SquadView])
async def list_squads(call: Call[Paging]) -> Any:
    """List the squads, archived ones too, by name."""
    return await call.read(ask.ListSquads(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/squads", takes=NewSquad, answers=SquadView, statuses=_CREATED, kinds=MEMBERS)
async def create_squad(call: Call[NewSquad]) -> Any:
    """Make a squad; what is assigned to it, its leader runs."""
    return await call.submit(ask.CreateSquad(workspace_id=call.workspace_id, **_squad(call)))


@routes("GET", "/squads/{id}", answers=SquadView)
async def get_squad(call: Call[Nothing]) -> Any:
    """Return a squad."""
    return await call.read(ask.GetSquad(workspace_id=call.workspace_id, squad_id=call.id))


@routes("PATCH", "/squads/{id}", takes=SquadChange, answers=SquadView, kinds=MEMBERS)
async def update_squad(call: Call[SquadChange]) -> Any:
    """Change a squad; what is not sent stays as it is."""
    command = ask.UpdateSquad(workspace_id=call.workspace_id, squad_id=call.id, **_squad(call))
    return await call.submit(command)


@routes("POST", "/squads/{id}/archive", answers=SquadView, kinds=MEMBERS)
async def archive_squad(call: Call[Nothing]) -> Any:
    """Retire a squad: issues keep it, none is assigned to it any more."""
    return await call.submit(ask.ArchiveSquad(workspace_id=call.workspace_id, squad_id=call.id))


@routes("POST", "/squads/{id}/unarchive", answers=SquadView, kinds=MEMBERS)
async def unarchive_squad(call: Call[Nothing]) -> Any:
    """Take a retired squad back."""
    return await call.submit(ask.UnarchiveSquad(workspace_id=call.workspace_id, squad_id=call.id))


def _squad(call: Call[Any]) -> dict[str, Any]:
    """Return the fields of a squad that were sent, its members as the command has them."""
    sent: dict[str, Any] = call.input.sent()
    members: tuple[Participant, ...] | Unset = sent.get("members", UNSET)
    if members is UNSET:
        return sent
    return {**sent, "members": tuple(ask.SquadMember(type=m.type, id=m.id) for m in members)}


# --- Labels -------------------------------------------------------------------------------------


@routes("GET", "/labels", takes=Paging, answers=Page[LabelView])
async def list_labels(call: Call[Paging]) -> Any:
    """List the labels, by name."""
    return await call.read(ask.ListLabels(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/labels", takes=NewLabel, answers=LabelView, statuses=_CREATED)
async def create_label(call: Call[NewLabel]) -> Any:
    """Make a label."""
    return await call.submit(ask.CreateLabel(workspace_id=call.workspace_id, **call.input.sent()))


@routes("GET", "/labels/{id}", answers=LabelView)
async def get_label(call: Call[Nothing]) -> Any:
    """Return a label."""
    return await call.read(ask.GetLabel(workspace_id=call.workspace_id, label_id=call.id))


@routes("PATCH", "/labels/{id}", takes=LabelChange, answers=LabelView, kinds=MEMBERS)
async def update_label(call: Call[LabelChange]) -> Any:
    """Change a label, wherever it is attached."""
    command = ask.UpdateLabel(workspace_id=call.workspace_id, label_id=call.id, **call.input.sent())
    return await call.submit(command)


@routes("DELETE", "/labels/{id}", kinds=MEMBERS)
async def delete_label(call: Call[Nothing]) -> None:
    """Remove a label, also from every issue that has it."""
    await call.submit(ask.DeleteLabel(workspace_id=call.workspace_id, label_id=call.id))


# --- Properties ---------------------------------------------------------------------------------


@routes("GET", "/properties", takes=Paging, answers=Page[PropertyView])
async def list_properties(call: Call[Paging]) -> Any:
    """List the properties, archived ones too, by name."""
    return await call.read(ask.ListProperties(workspace_id=call.workspace_id, **call.input.sent()))


@routes(
    "POST",
    "/properties",
    takes=NewProperty,
    answers=PropertyView,
    statuses=_CREATED,
    kinds=MEMBERS,
)
async def create_property(call: Call[NewProperty]) -> Any:
    """Make a property."""
    return await call.submit(
        ask.CreateProperty(workspace_id=call.workspace_id, **call.input.sent())
    )


@routes("GET", "/properties/{id}", answers=PropertyView)
async def get_property(call: Call[Nothing]) -> Any:
    """Return a property."""
    return await call.read(ask.GetProperty(workspace_id=call.workspace_id, property_id=call.id))


@routes("PATCH", "/properties/{id}", takes=PropertyChange, answers=PropertyView, kinds=MEMBERS)
async def update_property(call: Call[PropertyChange]) -> Any:
    """Change a property; its type never changes, and values stay as they are."""
    command = ask.UpdateProperty(
        workspace_id=call.workspace_id, property_id=call.id, **call.input.sent()
    )
    return await call.submit(command)


@routes("POST", "/properties/{id}/archive", answers=PropertyView, kinds=MEMBERS)
async def archive_property(call: Call[Nothing]) -> Any:
    """Retire a property: values stay, none is set any more."""
    return await call.submit(
        ask.ArchiveProperty(workspace_id=call.workspace_id, property_id=call.id)
    )


@routes("POST", "/properties/{id}/unarchive", answers=PropertyView, kinds=MEMBERS)
async def unarchive_property(call: Call[Nothing]) -> Any:
    """Take a retired property back."""
    return await call.submit(
        ask.UnarchiveProperty(workspace_id=call.workspace_id, property_id=call.id)
    )


# --- Projects -----------------------------------------------------------------------------------


@routes("GET", "/projects", takes=Paging, answers=Page[ProjectView])
async def list_projects(call: Call[Paging]) -> Any:
    """List the projects, archived ones too, by name."""
    return await call.read(ask.ListProjects(workspace_id=call.workspace_id, **call.input.sent()))


@routes(
    "POST", "/projects", takes=NewProject, answers=ProjectView, statuses=_CREATED, kinds=MEMBERS
)
async def create_project(call: Call[NewProject]) -> Any:
    """Make a project."""
    return await call.submit(ask.CreateProject(workspace_id=call.workspace_id, **call.input.sent()))


@routes("GET", "/projects/{id}", answers=ProjectView)
async def get_project(call: Call[Nothing]) -> Any:
    """Return a project."""
    return await call.read(ask.GetProject(workspace_id=call.workspace_id, project_id=call.id))


@routes("PATCH", "/projects/{id}", takes=ProjectChange, answers=ProjectView, kinds=MEMBERS)
async def update_project(call: Call[ProjectChange]) -> Any:
    """Change a project; what is not sent stays as it is."""
    command = ask.UpdateProject(
        workspace_id=call.workspace_id, project_id=call.id, **call.input.sent()
    )
    return await call.submit(command)


@routes("POST", "/projects/{id}/archive", answers=ProjectView, kinds=MEMBERS)
async def archive_project(call: Call[Nothing]) -> Any:
    """Retire a project: its issues stay in it, no other issue gets in."""
    return await call.submit(ask.ArchiveProject(workspace_id=call.workspace_id, project_id=call.id))


@routes("POST", "/projects/{id}/unarchive", answers=ProjectView, kinds=MEMBERS)
async def unarchive_project(call: Call[Nothing]) -> Any:
    """Take a retired project back."""
    return await call.submit(
        ask.UnarchiveProject(workspace_id=call.workspace_id, project_id=call.id)
    )
