"""Wakeup rules as their readers see them (W-015, W-191, W-194)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from engine import limits
from engine.domain.access import visible_agents
from engine.domain.commands.wakeups import GetRule, ListRuleRuns, ListRules
from engine.domain.views.wakeups import RuleRunView, RuleView
from engine.errors import WakefulError, not_found
from engine.service.registry import Work, serves
from engine.service.standing import read_issue
from engine.storage import wakeups as storage
from engine.storage.database import Record
from engine.storage.wakeups import sql

_EVERY_RULE: Final = None


@serves(ListRules)
async def list_rules(work: Work, query: ListRules) -> tuple[RuleView, ...]:
    """Return the rules of an issue by `created_at`, `id`; at most `RULES_LISTED_MAX`.

    Raises 404 for an issue that the caller may not read.
    """
    await read_issue(work, query.issue_id)
    rows = await work.session.fetch(sql.show, query.issue_id, _EVERY_RULE, limits.RULES_LISTED_MAX)
    return await _views(work, rows)


@serves(GetRule)
async def get_rule(work: Work, query: GetRule) -> RuleView:
    """Return one rule. Raises 404 for a rule of another issue, too."""
    await read_issue(work, query.issue_id)
    return await show_rule(work, query.issue_id, query.rule_id)


@serves(ListRuleRuns)
async def list_rule_runs(work: Work, query: ListRuleRuns) -> tuple[RuleRunView, ...]:
    """Return the latest runs of a rule, retries included, newest first. Raises 404."""
    await read_issue(work, query.issue_id)
    if await work.session.fetchrow(sql.target, query.issue_id, query.rule_id) is None:
        raise no_rule()
    rows = await work.session.fetch(sql.runs, query.rule_id, limits.RULE_RUNS_LISTED_MAX)
    return tuple(storage.rule_run_view(row) for row in rows)


async def show_rule(work: Work, issue_id: UUID, rule_id: UUID) -> RuleView:
    """Return a rule as the caller, who may read the issue, sees it now. Raises 404."""
    rows = await work.session.fetch(sql.show, issue_id, rule_id, 1)
    if not rows:
        raise no_rule()
    (view,) = await _views(work, rows)
    return view


def no_rule() -> WakefulError:
    """Return the error for a rule that is not there, or not on this issue."""
    return not_found("wakeup")


async def _views(work: Work, rows: Sequence[Record]) -> tuple[RuleView, ...]:
    named = storage.agents_named(rows)
    found = await work.session.fetch(sql.agents, list(named)) if named else []
    visible = visible_agents(work.caller, map(storage.agent_access, found))
    return tuple(storage.rule_view(row, visible) for row in rows)
