"""Why a rule did not fire: read in one snapshot without a lock, and decided as dispatch would.

What a dispatch would do is asked of `decide` itself; nothing is carried out (W-213).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, assert_never
from uuid import UUID

from engine import limits
from engine.domain import explain, receipts
from engine.domain.claim_gate import REFUSED_REASON, GateRule, GateRun, Refusal, refusal
from engine.domain.commands.wakeups import ExplainRule
from engine.domain.explain import (
    AgentAtWork,
    Circumstances,
    Explanation,
    FactOutcome,
    IgnoreReason,
    WaitingRun,
)
from engine.domain.fields import parse_id
from engine.domain.labels import label
from engine.domain.planned import PlannedTime, times_of
from engine.domain.receipts import ReceiptState
from engine.domain.records import RunStatus, Snapshot
from engine.domain.timers import TIME_DUE
from engine.domain.views.explain import ExplanationView, IgnoredView, MatchedFactView
from engine.service.agents import member_behind
from engine.service.dispatch import CONTENTION, UNREADABLE
from engine.service.registry import Work, serves
from engine.service.standing import read_issue
from engine.service.wakeups import no_rule, show_rule
from engine.storage import queries
from engine.storage.database import Record
from engine.storage.dispatch import snapshot_of
from engine.storage.wakeups import pause_of

_sql: Final = queries.load("explaining")
_agents: Final = queries.load("agents")


@serves(ExplainRule)
async def explain_rule(work: Work, query: ExplainRule) -> ExplanationView:
    """Return why a rule did not fire and what it will do, as this caller may know it (W-194).

    Takes no lock and writes nothing. Raises 404.
    """
    workspace_id = await read_issue(work, query.issue_id)
    row = await work.session.fetchrow(
        _sql.snapshot, query.issue_id, query.rule_id, limits.RULES_LISTED_MAX
    )
    around = await work.session.fetchrow(_sql.surroundings, query.rule_id)
    if row is None or around is None:
        raise no_rule()
    shown = await show_rule(work, query.issue_id, query.rule_id)
    source_name = shown.filter_actor_name or shown.filter_agent_name
    facts = await work.session.fetch(_sql.facts, query.rule_id, limits.MATCHED_FACTS_MAX)
    rows = await work.session.fetch(_sql.ignored, query.rule_id)
    visible = await _visible(work, workspace_id, facts, rows)
    circumstances = _circumstances(row, around)
    explanation, times, words = _explained(circumstances, shown.agent_name, source_name)
    ignored = tuple(_ignored(each, visible) for each in rows)
    counts = {each.reason: each.count for each in ignored}
    return ExplanationView(
        state=explanation.state,
        code=explanation.code,
        summary=(*words, *explain.sentences_of(explanation, times, counts)),
        next_dispatch=explanation.next_dispatch,
        last_facts=tuple(_fact(each, visible) for each in facts),
        ignored=ignored,
        next_times=times,
        pending=explanation.pending,
        waiting_run=circumstances.run,
        problems=explanation.obstacles,
        guards=explain.guards_of(circumstances.snapshot),
    )


def _explained(
    circumstances: Circumstances, agent_name: str | None, source_name: str | None
) -> tuple[Explanation, tuple[PlannedTime, ...], list[str]]:
    """Return the explanation, the times to come and the rule in words.

    Of a rule that makes no sense, which other writers may leave, only that can be said (W-076).
    """
    rule = circumstances.snapshot.rule
    try:
        words = (
            f"Wakes {agent_name or 'an agent that is gone'} {label(rule, source_name=source_name)}."
        )
        return explain.explain(circumstances), times_of(rule, circumstances.now), [words]
    except UNREADABLE as error:
        return explain.unreadable(circumstances, str(error) or type(error).__name__), (), []


def _circumstances(row: Record, around: Record) -> Circumstances:
    snapshot = snapshot_of(row)
    agent = run = None
    if around["agent_name"] is not None:
        agent = AgentAtWork(
            name=around["agent_name"],
            seen_at=around["seen_at"],
            busy_runs=around["busy_runs"],
            busy_runs_max=around["max_concurrent_tasks"],
            works_on_issue=around["works_on_issue"],
        )
    if around["run_id"] is not None:
        run = WaitingRun(
            id=around["run_id"],
            status=RunStatus(around["run_status"]),
            created_at=around["run_created_at"],
            dispatched_at=around["run_dispatched_at"],
            fire_at=around["run_fire_at"],
        )
    is_refused = around["last_failure_reason"] == REFUSED_REASON
    return Circumstances(
        snapshot=snapshot,
        now=row["now"],
        is_candidate=row["is_candidate"],
        is_contended=snapshot.rule.last_error == CONTENTION,
        paused=pause_of(row),
        agent=agent,
        run=run,
        refusal=None if run is None else _refusal(snapshot, around),
        refused=around["last_error_of_run"] if is_refused else None,
    )


def _refusal(snapshot: Snapshot, around: Record) -> Refusal | None:
    """Return what the claim gate says of the waiting run at this moment."""
    rule = snapshot.rule
    return refusal(
        GateRun(
            issue_id=around["run_issue_id"],
            agent_id=around["run_agent_id"],
            originator_user_id=around["run_originator_user_id"],
            has_issue=snapshot.issue_exists,
            may_invoke=around["run_may_invoke"],
            has_runtime=around["run_has_runtime"],
            is_wakeup=True,
            is_system=False,
            revision=around["run_revision"],
            rule=GateRule(
                issue_id=rule.issue_id,
                agent_id=rule.agent_id,
                created_by=rule.created_by,
                revision=rule.revision,
                is_enabled=rule.enabled,
                is_off=rule.disabled_at is not None,
            ),
        )
    )


async def _visible(
    work: Work, workspace_id: UUID, facts: list[Record], ignored: list[Record]
) -> frozenset[UUID]:
    """Return those of the agents behind these facts that the caller may see."""
    named = {each["last_actor_id"] for each in ignored} | {each["agent_id"] for each in ignored}
    named |= {_actor(each["payload"])[1] for each in facts}
    rows = await work.session.fetch(
        _agents.visible,
        workspace_id,
        list(named - {None}),
        member_behind(work, workspace_id),
        work.caller.agent_id,
    )
    return frozenset(row["id"] for row in rows)


def _fact(row: Record, visible: frozenset[UUID]) -> MatchedFactView:
    actor_type, actor_id = _actor(row["payload"])
    occurred_at = _instant(row["payload"].get("occurred_at")) or row["created_at"]
    return MatchedFactView(
        event_type=row["event_type"],
        count=receipts.facts_count(row["payload"]),
        occurred_at=occurred_at,
        actor_type=actor_type,
        actor_id=None if actor_type == "agent" and actor_id not in visible else actor_id,
        outcome=_outcome(row, occurred_at),
        task_id=row["task_id"],
        task_status=None if row["task_status"] is None else RunStatus(row["task_status"]),
    )


def _outcome(row: Record, occurred_at: datetime) -> FactOutcome:
    """Return what became of a receipt; what came after its run was queued was merged into that.

    The receipt of a time is written with its run, so that its planned instant is what counts.
    """
    match receipts.state_of(row["task_id"], row["processed_at"]):
        case ReceiptState.FREE:
            return FactOutcome.PENDING
        case ReceiptState.DISCARDED:
            return FactOutcome.DISCARDED
        case ReceiptState.RESERVED:
            return FactOutcome.MERGED
        case ReceiptState.CONSUMED:
            came_at = occurred_at if row["event_type"] == TIME_DUE else row["created_at"]
            queued_at = row["task_created_at"]
            is_later = queued_at is not None and came_at > queued_at
            return FactOutcome.MERGED if is_later else FactOutcome.RUN
        case _ as never:
            assert_never(never)


def _ignored(row: Record, visible: frozenset[UUID]) -> IgnoredView:
    is_hidden = row["last_actor_type"] == "agent" and row["last_actor_id"] not in visible
    return IgnoredView(
        reason=IgnoreReason(row["reason"]),
        count=row["count"],
        last_at=row["last_at"],
        event_type=row["last_event_type"],
        actor_type=row["last_actor_type"],
        actor_id=None if is_hidden else row["last_actor_id"],
        source_task_id=row["last_source_task_id"] if row["agent_id"] in visible else None,
    )


def _actor(payload: Mapping[str, Any]) -> tuple[str | None, UUID | None]:
    """Return who is behind a fact; other writers' payloads may say anything."""
    actor_type, actor_id = payload.get("actor_type"), payload.get("actor_id")
    if not isinstance(actor_type, str):
        return None, None
    return actor_type, parse_id(actor_id) if isinstance(actor_id, str) else None


def _instant(text: object) -> datetime | None:
    """Return an aware instant, if a payload has one."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
