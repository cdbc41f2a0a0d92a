"""What a change of a rule holds, in lock order, and who may make it (W-078, W-191, W-196).

Owners KEY SHARE (workspace, agent, runtime, member, issue), the rule, its unstarted runs, the
listening lock, the issue's lock: each use case takes its part of this list from the top.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from engine.domain.access import may_manage
from engine.domain.principal import Principal, Role
from engine.domain.records import Rule
from engine.errors import WakefulError, agent_unavailable, not_found
from engine.service.registry import Work
from engine.service.standing import read_issue, stand_at
from engine.service.wakeups import no_rule
from engine.storage import queries
from engine.storage.dispatch import rule_of
from engine.storage.wakeups import sql

_issues: Final = queries.load("issues")


@attrs.frozen(kw_only=True)
class Held:
    """An issue held against removal, and the caller with the role that stands now.

    `can_run` tells whether the agent that is held, too, has a runtime and is not archived.
    """

    workspace_id: UUID
    issue_id: UUID
    caller: Principal
    can_run: bool = False


async def hold_target(work: Work, issue_id: UUID, agent_id: UUID) -> tuple[Held, UUID]:
    """Hold issue and agent for a change that lets the agent run; also return who answers for it.

    Locks all owners. Raises 404 for an issue that the caller may not read, 403 without a person
    behind the call or if that person may not invoke the agent (W-012, W-192), 400 for an agent
    that cannot run.
    """
    workspace_id = await read_issue(work, issue_id)
    held, person = await _hold_owners(work, workspace_id, issue_id, agent_id)
    require_runnable(held)
    return held, person


async def hold_rule(work: Work, issue_id: UUID, rule_id: UUID) -> tuple[Held, Rule, UUID]:
    """Hold a stored rule with its target; raises as `hold_target` and `lock_rule` do.

    Whether the agent can run is left to the caller: a text may be edited for one that cannot
    (W-029). Raises 503 contention if the rule was replaced while the locks were taken.
    """
    workspace_id = await read_issue(work, issue_id)
    target = await work.session.fetchrow(sql.target, issue_id, rule_id)
    if target is None:
        raise no_rule()
    held, person = await _hold_owners(work, workspace_id, issue_id, target["agent_id"])
    rule = await lock_rule(work, held, rule_id)
    if rule.agent_id != target["agent_id"]:
        raise WakefulError("contention", "the wakeup was just given to another agent")
    return held, rule, person


def require_runnable(held: Held) -> None:
    """Raise 400 if the agent that is held is archived or has no runtime (W-012)."""
    if not held.can_run:
        raise agent_unavailable()


async def hold_issue(work: Work, issue_id: UUID) -> Held:
    """Hold an issue for a change that needs no agent: what is off can always stay off.

    Locks workspace, member and issue. Raises 404 for an issue that the caller may not read.
    """
    standing = await stand_at(work, issue_id)
    if not await work.session.fetchval(_issues.hold, issue_id):
        raise not_found("issue")
    return _held(work, standing.workspace_id, issue_id, standing.role)


async def lock_rule(work: Work, held: Held, rule_id: UUID) -> Rule:
    """Lock a rule of the held issue. Raises 404, and 403 unless the caller may manage it."""
    row = await work.session.fetchrow(sql.lock_rule, held.issue_id, rule_id)
    if row is None:
        raise no_rule()
    rule = rule_of(row)
    if not may_manage(held.caller, held.workspace_id, rule.created_by):
        raise WakefulError("not_allowed", "only its creator, an owner or an admin may do this")
    return rule


async def lock_unstarted(work: Work, rule_id: UUID) -> list[UUID]:
    """Lock the runs of a locked rule that no daemon has claimed."""
    rows = await work.session.fetch(sql.lock_unstarted, rule_id)
    return [row["id"] for row in rows]


async def lock_inputs(work: Work, issue_id: UUID, *, starts_listening: bool) -> None:
    """Lock the receipts of an issue; afterwards no row may be locked that is not held already.

    `starts_listening` waits for writers of the issue that have not seen the rule (W-016).
    """
    listening = sql.lock_listening if starts_listening else sql.share_listening
    await work.session.fetchval(listening, issue_id)
    await work.session.fetchval(sql.lock_issue, issue_id)


async def withdraw(work: Work, rule_id: UUID, runs: list[UUID], reason: str) -> None:
    """Discard the pending inputs of a rule and cancel these runs of it, all locked (W-021)."""
    await work.session.execute(sql.discard_receipts, rule_id)
    if runs:
        await work.session.execute(sql.cancel_runs, runs, reason)


def _held(
    work: Work, workspace_id: UUID, issue_id: UUID, role: Role | None, *, can_run: bool = False
) -> Held:
    roles = {} if role is None else {workspace_id: role}
    caller = attrs.evolve(work.caller, roles=roles)
    return Held(workspace_id=workspace_id, issue_id=issue_id, caller=caller, can_run=can_run)


async def _hold_owners(
    work: Work, workspace_id: UUID, issue_id: UUID, agent_id: UUID
) -> tuple[Held, UUID]:
    person = work.caller.person_id
    if person is None:
        raise WakefulError("no_human_principal", "no person stands behind this run")
    owners = (workspace_id, agent_id, person, issue_id)
    row = await work.session.fetchrow(sql.hold_owners, *owners)
    if row is None:
        row = await work.session.fetchrow(sql.hold_idle_owners, *owners)
    if row is None and not await work.session.fetchval(sql.has_issue, workspace_id, issue_id):
        raise not_found("issue")
    if row is None or not row["may_invoke"]:
        raise cannot_invoke()
    role = Role(row["role"])
    return _held(work, workspace_id, issue_id, role, can_run=row["can_run"]), person


def cannot_invoke() -> WakefulError:
    """Return the error for an agent that the person behind the call may not wake."""
    return WakefulError("cannot_invoke_agent", "you may not invoke this agent")
