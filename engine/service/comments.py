"""Use cases of comments: said by a person, or by an agent from a run.

Agents that a comment mentions, and the agent whose comment it answers, get an ordinary run.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields, mentions
from engine.domain.commands.tracker import CreateComment, ListComments
from engine.domain.views import Page
from engine.domain.views.tracker import CommentView
from engine.errors import invalid, not_found
from engine.service import closing, standing, summons, timeline
from engine.service.agents import member_behind
from engine.service.enqueue import RunReason
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.paging import fetch_page

_sql: Final = queries.load("comments")
_agents: Final = queries.load("agents")
_issues: Final = queries.load("issues")


@serves(ListComments)
async def list_comments(work: Work, query: ListComments) -> Page[CommentView]:
    """Return the comments of an issue. Raises 404 where the caller may not read it."""
    await standing.read_issue(work, query.issue_id)
    rows, total = await fetch_page(
        work.session, _sql.list, query.issue_id, limit=query.limit, offset=query.offset
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(CreateComment)
async def create_comment(work: Work, command: CreateComment) -> CommentView:
    """Write a comment in the name of the caller, and queue the runs that it asks for.

    Locks agents, issue and pending runs, in lock order, before the insert is captured. Raises 403,
    404, and 400 for a field.
    """
    session, issue_id = work.session, command.issue_id
    body = fields.text("body", command.body, bytes_max=limits.COMMENT_BYTES_MAX)
    if not body.strip():
        raise invalid("body", "body must not be blank")
    place = await standing.stand_at(work, issue_id)
    answered = await _answered_agent(work, command)
    called = await _called_agents(work, place.workspace_id, body, answered)
    if not await session.fetchval(_issues.hold, issue_id):
        raise not_found("issue")
    await closing.lock_pending_runs(session, issue_id, called)
    row = await session.fetchrow(
        _sql.insert,
        issue_id,
        place.workspace_id,
        work.caller.actor_type,
        work.caller.actor_id,
        body,
        command.parent_id,
        work.caller.run_id,
    )
    assert row is not None, "an insert returns its row"
    view = _view(row)
    await timeline.record(
        work, place.workspace_id, issue_id, "comment_created", comment_id=str(view.id)
    )
    for agent_id in called:
        reason = RunReason.REPLY if agent_id == answered else RunReason.MENTION
        await summons.summon(work, agent_id, issue_id, reason, comment_id=view.id)
    return view


async def _answered_agent(work: Work, command: CreateComment) -> UUID | None:
    """Return the agent whose comment this one answers directly, if it does so.

    Raises 400 when the parent is no comment of the issue, or was deleted.
    """
    if command.parent_id is None:
        return None
    row = await work.session.fetchrow(_sql.parent, command.parent_id, command.issue_id)
    if row is None:
        raise invalid("parent_id", "there is no such comment on the issue")
    author: UUID | None = row["author_id"]
    return author if row["author_type"] == "agent" else None


async def _called_agents(
    work: Work, workspace_id: UUID, body: str, answered: UUID | None
) -> list[UUID]:
    """Return the agents that the comment calls, in id order, held against removal."""
    person = member_behind(work, workspace_id)
    mentioned = mentions.parse(body)
    wanted = [*mentioned.agent_ids, *([] if answered is None else [answered])]
    if person is None or not (wanted or mentioned.names):
        return []
    rows = await work.session.fetch(
        _agents.addressed,
        workspace_id,
        list(mentioned.names),
        wanted,
        person,
        work.caller.agent_id,
    )
    return [row["id"] for row in rows]


def _view(row: Record) -> CommentView:
    values: dict[str, Any] = {field.name: row[field.name] for field in attrs.fields(CommentView)}
    return CommentView(**values)
