"""Inputs of issues (api.md, The tracker)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from web.schemas.inputs import Day, Id, Input, Paging, Whole, unsent


class NewIssue(Input):
    """An issue to make."""

    title: str
    description: str = ""
    status: str = "todo"
    priority: str = "none"
    assignee_type: str | None = None
    assignee_id: Id | None = None
    parent_id: Id | None = None
    stage: Whole | None = None
    project_id: Id | None = None
    start_date: Day | None = None
    due_date: Day | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class IssueChange(Input):
    """What changes about an issue; what is not sent stays as it is."""

    title: str = unsent()
    description: str = unsent()
    status: str = unsent()
    priority: str = unsent()
    assignee_type: str | None = unsent()
    assignee_id: Id | None = unsent()
    parent_id: Id | None = unsent()
    stage: Whole | None = unsent()
    project_id: Id | None = unsent()
    start_date: Day | None = unsent()
    due_date: Day | None = unsent()
    metadata: dict[str, Any] = unsent()


class IssueFilter(Paging):
    """Which issues to list; each filter narrows."""

    status: str | None = None
    category: str | None = None
    assignee: Id | None = None
    parent: Id | None = None
    project: Id | None = None
    label: Id | None = None
    search: str | None = None
