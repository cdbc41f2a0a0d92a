"""Who calls: a token becomes a `Principal`, from what the database says now and nothing else."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from engine.domain.commands.tracker import Authenticate, Me
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.domain.records import RunStatus
from engine.domain.views.tracker import (
    ActingAgentView,
    ActingRunView,
    MeView,
    OpenWorkspaceView,
    PersonView,
)
from engine.errors import WakefulError
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Record

_sql: Final = queries.load("identity")
_workspaces: Final = queries.load("workspaces")


@serves(Authenticate, is_single=True)
async def authenticate(work: Work, query: Authenticate) -> Principal:
    """Return whose token has this hash; who asks does not matter.

    Raises 401 for a token that is unknown, revoked or expired, and for a run token whose run has
    ended or was claimed anew (W-192).
    """
    row = await work.session.fetchrow(_sql.authenticate, query.token_hash)
    if row is None:
        raise WakefulError("not_authenticated", "the token is not valid")
    return principal_of(row)


def principal_of(row: Record) -> Principal:
    """Return the principal that a row of `identity.authenticate` describes."""
    kind = PrincipalKind(row["kind"])
    is_member, is_run = kind is PrincipalKind.MEMBER, kind is PrincipalKind.RUN
    return Principal(
        kind=kind,
        user_id=row["user_id"] if is_member else None,
        workspace_id=row["workspace_id"],
        roles={UUID(workspace): Role(role) for workspace, role in row["roles"].items()},
        instance_admin=is_member and row["instance_admin"],
        agent_id=row["agent_id"],
        run_id=row["run_id"],
        originator_user_id=row["user_id"] if is_run else None,
        token_id=row["token_id"],
        daemon_id=row["daemon_id"],
    )


@serves(Me)
async def me(work: Work, _: Me) -> MeView:
    """Return what the caller's credential stands for; every kind may ask."""
    caller = work.caller
    person, acting = None, None
    if caller.user_id is not None:
        person = await work.session.fetchrow(_sql.person, caller.user_id)
    if caller.run_id is not None:
        acting = await work.session.fetchrow(_sql.acting, caller.run_id)
    rows = await work.session.fetch(_workspaces.open, list(caller.workspace_ids))
    return MeView(
        kind=caller.kind,
        member=None
        if person is None
        else PersonView(user_id=person["id"], email=person["email"], name=person["name"]),
        agent=None
        if acting is None
        else ActingAgentView(id=acting["agent_id"], name=acting["name"]),
        run=None
        if acting is None
        else ActingRunView(
            id=acting["id"], issue_id=acting["issue_id"], status=RunStatus(acting["status"])
        ),
        workspaces=tuple(
            OpenWorkspaceView(
                id=row["id"],
                name=row["name"],
                slug=row["slug"],
                issue_prefix=row["issue_prefix"],
                role=caller.roles.get(row["id"]),
            )
            for row in rows
        ),
        instance_admin=caller.instance_admin,
    )
