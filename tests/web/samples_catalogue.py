"""A sound request for every route about statuses, squads, labels, properties and projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engine.domain.commands import catalogue as ask
from engine.domain.commands.tracker import (
    AttachLabel,
    ClearProperty,
    DetachLabel,
    PatchMetadata,
    SetProperty,
)
from engine.domain.views import Page
from engine.domain.views import catalogue as views
from tests.web.sample import IN_PLACE, ON_ISSUE, PAGE, PART, THING, Sample
from tests.web.stand_in import AGENT, USER

_STATUS: Final = {**IN_PLACE, "status_id": THING}
_SQUAD: Final = {**IN_PLACE, "squad_id": THING}
_LABEL: Final = {**IN_PLACE, "label_id": THING}
_PROPERTY: Final = {**IN_PLACE, "property_id": THING}
_PROJECT: Final = {**IN_PLACE, "project_id": THING}
_STATUS_FIELDS: Final[Mapping[str, Any]] = {
    "name": "In QA",
    "category": "in_progress",
    "color": "#a0b1c2",
}
_SQUAD_FIELDS: Final[Mapping[str, Any]] = {
    "name": "Ops",
    "leader_id": str(AGENT),
    "members": [{"type": "member", "id": str(USER)}],
    "instructions": "Delegate.",
}
_SQUAD_PARSED: Final[Mapping[str, Any]] = {
    **_SQUAD_FIELDS,
    "leader_id": AGENT,
    "members": (ask.SquadMember(type="member", id=USER),),
}
_LABEL_FIELDS: Final[Mapping[str, Any]] = {"name": "bug", "color": "#ff0000"}
_OPTIONS: Final[Mapping[str, Any]] = {"config": {"options": ["low", "high"]}}
_PROJECT_FIELDS: Final[Mapping[str, Any]] = {"name": "Ark", "description": "Two of each."}

STATUSES: Final = (
    Sample(
        "GET",
        f"/statuses{PAGE}",
        {},
        ask.ListStatuses(**IN_PLACE, **PART),
        Page[views.StatusView],
    ),
    Sample(
        "POST",
        "/statuses",
        {"key": "in_qa", **_STATUS_FIELDS},
        ask.CreateStatus(**IN_PLACE, key="in_qa", **_STATUS_FIELDS),
        views.StatusView,
        201,
    ),
    Sample("GET", f"/statuses/{THING}", {}, ask.GetStatus(**_STATUS), views.StatusView),
    Sample(
        "PATCH",
        f"/statuses/{THING}",
        _STATUS_FIELDS,
        ask.UpdateStatus(**_STATUS, **_STATUS_FIELDS),
        views.StatusView,
    ),
    Sample(
        "POST", f"/statuses/{THING}/archive", {}, ask.ArchiveStatus(**_STATUS), views.StatusView
    ),
    Sample(
        "POST",
        f"/statuses/{THING}/unarchive",
        {},
        ask.UnarchiveStatus(**_STATUS),
        views.StatusView,
    ),
)

SQUADS: Final = (
    Sample("GET", f"/squads{PAGE}", {}, ask.ListSquads(**IN_PLACE, **PART), Page[views.SquadView]),
    Sample(
        "POST",
        "/squads",
        _SQUAD_FIELDS,
        ask.CreateSquad(**IN_PLACE, **_SQUAD_PARSED),
        views.SquadView,
        201,
    ),
    Sample("GET", f"/squads/{THING}", {}, ask.GetSquad(**_SQUAD), views.SquadView),
    Sample(
        "PATCH",
        f"/squads/{THING}",
        _SQUAD_FIELDS,
        ask.UpdateSquad(**_SQUAD, **_SQUAD_PARSED),
        views.SquadView,
    ),
    Sample("POST", f"/squads/{THING}/archive", {}, ask.ArchiveSquad(**_SQUAD), views.SquadView),
    Sample("POST", f"/squads/{THING}/unarchive", {}, ask.UnarchiveSquad(**_SQUAD), views.SquadView),
)

LABELS: Final = (
    Sample("GET", f"/labels{PAGE}", {}, ask.ListLabels(**IN_PLACE, **PART), Page[views.LabelView]),
    Sample(
        "POST",
        "/labels",
        _LABEL_FIELDS,
        ask.CreateLabel(**IN_PLACE, **_LABEL_FIELDS),
        views.LabelView,
        201,
    ),
    Sample("GET", f"/labels/{THING}", {}, ask.GetLabel(**_LABEL), views.LabelView),
    Sample(
        "PATCH",
        f"/labels/{THING}",
        _LABEL_FIELDS,
        ask.UpdateLabel(**_LABEL, **_LABEL_FIELDS),
        views.LabelView,
    ),
    Sample("DELETE", f"/labels/{THING}", {}, ask.DeleteLabel(**_LABEL), None, 204),
)

PROPERTIES: Final = (
    Sample(
        "GET",
        f"/properties{PAGE}",
        {},
        ask.ListProperties(**IN_PLACE, **PART),
        Page[views.PropertyView],
    ),
    Sample(
        "POST",
        "/properties",
        {"name": "Risk", "type": "select", **_OPTIONS},
        ask.CreateProperty(**IN_PLACE, name="Risk", type="select", **_OPTIONS),
        views.PropertyView,
        201,
    ),
    Sample("GET", f"/properties/{THING}", {}, ask.GetProperty(**_PROPERTY), views.PropertyView),
    Sample(
        "PATCH",
        f"/properties/{THING}",
        {"name": "Risk", **_OPTIONS},
        ask.UpdateProperty(**_PROPERTY, name="Risk", **_OPTIONS),
        views.PropertyView,
    ),
    Sample(
        "POST",
        f"/properties/{THING}/archive",
        {},
        ask.ArchiveProperty(**_PROPERTY),
        views.PropertyView,
    ),
    Sample(
        "POST",
        f"/properties/{THING}/unarchive",
        {},
        ask.UnarchiveProperty(**_PROPERTY),
        views.PropertyView,
    ),
)

PROJECTS: Final = (
    Sample(
        "GET",
        f"/projects{PAGE}",
        {},
        ask.ListProjects(**IN_PLACE, **PART),
        Page[views.ProjectView],
    ),
    Sample(
        "POST",
        "/projects",
        _PROJECT_FIELDS,
        ask.CreateProject(**IN_PLACE, **_PROJECT_FIELDS),
        views.ProjectView,
        201,
    ),
    Sample("GET", f"/projects/{THING}", {}, ask.GetProject(**_PROJECT), views.ProjectView),
    Sample(
        "PATCH",
        f"/projects/{THING}",
        _PROJECT_FIELDS,
        ask.UpdateProject(**_PROJECT, **_PROJECT_FIELDS),
        views.ProjectView,
    ),
    Sample(
        "POST",
        f"/projects/{THING}/archive",
        {},
        ask.ArchiveProject(**_PROJECT),
        views.ProjectView,
    ),
    Sample(
        "POST",
        f"/projects/{THING}/unarchive",
        {},
        ask.UnarchiveProject(**_PROJECT),
        views.ProjectView,
    ),
)

OF_ISSUES: Final = (
    Sample(
        "PUT",
        f"/issues/WF-12/labels/{THING}",
        {},
        AttachLabel(**ON_ISSUE, label_id=THING),
        None,
        204,
    ),
    Sample(
        "DELETE",
        f"/issues/WF-12/labels/{THING}",
        {},
        DetachLabel(**ON_ISSUE, label_id=THING),
        None,
        204,
    ),
    Sample(
        "PUT",
        f"/issues/WF-12/properties/{THING}",
        {"value": "high"},
        SetProperty(**ON_ISSUE, property_id=THING, value="high"),
        None,
        204,
    ),
    Sample(
        "DELETE",
        f"/issues/WF-12/properties/{THING}",
        {},
        ClearProperty(**ON_ISSUE, property_id=THING),
        None,
        204,
    ),
    Sample(
        "PATCH",
        "/issues/WF-12/metadata",
        {},
        PatchMetadata(**ON_ISSUE, patch={}),
        Mapping[str, Any],
        takes_anything=True,
    ),
)

CATALOGUES: Final = (*STATUSES, *SQUADS, *LABELS, *PROPERTIES, *PROJECTS, *OF_ISSUES)
