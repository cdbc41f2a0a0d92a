"""Labels, projects, properties and squads as people name them: by name, or by id."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from cli.connection import Failure
from cli.output import Columns, field
from client.api import Catalogue, Wakeful

_ONE: Final[dict[Catalogue, str]] = {
    "labels": "label",
    "projects": "project",
    "properties": "property",
    "squads": "squad",
}
NAMED: Final[Columns] = {"ID": field("id"), "NAME": field("name")}


def entry_id_of(api: Wakeful, catalogue: Catalogue, text: str) -> str:
    """Return the id that `text` is or the entry of that name has, in any case; else `Failure`.

    An archived entry has no name here.
    """
    try:
        return str(UUID(text))
    except ValueError:
        found = (each for each in api.all_entries(catalogue) if _bears(each, text))
        entry = next(found, None)
    if entry is None:
        raise Failure(f"there is no {_ONE[catalogue]} {text!r}")
    entry_id: str = entry["id"]
    return entry_id


def _bears(entry: dict[str, Any], name: str) -> bool:
    return entry["name"].lower() == name.lower() and entry.get("archived_at") is None
