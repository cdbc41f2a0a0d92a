"""Daemons: registration, recovery of what a restart left in flight, signs of life.

A daemon's name belongs to the token that registered it first, and after that one's end to its
person (W-102). Its runtimes are found by
name, so that agents keep theirs over restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from engine import limits
from engine.domain import fields
from engine.domain.commands.runs import Heartbeat, RegisterDaemon
from engine.domain.principal import PrincipalKind
from engine.domain.records import RunStatus
from engine.domain.views.runs import RegisteredRuntimeView, RegistrationView
from engine.errors import WakefulError, invalid, not_found
from engine.service.failing import fail_lost
from engine.service.registry import Work, serves
from engine.service.runs import freed
from engine.storage import queries
from engine.storage.database import Lane, Record
from engine.storage.runs import sql as runs_sql

_sql: Final = queries.load("daemons")
_RECOVERED: Final = "the daemon was restarted while it worked on this run"


def require_daemon(work: Work) -> tuple[UUID, UUID]:
    """Return workspace and token of the calling daemon; anybody else gets 403."""
    caller = work.caller
    if caller.kind is not PrincipalKind.DAEMON:
        raise WakefulError("not_allowed", "only a daemon token opens this")
    assert caller.workspace_id is not None, "a daemon has one workspace"
    assert caller.token_id is not None, "a daemon shows a token"
    return caller.workspace_id, caller.token_id


def require_daemon_id(daemon_id: str) -> str:
    """Return the name of a daemon as sent; 400 when it is missing."""
    if not daemon_id:
        raise invalid("daemon_id", "daemon_id is missing", code="missing_field")
    return fields.line("daemon_id", daemon_id)


def daemon_mismatch() -> WakefulError:
    """Return the error for a token that did not register the daemon it speaks for."""
    return WakefulError("daemon_mismatch", "this token did not register that daemon")


@serves(RegisterDaemon, lane=Lane.CLAIM)
async def register_daemon(work: Work, command: RegisterDaemon) -> RegistrationView:
    """Bind the daemon's name to the calling token, write its runtimes, recover its runs.

    A daemon registers when it starts, so it works on nothing yet: claims that were never started
    are queued again, work that was under way fails with `runtime_recovery` and is retried (W-110).
    Locks the workspace, the agents of these runs, runtimes, issues, rules, then runs. Raises 404
    for a workspace that was just deleted, 403 for a name of another token, 400 for a field.
    """
    workspace_id, token_id = require_daemon(work)
    daemon_id = require_daemon_id(command.daemon_id)
    names = [fields.line("runtimes.name", each.name) for each in command.runtimes]
    providers = [fields.line("runtimes.provider", each.provider) for each in command.runtimes]
    if not 0 < len(names) <= limits.RUNTIMES_MAX:
        raise invalid("runtimes", f"a daemon has 1 to {limits.RUNTIMES_MAX} runtimes")
    if len(set(names)) < len(names):
        raise invalid("runtimes", "two runtimes have one name")
    described = [
        None if text is None else fields.line(field, text)
        for field, text in (("device_name", command.device_name), ("version", command.version))
    ]
    if await work.session.fetchval(_sql.hold, workspace_id) is None:
        raise not_found("workspace")
    bound = await work.session.fetchval(_sql.bind, workspace_id, daemon_id, token_id, *described)
    if bound is None:
        raise daemon_mismatch()
    left = await work.session.fetch(_sql.in_flight, workspace_id, daemon_id)
    if left:
        await work.session.execute(_sql.hold_agents, [row["agent_id"] for row in left])
    rows = await work.session.fetch(
        _sql.register_runtimes, workspace_id, daemon_id, names, providers
    )
    if left:
        await _recover(work, left)
    by_name = {row["name"]: row for row in rows}
    for row in rows:
        work.queued(row["id"])
    return RegistrationView(
        runtimes=tuple(
            RegisteredRuntimeView(
                id=by_name[name]["id"], name=name, provider=by_name[name]["provider"]
            )
            for name in names
        )
    )


async def _recover(work: Work, found: Sequence[Record]) -> None:
    """Give these runs back, or end and retry them, whose agents are held already."""
    session = work.session
    await session.execute(_sql.hold_issues, [row["issue_id"] for row in found])
    await session.execute(_sql.lock_rules, [row["wakeup_id"] for row in found])
    left = await session.fetch(_sql.lock_in_flight, [row["id"] for row in found])
    claimed = [row["id"] for row in left if row["status"] == RunStatus.DISPATCHED]
    lost = [row["id"] for row in left if row["status"] != RunStatus.DISPATCHED]
    if claimed:
        await session.execute(runs_sql.end_claims, claimed)
        for row in await session.fetch(_sql.give_back, claimed):
            work.queued(row["runtime_id"])
    for again in await fail_lost(session, lost, _RECOVERED, "runtime_recovery"):
        work.queued(again.runtime_id)
    for row in left:
        freed(work, row)


@serves(Heartbeat, lane=Lane.CLAIM)
async def heartbeat(work: Work, command: Heartbeat) -> None:
    """Write that these runtimes are alive; unknown ones are skipped.

    Runs that waited for a runtime which had been offline can be claimed at once (W-109). Called at
    most once a minute for a runtime (`engine.actors.claims.Heartbeats`). Locks the runtimes. Raises
    403 as registration does.
    """
    workspace_id, token_id = require_daemon(work)
    daemon_id = require_daemon_id(command.daemon_id)
    runtime_ids = require_runtime_ids(command.runtime_ids)
    if not await work.session.fetchval(_sql.owner, workspace_id, daemon_id, token_id):
        raise daemon_mismatch()
    rows = await work.session.fetch(
        _sql.seen, workspace_id, daemon_id, runtime_ids, limits.RUNTIME_OFFLINE_SECONDS
    )
    for row in rows:
        if row["was_offline"]:
            work.queued(row["id"])


def require_runtime_ids(runtime_ids: tuple[UUID, ...]) -> list[UUID]:
    """Return the runtimes of a call, each once; 400 when there are too many."""
    if len(runtime_ids) > limits.RUNTIMES_MAX:
        raise invalid("runtime_ids", f"at most {limits.RUNTIMES_MAX} runtimes in one call")
    return list(dict.fromkeys(runtime_ids))
