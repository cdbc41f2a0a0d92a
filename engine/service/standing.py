"""Where the caller stands: what every use case of the tracker asks before it does anything.

Questions trust the roles that were read for this very request. Changes read them again under the
lock of the workspace, the first of the lock order, and keep them until COMMIT (W-196). Who may not
read a workspace learns nothing of it: 404 (W-191).
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from engine.domain.access import may_read
from engine.domain.principal import PrincipalKind, Role
from engine.errors import WakefulError, invalid, not_found
from engine.service.registry import Work
from engine.storage import queries

_sql: Final = queries.load("identity")


@attrs.frozen(kw_only=True)
class Standing:
    """A workspace, held against removal, and the role in it of the person behind the call.

    `role` is None for a run whose person has left, or that never had one.
    """

    workspace_id: UUID
    role: Role | None

    @property
    def is_administrator(self) -> bool:
        """Whether the person owns or administrates the workspace."""
        return self.role in {Role.OWNER, Role.ADMIN}


def refuse_daemon(work: Work) -> None:
    """Raise 403 for a daemon: its token opens the daemon's own routes only (api.md)."""
    if work.caller.kind is PrincipalKind.DAEMON:
        raise WakefulError("not_allowed", "a daemon token does not open the tracker")


def require_person(work: Work) -> UUID:
    """Return the id of the calling user; a run or daemon may not do this: 403."""
    if work.caller.user_id is None:
        raise WakefulError("not_allowed", "only a person may do this")
    return work.caller.user_id


def require_administrator(standing: Standing) -> None:
    """Raise 403 unless the person owns or administrates the workspace."""
    if not standing.is_administrator:
        raise WakefulError("not_allowed", "only an owner or admin may do this")


def read_workspace(work: Work, workspace_id: UUID | None) -> UUID:
    """Return the workspace that a question is about: the one given, else the caller's only one.

    Raises 403 for a daemon, 400 when it is not clear which one, 404 when the caller may not read
    it.
    """
    refuse_daemon(work)
    if workspace_id is None:
        if len(work.caller.workspace_ids) != 1:
            raise invalid("workspace_id", "the workspace is missing", code="missing_field")
        (workspace_id,) = work.caller.workspace_ids
    if not may_read(work.caller, workspace_id):
        raise not_found("workspace")
    return workspace_id


async def read_issue(work: Work, issue_id: UUID) -> UUID:
    """Return the workspace of an issue that the caller may read. Raises 403, 404 (W-191)."""
    refuse_daemon(work)
    workspace_id: UUID | None = await work.session.fetchval(_sql.place_of_issue, issue_id)
    if workspace_id is None or not may_read(work.caller, workspace_id):
        raise not_found("issue")
    return workspace_id


async def stand_in(work: Work, workspace_id: UUID | None) -> Standing:
    """Return where the caller stands in the workspace of a change, and lock it.

    Locks workspace and member KEY SHARE. The member's lock comes early in the lock order, which is
    harmless: it conflicts with the end of the membership alone, and that waits for no agent and
    no issue. Raises what `read_workspace` raises, and 404 when the membership or the workspace has
    ended meanwhile.
    """
    workspace_id = read_workspace(work, workspace_id)
    is_run = work.caller.kind is PrincipalKind.RUN
    row = await work.session.fetchrow(
        _sql.stand_run if is_run else _sql.stand_person, workspace_id, work.caller.person_id
    )
    if row is None:
        raise not_found("workspace")
    role = None if row["role"] is None else Role(row["role"])
    return Standing(workspace_id=workspace_id, role=role)


async def stand_at(work: Work, issue_id: UUID) -> Standing:
    """Return where the caller stands in the workspace of the issue of a change; locks as above.

    Raises 403 for a daemon and 404 where the caller may not read the issue. Whether it still
    exists, its own lock tells.
    """
    return await stand_in(work, await read_issue(work, issue_id))
