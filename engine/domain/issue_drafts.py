"""What people and agents set on an issue: checked, merged with what is stored, compared.

Pure: whether status, assignee, project and parent exist is a question to the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields, metadata
from engine.domain.commands import UNSET
from engine.domain.commands.tracker import CreateIssue, UpdateIssue
from engine.domain.records import Json
from engine.domain.texts import whole_number
from engine.errors import invalid

PRIORITIES: Final = ("urgent", "high", "medium", "low", "none")
ASSIGNEE_TYPES: Final = ("member", "agent", "squad")


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

    def checked(self, stored: IssueDraft | None = None) -> IssueDraft:
        """Return the draft as it is stored. Raises 400 and names the first bad field.

        Metadata that is `stored` as it is stays so: whoever wrote it does not hold up the rest.
        """
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
            metadata=self.metadata
            if stored is not None and self.metadata is stored.metadata
            else metadata.checked("metadata", self.metadata),
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
            if not metadata.is_same(getattr(self, field.name), getattr(old, field.name))
        )
