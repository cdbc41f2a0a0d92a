"""What people and agents set on an issue: checked, merged with what is stored, compared.

Pure: whether status, assignee and parent exist is a question to the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.tracker import CreateIssue, UpdateIssue
from engine.domain.records import Json
from engine.domain.texts import whole_number
from engine.errors import invalid

PRIORITIES: Final = ("urgent", "high", "medium", "low", "none")
CATEGORIES: Final = ("backlog", "todo", "in_progress", "done", "closed")
CLOSED_CATEGORIES: Final = frozenset({"done", "closed"})
ASSIGNEE_TYPES: Final = ("member", "agent")


@attrs.frozen(kw_only=True)
class IssueDraft:
    """The fields of an issue that its people set; `checked` returns them as stored."""

    title: str
    description: str
    status: str
    priority: str
    assignee_type: str | None
    assignee_id: UUID | None
    parent_id: UUID | None
    stage: int | None
    project_id: UUID | None
    start_date: date | None
    due_date: date | None
    metadata: Json

    @classmethod
    def of(cls, source: CreateIssue | Mapping[str, Any]) -> IssueDraft:
        """Return the draft in a command, or in a row with these columns, as it is."""
        values = attrs.asdict(source, recurse=False) if isinstance(source, CreateIssue) else source
        return cls(**{field.name: values[field.name] for field in attrs.fields(cls)})

    def patched(self, patch: UpdateIssue) -> IssueDraft:
        """Return the draft with what `patch` sends. Nulling half of an assignee nulls the other."""
        sent = {
            field.name: value
            for field in attrs.fields(IssueDraft)
            if (value := getattr(patch, field.name)) is not UNSET
        }
        if None in (sent.get("assignee_type", ""), sent.get("assignee_id", "")):
            sent = {"assignee_type": None, "assignee_id": None, **sent}
        return attrs.evolve(self, **sent)

    def checked(self) -> IssueDraft:
        """Return the draft as it is stored. Raises 400 and names the first bad field."""
        self._check_assignee()
        if self.stage is not None:
            whole_number("stage", self.stage, low=1, high=limits.STAGE_MAX, code="invalid_input")
        for name, value in (("start_date", self.start_date), ("due_date", self.due_date)):
            if value is not None and type(value) is not date:
                raise invalid(name, f"{name} must be a date")
        return attrs.evolve(
            self,
            title=fields.line("title", self.title, chars_max=limits.TITLE_CHARS_MAX),
            description=fields.text(
                "description", self.description, bytes_max=limits.DESCRIPTION_BYTES_MAX
            ),
            status=fields.line("status", self.status),
            priority=fields.choice("priority", self.priority, PRIORITIES),
            metadata=fields.json_object(
                "metadata", self.metadata, bytes_max=limits.METADATA_BYTES_MAX
            ),
        )

    def _check_assignee(self) -> None:
        if self.assignee_type is not None:
            fields.choice("assignee_type", self.assignee_type, ASSIGNEE_TYPES)
        if (self.assignee_type is None) != (self.assignee_id is None):
            missing = "assignee_id" if self.assignee_id is None else "assignee_type"
            raise invalid(missing, "an assignee has a type and an id")

    def changes_from(self, old: IssueDraft) -> frozenset[str]:
        """Return the names of the fields that differ."""
        return frozenset(
            field.name
            for field in attrs.fields(IssueDraft)
            if _comparable(getattr(self, field.name)) != _comparable(getattr(old, field.name))
        )


def _comparable(value: Any) -> Any:
    """Return JSON as a text: to Python, `true` equals 1."""
    return json.dumps(dict(value), sort_keys=True) if isinstance(value, Mapping) else value
