"""What would become of a rule if it were saved now: the questions of a save, without its locks.

Nothing is stored and nothing is held (W-034); what is true here may be false at the save, which
asks again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from engine import limits
from engine.domain.access import may_manage
from engine.domain.commands.wakeups import PreviewRule
from engine.domain.labels import label
from engine.domain.preview import (
    Surroundings,
    judge,
    loop_fields,
    next_times,
    warnings_of,
)
from engine.domain.records import Kind, Mode
from engine.domain.rules import ValidRule
from engine.domain.views.explain import PreviewView
from engine.errors import WakefulError, agent_unavailable, invalid, not_found
from engine.service.agents import member_behind
from engine.service.registration import check_references, refuse_closed, target_of
from engine.service.registry import Work, serves
from engine.service.rule_locks import Held, cannot_invoke
from engine.service.standing import read_issue
from engine.service.wakeups import no_rule
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.dispatch import rule_of
from engine.storage.wakeups import sql as rules_sql

_sql: Final = queries.load("previews")
_agents: Final = queries.load("agents")


@serves(PreviewRule)
async def preview_rule(work: Work, query: PreviewRule) -> PreviewView:
    """Return what a save of this draft would store and meet (W-034, W-035).

    Raises as `create_rule` or, with a rule, `replace_rule`; but a schedule that never fires and
    too many enabled rules are blocking warnings.
    """
    workspace_id = await read_issue(work, query.issue_id)
    held = Held(workspace_id=workspace_id, issue_id=query.issue_id, caller=work.caller)
    agent_id = target_of(work, query.draft)
    ground = await _ground(work, query, held, agent_id)
    if query.rule_id is not None:
        await _require_right_to_edit(work, held, query.rule_id)
    now: datetime = ground["now"]
    judgement = judge(query.draft, now)
    start = _start(query, now)
    await check_references(work, held, judgement.rule)
    await refuse_closed(work, held)
    warnings = warnings_of(
        judgement,
        Surroundings(
            now=now,
            agent_name=ground["agent_name"],
            seen_at=ground["seen_at"],
            on_issue=ground["on_issue"],
            in_workspace=ground["in_workspace"],
            opposite=await _opposite(work, query, judgement.rule, agent_id),
        ),
    )
    name = await _source_name(work, workspace_id, judgement.rule)
    return PreviewView(
        valid=not any(each.blocking for each in warnings),
        label=label(judgement.rule, source_name=name),
        next_times=next_times(judgement.rule, start),
        warnings=warnings,
    )


async def _ground(work: Work, query: PreviewRule, held: Held, agent_id: UUID) -> Record:
    """Return what `hold_target` would hold. Raises as it does."""
    person = work.caller.person_id
    if person is None:
        raise WakefulError("no_human_principal", "no person stands behind this run")
    row = await work.session.fetchrow(
        _sql.ground, held.workspace_id, held.issue_id, agent_id, person, query.rule_id
    )
    assert row is not None, "the query has a row whatever is missing"
    if not row["has_issue"]:
        raise not_found("issue")
    if not row["may_invoke"]:
        raise cannot_invoke()
    if not row["is_available"]:
        raise agent_unavailable()
    return row


async def _require_right_to_edit(work: Work, held: Held, rule_id: UUID) -> None:
    """Raise 404 for a rule that is not there, 403 unless the caller may manage it."""
    row = await work.session.fetchrow(rules_sql.get, held.issue_id, rule_id)
    if row is None:
        raise no_rule()
    if not may_manage(held.caller, held.workspace_id, rule_of(row).created_by):
        raise WakefulError("not_allowed", "only its creator, an owner or an admin may do this")


def _start(query: PreviewRule, now: datetime) -> datetime:
    """Return where the times begin. Raises 400 for a year without time zones."""
    if query.start is None:
        return now
    if not limits.CALENDAR_YEAR_MIN <= query.start.year <= limits.CALENDAR_YEAR_MAX:
        years = f"{limits.CALENDAR_YEAR_MIN} to {limits.CALENDAR_YEAR_MAX}"
        raise invalid("from", f"from must lie in the years {years}")
    return query.start


async def _opposite(work: Work, query: PreviewRule, rule: ValidRule, agent_id: UUID) -> str | None:
    """Return the name of an agent that this one might go round in a circle with (W-153)."""
    if rule.kind is not Kind.EVENT or rule.mode is not Mode.CONTINUOUS:
        return None
    columns = loop_fields(rule, query.issue_id, agent_id, work.caller.run_id)
    name: str | None = await work.session.fetchval(_sql.opposite, columns, query.rule_id)
    return name


async def _source_name(work: Work, workspace_id: UUID, rule: ValidRule) -> str | None:
    """Return the name of the filtered member or agent, unless the caller may not see it (W-194)."""
    wanted = rule.lookups
    visible = await work.session.fetch(
        _agents.visible,
        workspace_id,
        [] if wanted.agent_id is None else [wanted.agent_id],
        member_behind(work, workspace_id),
        work.caller.agent_id,
    )
    name: str | None = await work.session.fetchval(
        _sql.source_name, wanted.member_user_id, visible[0]["id"] if visible else None
    )
    return name
