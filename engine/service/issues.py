"""Use cases of issues.

Closing one switches its wakeups off, deleting one takes them away, in the same transaction; an
assignment to an agent, or to a squad that it leads, queues a run of that agent.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.tracker import (
    CreateIssue,
    DeleteIssue,
    FindIssue,
    GetIssue,
    ListIssues,
    UpdateIssue,
)
from engine.domain.issue_drafts import IssueDraft
from engine.domain.statuses import CATEGORIES
from engine.domain.views import Page
from engine.domain.views.tracker import IssueLabelView, IssueView
from engine.errors import invalid, not_found
from engine.service import closing, inbox, metadata, projects, standing, statuses, summons, timeline
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("issues")
_TOLD_APART: Final = frozenset({"status", "assignee_type", "assignee_id", "metadata"})


@serves(ListIssues)
async def list_issues(work: Work, query: ListIssues) -> Page[IssueView]:
    """Return the issues of a workspace that match every filter given."""
    workspace_id = standing.read_workspace(work, query.workspace_id)
    if query.category is not None:
        fields.choice("category", query.category, CATEGORIES)
    search = (query.search or "").strip()
    rows, total = await fetch_page(
        work.session,
        _sql.list,
        workspace_id,
        None if query.status is None else fields.line("status", query.status),
        query.category,
        query.assignee,
        query.parent,
        query.project,
        query.label,
        fields.search_pattern(search) if search else None,
        limit=query.limit,
        offset=query.offset,
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetIssue)
async def get_issue(work: Work, query: GetIssue) -> IssueView:
    """Return one issue. Raises 404 where the caller may not read it."""
    await standing.read_issue(work, query.issue_id)
    return await _read(work.session, query.issue_id)


@serves(FindIssue)
async def find_issue(work: Work, query: FindIssue) -> UUID:
    """Return the id of an issue by id, wherever the caller reads, or by identifier. Raises 404."""
    standing.refuse_daemon(work)
    issue_id = fields.parse_id(query.ref)
    if issue_id is None:
        identifier = fields.parse_identifier(query.ref)
        if identifier is None:
            raise not_found("issue")
        workspace_id = standing.read_workspace(work, query.workspace_id)
        issue_id = await work.session.fetchval(_sql.by_number, workspace_id, *identifier)
    if issue_id is None:
        raise not_found("issue")
    await standing.read_issue(work, issue_id)
    return issue_id


@serves(CreateIssue)
async def create_issue(work: Work, command: CreateIssue) -> IssueView:
    """Make an issue with the next number of its workspace.

    Locks the workspace NO KEY UPDATE until COMMIT. Raises 403, 404, 400 for a field, and
    `agent_unavailable` for an archived agent.
    """
    workspace_id = standing.read_workspace(work, command.workspace_id)
    draft = IssueDraft.of(command).checked()
    number = await work.session.fetchval(_sql.next_number, workspace_id)
    await standing.stand_in(work, workspace_id)
    status = await statuses.require(work.session, workspace_id, draft.status)
    called = await summons.check_assignee(work, workspace_id, draft)
    await projects.require(work.session, workspace_id, draft.project_id)
    await _require_parent(work.session, workspace_id, draft.parent_id)
    issue_id: UUID = await work.session.fetchval(
        _sql.insert, workspace_id, number, work.caller.actor_type, work.caller.actor_id,
        draft.title, draft.description, draft.status, draft.priority, draft.assignee_type,
        draft.assignee_id, draft.parent_id, draft.stage, draft.project_id, draft.start_date,
        draft.due_date, draft.metadata,
    )  # fmt: skip
    await timeline.record(work, workspace_id, issue_id, "issue_created")
    if draft.assignee_id is not None:
        await _tell_assignment(work, workspace_id, issue_id, None, draft)
    if called is not None and not status.is_closed:
        await summons.summon_assignee(work, called, issue_id)
    return await _read(work.session, issue_id)


@serves(UpdateIssue)
async def update_issue(work: Work, command: UpdateIssue) -> IssueView:
    """Change an issue; sending what is there already changes nothing, not even the revision.

    Locks the issue NO KEY UPDATE; for a new parent the workspace before it; when it closes, the
    database locks and ends its wakeups (W-186). Raises 403, 404, 400 for a field, and
    `agent_unavailable` for an archived agent.
    """
    session, issue_id = work.session, command.issue_id
    workspace_id = await standing.read_issue(work, issue_id)
    if command.parent_id is not UNSET and command.parent_id is not None:
        await session.execute(_sql.lock_workspace, workspace_id)
    await standing.stand_in(work, workspace_id)
    row = await session.fetchrow(_sql.lock, issue_id)
    if row is None:
        raise not_found("issue")
    old = IssueDraft.of(row)
    new = old.patched(command).checked(old)
    changed = new.changes_from(old)
    if not changed:
        return await _read(session, issue_id)
    is_closed, called = await _check_changes(work, workspace_id, issue_id, new, changed)
    if called is not None and (is_closed or called.agent_id == work.caller.agent_id):
        called = None  # an agent that takes an issue over is at work on it already
    if called is not None:
        await closing.lock_pending_runs(session, issue_id, [called.agent_id])
    await session.execute(
        _sql.update, issue_id, new.title, new.description, new.status, new.priority,
        new.assignee_type, new.assignee_id, new.parent_id, new.stage, new.project_id,
        new.start_date, new.due_date, new.metadata,
    )  # fmt: skip
    await _tell_changes(work, workspace_id, issue_id, old, new)
    if called is not None:
        await summons.summon_assignee(work, called, issue_id)
    return await _read(session, issue_id)


@serves(DeleteIssue, lock_timeout_ms=limits.DELETION_LOCK_MS_MAX)
async def delete_issue(work: Work, command: DeleteIssue) -> None:
    """Remove an issue with all that hangs on it, rules and receipts included (W-189).

    Unstarted runs are cancelled, sub-issues lose their parent. Locks the issue FOR UPDATE and the
    rest in lock order. Raises 403, 404, and `contention` as deleting a workspace does.
    """
    session, issue_id = work.session, command.issue_id
    await standing.stand_at(work, issue_id)
    if await session.fetchrow(_sql.lock_for_delete, issue_id) is None:
        raise not_found("issue")
    await session.execute(_sql.lock_children, issue_id)
    withdrawal = await closing.lock_everything(session, issue_id)
    caller = work.caller
    await session.execute(_sql.orphan_children, issue_id, caller.actor_type, caller.actor_id)
    await session.execute(_sql.delete_attached, issue_id)
    await session.execute(_sql.delete_comments, issue_id)
    await session.execute(_sql.delete_activities, issue_id)
    await closing.remove(session, withdrawal)
    await session.execute(_sql.delete, issue_id)


# --- Checks that ask the database ---------------------------------------------------------------


async def _check_changes(
    work: Work, workspace_id: UUID, issue_id: UUID, new: IssueDraft, changed: frozenset[str]
) -> tuple[bool, summons.Called | None]:
    """Return whether the issue is closed afterwards, and the agent that the change calls.

    Only what changes is checked: what somebody else has stored does not hold up the rest.
    """
    find = statuses.require if "status" in changed else statuses.find
    status = await find(work.session, workspace_id, new.status)
    called = None
    if changed & {"assignee_type", "assignee_id"}:
        called = await summons.check_assignee(work, workspace_id, new)
    if "project_id" in changed:
        await projects.require(work.session, workspace_id, new.project_id)
    if "parent_id" in changed:
        await _require_parent(work.session, workspace_id, new.parent_id, child_id=issue_id)
    return status is not None and status.is_closed, called


async def _require_parent(
    session: Session, workspace_id: UUID, parent_id: UUID | None, *, child_id: UUID | None = None
) -> None:
    """Raise 400 unless the parent is in the workspace, near enough to the top, not below itself."""
    if parent_id is None:
        return
    if not await session.fetchval(_sql.parent, parent_id, workspace_id):
        raise invalid("parent_id", "there is no such issue in the workspace")
    rows = await session.fetch(_sql.ancestors, parent_id, limits.ISSUE_HOPS_MAX)
    if any(row["id"] == child_id for row in rows):
        raise invalid("parent_id", "an issue cannot be below itself")
    if len(rows) > limits.ISSUE_HOPS_MAX:
        raise invalid("parent_id", f"issues nest at most {limits.ISSUE_HOPS_MAX} deep")


# --- What the timeline says ---------------------------------------------------------------------


async def _tell_changes(
    work: Work, workspace_id: UUID, issue_id: UUID, old: IssueDraft, new: IssueDraft
) -> None:
    """Write one entry each for status, assignee and metadata, and one that names other fields."""
    changed = new.changes_from(old)
    if rest := sorted(changed - _TOLD_APART):
        await timeline.record(work, workspace_id, issue_id, "issue_updated", changed_fields=rest)
    if "metadata" in changed:
        await metadata.tell(work, workspace_id, issue_id, old.metadata, new.metadata)
    if "status" in changed:
        await _tell_status(work, workspace_id, issue_id, old.status, new.status)
    if changed & {"assignee_type", "assignee_id"}:
        await _tell_assignment(work, workspace_id, issue_id, old, new)


async def _tell_status(
    work: Work, workspace_id: UUID, issue_id: UUID, previous_key: str, key: str
) -> None:
    """Write both statuses by their keys and by the names that they have at this time."""
    previous = await statuses.find(work.session, workspace_id, previous_key)
    status = await statuses.find(work.session, workspace_id, key)
    await timeline.record(
        work,
        workspace_id,
        issue_id,
        "issue_status_changed",
        previous_status=previous_key,
        previous_status_name=previous_key if previous is None else previous.name,
        status=key,
        status_name=key if status is None else status.name,
    )


async def _tell_assignment(
    work: Work, workspace_id: UUID, issue_id: UUID, old: IssueDraft | None, new: IssueDraft
) -> None:
    await timeline.record(
        work,
        workspace_id,
        issue_id,
        "issue_assigned",
        previous_assignee_type=None if old is None else old.assignee_type,
        previous_assignee_id=_text(None if old is None else old.assignee_id),
        assignee_type=new.assignee_type,
        assignee_id=_text(new.assignee_id),
    )
    await inbox.tell_assignee(work, issue_id, new.assignee_type, new.assignee_id)


def _text(identifier: UUID | None) -> str | None:
    return None if identifier is None else str(identifier)


# --- Rows ---------------------------------------------------------------------------------------

_SAME: Final = (
    "id", "workspace_id", "number", "title", "description", "status", "category", "priority",
    "assignee_type", "assignee_id", "creator_type", "creator_id", "stage", "project_id",
    "start_date", "due_date", "properties", "metadata", "revision", "created_at", "updated_at",
)  # fmt: skip


async def _read(session: Session, issue_id: UUID) -> IssueView:
    row = await session.fetchrow(_sql.get, issue_id)
    if row is None:
        raise not_found("issue")
    return _view(row)


def _view(row: Record) -> IssueView:
    values: dict[str, Any] = {name: row[name] for name in _SAME}
    return IssueView(
        identifier=f"{row['issue_prefix']}-{row['number']}",
        parent_id=row["parent_issue_id"],
        labels=tuple(
            IssueLabelView(id=UUID(each["id"]), name=each["name"], color=each["color"])
            for each in row["labels"]
        ),
        **values,
    )
