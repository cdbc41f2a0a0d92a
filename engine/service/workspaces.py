"""Use cases of workspaces. Removing one is an explicit graph: nothing cascades (W-189)."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from engine import limits
from engine.domain import fields
from engine.domain.commands import UNSET
from engine.domain.commands.tracker import (
    CreateWorkspace,
    DeleteWorkspace,
    FindWorkspace,
    GetWorkspace,
    ListWorkspaces,
    UpdateWorkspace,
)
from engine.domain.principal import Role
from engine.domain.views import Page
from engine.domain.views.tracker import WorkspaceView
from engine.errors import WakefulError, not_found
from engine.service import standing
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import ConstraintViolation, Record, Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("workspaces")
_members: Final = queries.load("members")


@serves(ListWorkspaces)
async def list_workspaces(work: Work, query: ListWorkspaces) -> Page[WorkspaceView]:
    """Return the workspaces that the caller can open."""
    standing.refuse_daemon(work)
    rows, total = await fetch_page(
        work.session,
        _sql.list,
        list(work.caller.workspace_ids),
        limit=query.limit,
        offset=query.offset,
    )
    return Page(items=tuple(_view(row) for row in rows), total=total)


@serves(GetWorkspace)
async def get_workspace(work: Work, query: GetWorkspace) -> WorkspaceView:
    """Return one workspace of the caller."""
    return await _read(work.session, standing.read_workspace(work, query.workspace_id))


@serves(FindWorkspace, is_single=True)
async def find_workspace(work: Work, query: FindWorkspace) -> UUID:
    """Return the id of one of the caller's workspaces, also to a daemon. Raises 404."""
    workspace_id = fields.parse_id(query.ref)
    if workspace_id is None:
        slug = fields.line("workspace", query.ref)
        workspace_id = await work.session.fetchval(_sql.by_slug, slug)
    if workspace_id is None or workspace_id not in work.caller.workspace_ids:
        raise not_found("workspace")
    return workspace_id


@serves(CreateWorkspace)
async def create_workspace(work: Work, command: CreateWorkspace) -> WorkspaceView:
    """Make a workspace with the caller as its owner. Raises 409 when the slug is taken."""
    user_id = standing.require_person(work)
    workspace_id = await insert_workspace(work.session, command, owner_id=user_id)
    return await _read(work.session, workspace_id)


async def insert_workspace(session: Session, command: CreateWorkspace, *, owner_id: UUID) -> UUID:
    """Write a workspace and its owner, and return its id. Raises 400 for a field, 409 as above."""
    name = fields.line("name", command.name)
    slug = fields.slug("slug", command.slug)
    prefix = fields.issue_prefix("issue_prefix", command.issue_prefix)
    try:
        workspace_id: UUID = await session.fetchval(_sql.insert, name, slug, prefix)
    except ConstraintViolation:
        raise WakefulError("conflict", "the slug is taken", field="slug") from None
    await session.fetchval(_members.insert, workspace_id, owner_id, Role.OWNER)
    return workspace_id


@serves(UpdateWorkspace)
async def update_workspace(work: Work, command: UpdateWorkspace) -> WorkspaceView:
    """Change name and settings, for owners and admins.

    Locks the workspace NO KEY UPDATE. Raises 403, 404, and 400 for a field.
    """
    standing.require_person(work)
    workspace_id = standing.read_workspace(work, command.workspace_id)
    row = await work.session.fetchrow(_sql.lock, workspace_id)
    standing.require_administrator(await standing.stand_in(work, workspace_id))
    assert row is not None, "whoever stands in a workspace holds it"
    name, settings = row["name"], row["settings"]
    if command.name is not UNSET:
        name = fields.line("name", command.name)
    if command.settings is not UNSET:
        settings = _merged(settings, command.settings)
    await work.session.execute(_sql.update, workspace_id, name, settings)
    return await _read(work.session, workspace_id)


def _merged(old: dict[str, Any], patch: object) -> dict[str, Any]:
    """Return settings with the keys of `patch` replaced, and those that it sets to null removed."""
    new = fields.json_object("settings", patch, bytes_max=limits.SETTINGS_BYTES_MAX)
    merged = {key: value for key, value in {**old, **new}.items() if value is not None}
    return fields.json_object("settings", merged, bytes_max=limits.SETTINGS_BYTES_MAX)


@serves(DeleteWorkspace, lock_timeout_ms=limits.DELETION_LOCK_MS_MAX)
async def delete_workspace(work: Work, command: DeleteWorkspace) -> None:
    """Remove a workspace and all that is in it, for its owners, also while facts are written.

    Locks everything in lock order, the workspace FOR UPDATE first; a run that is at work ends
    when its daemon asks for it next. Raises 403, 404, and `contention` where a writer that holds
    one thing waits for another: such a one goes first, and is not told of a deadlock.
    """
    standing.require_person(work)
    workspace_id = standing.read_workspace(work, command.workspace_id)
    session = work.session
    await session.execute(_sql.lock_for_delete, workspace_id)
    if (await standing.stand_in(work, workspace_id)).role is not Role.OWNER:
        raise WakefulError("not_allowed", "only an owner may delete a workspace")
    for query in (
        _sql.lock_agents,
        _sql.lock_runtimes,
        _sql.lock_members,
        _sql.lock_issues,
        _sql.lock_rules,
    ):
        await session.execute(query, workspace_id)
    runs = [row["id"] for row in await session.fetch(_sql.lock_runs, workspace_id)]
    # What takes row locks of its own goes before the advisory locks.
    await session.execute(_sql.delete_attached, workspace_id)
    await session.execute(_sql.delete_comments, workspace_id)
    await session.execute(_sql.delete_activities, workspace_id)
    await session.execute(_sql.lock_listening, workspace_id)
    await session.execute(_sql.lock_receipts, workspace_id)
    await session.execute(_sql.delete_receipts, workspace_id)
    await session.execute(_sql.delete_rules, workspace_id)
    await session.execute(_sql.delete_runs, runs)
    for query in (
        _sql.delete_issues,
        _sql.delete_catalogues,
        _sql.delete_bookkeeping,
        _sql.delete_invokers,
        _sql.delete_agents,
        _sql.delete_runtimes,
        _sql.delete_daemons,
        _sql.delete_tokens,
        _sql.delete_members,
        _sql.delete,
    ):
        await session.execute(query, workspace_id)


async def _read(session: Session, workspace_id: UUID) -> WorkspaceView:
    row = await session.fetchrow(_sql.get, workspace_id)
    if row is None:
        raise not_found("workspace")
    return _view(row)


def _view(row: Record) -> WorkspaceView:
    return WorkspaceView(
        id=row["id"],
        name=row["name"],
        slug=row["slug"],
        issue_prefix=row["issue_prefix"],
        settings=row["settings"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
