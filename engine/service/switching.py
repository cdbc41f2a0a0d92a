"""Switching a stored rule on and off, waking it by hand, and removing it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from engine import limits
from engine.domain.commands.wakeups import DeleteRule, DisableRule, EnableRule, TriggerRule
from engine.domain.records import Kind, Mode, Rule
from engine.domain.rules import draft_of, validate
from engine.domain.texts import whole_number
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError, invalid
from engine.service.registration import (
    check_references,
    hold_source,
    observe_source,
    refuse_closed,
    within_capacity,
)
from engine.service.registry import Work, serves
from engine.service.rule_locks import (
    hold_issue,
    hold_rule,
    lock_inputs,
    lock_rule,
    lock_unstarted,
    require_runnable,
    withdraw,
)
from engine.service.wakeups import show_rule
from engine.storage.wakeups import sql

_SWITCHED_OFF: Final = "Cancelled before it started: the wakeup was switched off."
_SWITCHED_ON: Final = "Cancelled before it started: the wakeup was switched on again."
_DELETED: Final = "Cancelled before it started: the wakeup was deleted."
_REVISION_MAX: Final = 2**63 - 1


@serves(EnableRule, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def enable_rule(work: Work, command: EnableRule) -> RuleView:
    """Switch the stored configuration on, from now on; times gone by are not replayed (W-025).

    What is checked is what a save checks; who enables becomes the creator, as with a save, and
    the stored filters stay (W-057). A rule that is on already stays as it is, whatever has become
    of its agent. Raises 409 for another revision, for a rule that is on and gets `rearm` or `at`,
    and for a one-shot whose run has not ended; 400 for what W-012, W-024 and W-026 refuse.
    """
    whole_number("revision", command.revision, low=1, high=_REVISION_MAX, code="invalid_input")
    held, rule, person = await hold_rule(work, command.issue_id, command.rule_id)
    if rule.revision != command.revision:
        raise WakefulError("stale_revision", "the wakeup was changed meanwhile")
    if rule.enabled:
        if command.rearm or command.at is not None:
            raise WakefulError("conflict", "the wakeup is on already")
        return await show_rule(work, held.issue_id, rule.id)
    require_runnable(held)
    await _check_rearming(work, rule, command)
    now = await work.session.fetchval(sql.now)
    valid = validate(draft_of(rule, at=command.at), now)
    await check_references(work, held, valid)
    runs = await lock_unstarted(work, rule.id)
    await hold_source(work, valid)
    await lock_inputs(work, held.issue_id, starts_listening=rule.kind is Kind.EVENT)
    await refuse_closed(work, held)
    await withdraw(work, rule.id, runs, _SWITCHED_ON)
    with within_capacity():
        await work.session.execute(
            sql.enable, rule.id, person, work.caller.run_id, valid.next_fire_at, now
        )
    await observe_source(work, valid, rule)
    work.arm(valid.next_fire_at)
    return await show_rule(work, held.issue_id, rule.id)


@serves(DisableRule, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def disable_rule(work: Work, command: DisableRule) -> RuleView:
    """Switch a rule off, discard its inputs, cancel its unstarted runs; started ones go on (W-027).

    Needs no right to invoke. Raises 404, and 403 unless the caller may manage the rule.
    """
    await _take_back(work, command.issue_id, command.rule_id, _SWITCHED_OFF)
    await work.session.execute(sql.disable, command.rule_id)
    return await show_rule(work, command.issue_id, command.rule_id)


@serves(DeleteRule, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def delete_rule(work: Work, command: DeleteRule) -> None:
    """Remove a rule and its inputs, cancel its unstarted runs; what has run stays (W-032).

    Needs no right to invoke. Raises 404, and 403 unless the caller may manage the rule.
    """
    await _take_back(work, command.issue_id, command.rule_id, _DELETED)
    await work.session.execute(sql.delete, command.rule_id)


@serves(TriggerRule, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def trigger_rule(work: Work, command: TriggerRule) -> None:
    """Give a rule one input by hand and have its issue looked at (W-030).

    Writes a receipt `wakeup.manual`. Raises 400 on a closed issue, for an agent that cannot run and
    for a rule that is switched off, but not for a spent one (W-031); 403 unless the caller may
    manage it and invoke its agent.
    """
    held, rule, _ = await hold_rule(work, command.issue_id, command.rule_id)
    require_runnable(held)  # success promises a run
    await refuse_closed(work, held)  # before the rule, which closing has switched off
    if rule.disabled_at is not None:
        raise WakefulError("wakeup_disabled", "the wakeup is switched off")
    await work.session.fetchval(sql.lock_issue, held.issue_id)
    caller = work.caller
    await work.session.execute(
        sql.add_manual, rule.id, caller.actor_type, caller.actor_id, caller.agent_id, caller.run_id
    )
    work.look_at(held.issue_id)


async def _take_back(work: Work, issue_id: UUID, rule_id: UUID, reason: str) -> None:
    """Lock a rule that the caller may manage, with all it has started, and take that back."""
    held = await hold_issue(work, issue_id)
    rule = await lock_rule(work, held, rule_id)
    runs = await lock_unstarted(work, rule.id)
    await lock_inputs(work, held.issue_id, starts_listening=False)
    await withdraw(work, rule.id, runs, reason)


async def _check_rearming(work: Work, rule: Rule, command: EnableRule) -> None:
    """Refuse a spent one-shot that is not rearmed explicitly, still runs or has no new time."""
    if not _is_spent(rule):
        return
    if not command.rearm:
        raise invalid("rearm", "the wakeup has fired; rearm it to let it fire once more")
    if await work.session.fetchval(sql.has_unfinished_run, rule.id):
        raise WakefulError("conflict", "a run of the wakeup has not ended yet")
    if rule.kind is Kind.AT and command.at is None:
        raise invalid("at", "the wakeup has fired; choose a new time", code="invalid_schedule")


def _is_spent(rule: Rule) -> bool:
    """Whether a one-shot that is off has fired (W-024): nobody switched it off, or it has a run."""
    has_fired = rule.disabled_at is None or rule.last_task_id is not None
    return rule.mode is Mode.ONCE and not rule.enabled and has_fired
