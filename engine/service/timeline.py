"""The timeline of an issue: entries are written with what they tell of, and never hold its texts.

Entries about wakeups hold a copy of the rule (W-233); whoever may not see an agent that it refers
to gets the copy without it (W-194).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain.access import SourceReferences, redact
from engine.domain.commands.tracker import ListTimeline
from engine.domain.fields import parse_id
from engine.domain.views import Page
from engine.domain.views.tracker import ActivityView
from engine.service import standing
from engine.service.agents import member_behind
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("activities")
_agents: Final = queries.load("agents")


async def record(
    work: Work, workspace_id: UUID, issue_id: UUID, action: str, **details: object
) -> None:
    """Write an entry of the caller. `details` are JSON: ids as texts, no bodies."""
    caller = work.caller
    await work.session.execute(
        _sql.insert,
        workspace_id,
        issue_id,
        caller.actor_type,
        caller.actor_id,
        action,
        details,
    )


@serves(ListTimeline)
async def list_timeline(work: Work, query: ListTimeline) -> Page[ActivityView]:
    """Return the activities of an issue, those of private agents redacted. Raises 404."""
    workspace_id = await standing.read_issue(work, query.issue_id)
    rows, total = await fetch_page(
        work.session, _sql.list, query.issue_id, limit=query.limit, offset=query.offset
    )
    views = [_view(row) for row in rows]
    return Page(items=tuple(await _redacted(work, workspace_id, views)), total=total)


def _view(row: Record) -> ActivityView:
    return ActivityView(
        id=row["id"],
        action=row["action"],
        actor_type=row["actor_type"],
        actor_id=row["actor_id"],
        details=row["details"],
        created_at=row["created_at"],
    )


async def _redacted(
    work: Work, workspace_id: UUID, views: Sequence[ActivityView]
) -> Iterable[ActivityView]:
    """Return the entries as this caller may see them; only those about wakeups change."""
    about_wakeups = [view for view in views if isinstance(view.details.get("wakeup"), Mapping)]
    if not about_wakeups:
        return views
    references = {view.id: _references(view.details["wakeup"]) for view in about_wakeups}
    runs = {
        run
        for each in references.values()
        for run in (each.filter_task_id, each.source_task_id)
        if run is not None
    }
    found = await work.session.fetch(_sql.agents_of_runs, list(runs))
    agent_of_run = {row["id"]: row["agent_id"] for row in found}
    references = {
        key: attrs.evolve(
            each,
            filter_task_agent_id=agent_of_run.get(each.filter_task_id),
            source_agent_id=agent_of_run.get(each.source_task_id),
        )
        for key, each in references.items()
    }
    named = {
        each.filter_agent_id for each in references.values() if each.filter_agent_id is not None
    }
    named |= {each.filter_actor_id for each in references.values() if each.filter_actor_id}
    named |= {view.actor_id for view in about_wakeups if view.actor_id is not None}
    rows = await work.session.fetch(
        _agents.visible,
        workspace_id,
        list(named | set(agent_of_run.values())),
        member_behind(work, workspace_id),
        work.caller.agent_id,
    )
    visible = frozenset(row["id"] for row in rows)
    return [
        _without(view, references[view.id], visible) if view.id in references else view
        for view in views
    ]


def _references(rule: Mapping[str, Any]) -> SourceReferences:
    """Return what the copy of a rule refers to."""
    return SourceReferences(
        filter_agent_id=_id(rule.get("filter_agent_id")),
        filter_task_id=_id(rule.get("filter_task_id")),
        filter_actor_type=rule.get("filter_actor_type"),
        filter_actor_id=_id(rule.get("filter_actor_id")),
        source_task_id=_id(rule.get("source_task_id")),
    )


def _without(
    view: ActivityView, references: SourceReferences, visible: frozenset[UUID]
) -> ActivityView:
    """Return an entry without ids of agents outside `visible`; who acted may be one of them."""
    shown = redact(references, visible)
    rule = {
        **view.details["wakeup"],
        **{
            name: None
            for name in ("filter_agent_id", "filter_task_id", "filter_actor_id", "source_task_id")
            if getattr(shown, name) is None
        },
    }
    details = {**view.details, "wakeup": rule}
    if view.actor_type != "agent" or view.actor_id in visible:
        return attrs.evolve(view, details=details)
    if "actor_id" in details:
        details["actor_id"] = None
    return attrs.evolve(view, actor_id=None, details=details)


def _id(value: object) -> UUID | None:
    return parse_id(value) if isinstance(value, str) else None
