"""The first start: an empty database gets a workspace, its owner and two tokens (api.md)."""

from __future__ import annotations

from typing import Final

from engine.domain.commands.tracker import Bootstrap, CreateWorkspace
from engine.domain.views.tracker import BootstrapView
from engine.service.members import find_or_add_person
from engine.service.registry import Work, serves
from engine.service.tokens import insert_daemon_token, insert_member_token
from engine.service.workspaces import insert_workspace
from engine.storage import queries

_sql: Final = queries.load("workspaces")

OWNER_EMAIL: Final = "owner@localhost"
MAIN: Final = CreateWorkspace(name="Main", slug="main", issue_prefix="WF")


@serves(Bootstrap)
async def bootstrap(work: Work, _: Bootstrap) -> BootstrapView | None:
    """Make the first workspace and return its credentials, None when there is a workspace.

    Engines that start together come one after the other. Nobody calls it over the wire.
    """
    session = work.session
    await session.execute(_sql.lock_first_start)
    if await session.fetchval(_sql.any):
        return None
    user_id, _name, _is_new = await find_or_add_person(
        session, OWNER_EMAIL, "Owner", instance_admin=True
    )
    workspace_id = await insert_workspace(session, MAIN, owner_id=user_id)
    member = await insert_member_token(session, user_id, "first start")
    daemon = await insert_daemon_token(session, user_id, workspace_id, "first start")
    return BootstrapView(
        workspace_id=workspace_id,
        workspace=MAIN.slug,
        user_id=user_id,
        member_token=member.text,
        daemon_token=daemon.text,
    )
