"""Registering a rule, and replacing one: the two ways a configuration is saved.

Everything that can be refused is refused before the listening lock is taken, which writers of the
issue share; a refused save changes nothing (W-011).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from engine import limits
from engine.domain.commands.wakeups import CreateRule, ReplaceRule
from engine.domain.decision import REPLACED, describe_rule
from engine.domain.records import Kind, Rule
from engine.domain.rules import RuleDraft, ValidRule, validate
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError, invalid
from engine.service import timeline
from engine.service.registry import Work, serves
from engine.service.rule_locks import (
    Held,
    hold_target,
    lock_inputs,
    lock_rule,
    lock_unstarted,
    withdraw,
)
from engine.service.wakeups import show_rule
from engine.storage.database import ConstraintViolation
from engine.storage.dispatch import rule_of
from engine.storage.wakeups import sql

_LIMIT: Final = "issue_wakeup_active_limit"


@serves(CreateRule, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def create_rule(work: Work, command: CreateRule) -> RuleView:
    """Register a rule, which watches from its commit onward (W-015, W-016).

    Writes the rule and `wakeup_created`. Raises 400 for a configuration that may not be stored
    and for a closed issue, 403 and 404 as `hold_target`.
    """
    held, person = await hold_target(work, command.issue_id, target_of(work, command.draft))
    now = await work.session.fetchval(sql.now)
    valid = validate(command.draft, now)
    await check_references(work, held, valid)
    await hold_source(work, valid)
    await lock_inputs(work, held.issue_id, starts_listening=valid.kind is Kind.EVENT)
    await refuse_closed(work, held)
    columns = _columns(work, person, valid)
    with within_capacity():
        row = await work.session.fetchrow(
            sql.insert, held.workspace_id, held.issue_id, *columns, now
        )
    assert row is not None, "an insert without conflict returns its row"
    rule = rule_of(row)
    await timeline.record(
        work, rule.workspace_id, rule.issue_id, "wakeup_created", wakeup=describe_rule(rule)
    )
    await observe_source(work, valid, rule)
    work.arm(rule.next_fire_at)
    return await show_rule(work, held.issue_id, rule.id)


@serves(ReplaceRule, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def replace_rule(work: Work, command: ReplaceRule) -> RuleView:
    """Replace a configuration and watch anew from the commit onward (W-020 to W-022).

    The caller becomes its creator. Pending inputs are discarded, unstarted runs cancelled. Raises
    as `create_rule`, and 403 unless the caller may manage the rule.
    """
    held, person = await hold_target(work, command.issue_id, target_of(work, command.draft))
    rule = await lock_rule(work, held, command.rule_id)
    now = await work.session.fetchval(sql.now)
    valid = validate(command.draft, now)
    await check_references(work, held, valid)
    runs = await lock_unstarted(work, rule.id)
    await hold_source(work, valid)
    await lock_inputs(work, held.issue_id, starts_listening=valid.kind is Kind.EVENT)
    await refuse_closed(work, held)
    await withdraw(work, rule.id, runs, REPLACED)
    with within_capacity():
        await work.session.execute(sql.replace, rule.id, *_columns(work, person, valid), now)
    await observe_source(work, valid, rule)
    work.arm(valid.next_fire_at)
    return await show_rule(work, held.issue_id, rule.id)


async def check_references(work: Work, held: Held, valid: ValidRule) -> None:
    """Raise 400 unless everything that the rule refers to is here (W-018, W-019, W-055)."""
    wanted = valid.lookups
    row = await work.session.fetchrow(
        sql.unmet,
        held.workspace_id,
        held.issue_id,
        wanted.member_user_id,
        wanted.agent_id,
        wanted.task_id,
        wanted.comment_id,
    )
    assert row is not None, "the query has no FROM"
    actor = "filter_agent_id" if valid.filter_agent_id else "filter_actor_id"
    for missing, field, problem in (
        ("member_user_id", actor, "is no member of this workspace"),
        ("agent_id", actor, "is no agent of this workspace"),
        ("task_id", "filter_task_id", "is no run of this issue"),
    ):
        if row[missing]:
            raise invalid(field, f"{field} {problem}", code="invalid_filter")
    if row["comment_id"]:
        raise invalid("parent_comment_id", "parent_comment_id is no live comment of this issue")


async def refuse_closed(work: Work, held: Held) -> None:
    """Raise 400 if the issue is closed, as it stands under its lock (W-026)."""
    if await work.session.fetchval(sql.issue_is_closed, held.issue_id):
        raise WakefulError("issue_closed", "the issue is closed; reopen it first")


@contextmanager
def within_capacity() -> Iterator[None]:
    """Turn the database's refusal of one more enabled rule into its error (W-013, W-014)."""
    try:
        yield
    except ConstraintViolation as error:
        if error.constraint != _LIMIT:
            raise
        message = (
            f"an issue has at most {limits.RULES_PER_ISSUE_MAX} enabled wakeups, and a workspace"
            f" {limits.RULES_PER_WORKSPACE_MAX}; switch one off first"
        )
        raise WakefulError("wakeup_capacity_exceeded", message) from None


async def hold_source(work: Work, valid: ValidRule) -> None:
    """Keep the watched run as it is until the rule is committed, without waiting (W-017, W-018).

    Locks the run. Raises `wakeup_source_busy` while somebody else has it.
    """
    if valid.filter_task_id is None:
        return
    try:
        await work.session.fetchval(sql.lock_source, valid.filter_task_id)
    except WakefulError as error:
        if error.code != "contention":
            raise
        message = "the watched run is changing just now; try again"
        raise WakefulError("wakeup_source_busy", message, field="filter_task_id") from None


async def observe_source(work: Work, valid: ValidRule, rule: Rule) -> None:
    """Let a run that ended before the rule was saved fire it, exactly once (W-017)."""
    if valid.filter_task_id is not None and await work.session.execute(sql.add_snapshot, rule.id):
        work.look_at(rule.issue_id)


def target_of(work: Work, draft: RuleDraft) -> UUID:
    """Return whom the rule is to wake: an agent that names nobody means itself (W-012)."""
    agent_id = draft.agent_id or work.caller.agent_id
    if agent_id is None:
        raise invalid("agent_id", "agent_id is missing", code="missing_field")
    return agent_id


def _columns(work: Work, person: UUID, valid: ValidRule) -> tuple[object, ...]:
    """Return the columns of a configuration in the order of `insert` and `replace`."""
    return (
        valid.agent_id or work.caller.agent_id,
        person,
        work.caller.run_id,
        valid.parent_comment_id,
        valid.instruction,
        valid.kind,
        valid.mode,
        list(valid.event_types),
        valid.filter_agent_id,
        valid.filter_task_id,
        valid.filter_actor_type,
        valid.filter_actor_id,
        valid.interval_seconds,
        valid.cron_expression,
        valid.timezone,
        valid.next_fire_at,
    )
