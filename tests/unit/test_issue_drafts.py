from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import attrs
import pytest

from engine.domain.commands.tracker import CreateIssue, UpdateIssue
from engine.domain.issue_drafts import IssueDraft
from engine.errors import WakefulError

SOMEBODY = UUID(int=1)
BARE = IssueDraft.of(CreateIssue(title="T"))
PATCH = UpdateIssue(issue_id=UUID(int=2))


def test_a_draft_is_read_from_command_and_row() -> None:
    """A command and a row with the same values make the same draft."""
    row = attrs.asdict(BARE, recurse=False)
    assert IssueDraft.of({**row, "id": UUID(int=9)}) == BARE
    assert (BARE.status, BARE.priority, BARE.metadata) == ("todo", "none", {})


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ({}, ("member", SOMEBODY)),
        ({"assignee_id": None}, (None, None)),
        ({"assignee_type": None}, (None, None)),
        ({"assignee_type": "agent", "assignee_id": UUID(int=3)}, ("agent", UUID(int=3))),
        ({"assignee_type": None, "assignee_id": UUID(int=3)}, (None, UUID(int=3))),
    ],
)
def test_nulling_half_an_assignee_nulls_it(
    sent: dict[str, Any], left: tuple[str | None, UUID | None]
) -> None:
    """One null takes the assignee away, unless the other half was sent, too."""
    old = attrs.evolve(BARE, assignee_type="member", assignee_id=SOMEBODY)
    new = old.patched(attrs.evolve(PATCH, **sent))
    assert (new.assignee_type, new.assignee_id) == left


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("title", {"title": ""}),
        ("description", {"description": "x" * 262_145}),
        ("status", {"status": " "}),
        ("priority", {"priority": "HIGH"}),
        ("assignee_type", {"assignee_type": "team", "assignee_id": SOMEBODY}),
        ("assignee_type", {"assignee_id": SOMEBODY}),
        ("assignee_id", {"assignee_type": "agent"}),
        ("stage", {"stage": 0}),
        ("start_date", {"start_date": datetime(2030, 1, 1, tzinfo=UTC)}),
        ("due_date", {"due_date": "2030-01-01"}),
        ("metadata", {"metadata": {"a": "x" * 65_536}}),
    ],
)
def test_the_first_bad_field_is_named(field: str, values: dict[str, Any]) -> None:
    """What cannot be stored is refused with the name of its field."""
    with pytest.raises(WakefulError) as caught:
        attrs.evolve(BARE, **values).checked()
    assert caught.value.details["field"] == field


def test_a_checked_draft_is_as_stored() -> None:
    """A title loses its blanks; everything else that is good stays as it is."""
    full = attrs.evolve(
        BARE,
        title=" T ",
        stage=1000,
        start_date=date(2030, 1, 1),
        assignee_type="agent",
        assignee_id=SOMEBODY,
        metadata={"a": 1},
    )
    assert full.checked() == attrs.evolve(full, title="T")


def test_changes_are_told_by_name() -> None:
    """Equal values are no change; JSON tells true from 1, and does not care about order."""
    old = attrs.evolve(BARE, metadata={"a": 1, "b": 2})
    assert old.changes_from(attrs.evolve(old, metadata={"b": 2, "a": 1})) == frozenset()
    assert attrs.evolve(old, metadata={"a": True, "b": 2}).changes_from(old) == {"metadata"}
    assert attrs.evolve(old, title="U", stage=1).changes_from(old) == {"title", "stage"}
