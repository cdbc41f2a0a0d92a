"""Claims: a daemon gets runs, each with a generation, a lease, a prompt and a credential.

One attempt is one transaction (W-101 to W-108). Candidates are found without locks; then their
agents are locked in id order and the candidates of these agents are found again, so that two claims
of one agent follow each other and the fence and the agent's limit hold exactly. Runs are locked
without waiting, and so is what their capture takes: what others hold stays behind, and is looked at
again soon. A claim that lost such a race is told to look again. A run is claimed where its agent
runs now: the lock of the agent keeps that, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import attrs
import structlog

from engine import limits
from engine.domain.claim_gate import REFUSED_REASON, GateRule, GateRun, Refusal, describe, refusal
from engine.domain.commands.runs import ClaimOne, ClaimRuns
from engine.domain.prompt import PromptFacts, joined_notes, render_prompt
from engine.domain.records import RunStatus
from engine.domain.texts import whole_number
from engine.domain.views.runs import (
    ClaimAttempt,
    ClaimedAgentView,
    ClaimedIssueView,
    ClaimedRun,
)
from engine.errors import WakefulError
from engine.service.daemons import (
    daemon_mismatch,
    require_daemon,
    require_daemon_id,
    require_runtime_ids,
)
from engine.service.enqueue import RunReason
from engine.service.registry import Work, serves
from engine.service.runs import freed, tell
from engine.service.tokens import TokenPrefix, mint
from engine.storage import queries
from engine.storage.database import ConstraintViolation, Lane, Record
from engine.storage.runs import run_fields
from engine.storage.runs import sql as runs_sql

_sql: Final = queries.load("claims")
_log = structlog.get_logger(__name__)


@attrs.define(kw_only=True)
class _Attempt:
    """One attempt: what it may look at, and what has come of it so far."""

    runtimes: list[UUID]
    now: datetime
    most: int
    runs: list[ClaimedRun] = attrs.field(factory=list)
    left_out: list[UUID] = attrs.field(factory=list)  # runs that cannot be handed over now
    is_busy: bool = False  # others hold some of these


@serves(ClaimRuns, lane=Lane.CLAIM)
async def claim_runs(work: Work, command: ClaimRuns) -> ClaimAttempt:
    """Hand out at most `max_tasks` runs of the daemon's online runtimes, one an agent.

    Locks agents, then runs. Raises 400 for a field, 403 for a daemon of another token (W-102), and
    `contention` when a request took a slot at the moment of its promotion: the claim is repeated.
    """
    workspace_id, token_id = require_daemon(work)
    daemon_id = require_daemon_id(command.daemon_id)
    wanted = require_runtime_ids(command.runtime_ids)
    most = whole_number(
        "max_tasks", command.max_tasks, low=0, high=limits.CLAIM_TASKS_MAX, code="invalid_input"
    )
    whole_number(
        "wait_seconds",
        command.wait_seconds,
        low=0,
        high=limits.CLAIM_WAIT_SECONDS_MAX,
        code="invalid_input",
    )
    caller = await work.session.fetchrow(
        _sql.caller, workspace_id, daemon_id, token_id, wanted, limits.RUNTIME_OFFLINE_SECONDS
    )
    if caller is None or not caller["owned"]:
        raise daemon_mismatch()
    attempt = _Attempt(runtimes=caller["fresh"], now=caller["now"], most=most)
    if most == 0:
        return ClaimAttempt(runs=(), now=attempt.now, is_final=True)
    may_find_more = await _look(work, attempt)
    if attempt.runs:
        return ClaimAttempt(runs=tuple(attempt.runs), now=attempt.now)
    if attempt.is_busy:
        soon = attempt.now + timedelta(seconds=limits.CLAIM_BUSY_SECONDS)
        return ClaimAttempt(runs=(), now=attempt.now, next_look_at=soon)
    if may_find_more:
        return ClaimAttempt(runs=(), now=attempt.now, next_look_at=attempt.now)
    next_look_at = await work.session.fetchval(
        _sql.next_look, attempt.runtimes, attempt.now, limits.CLAIM_RECOVERY_SECONDS
    )
    return ClaimAttempt(runs=(), now=attempt.now, next_look_at=next_look_at)


@serves(ClaimOne, lane=Lane.CLAIM)
async def claim_one(work: Work, command: ClaimOne) -> ClaimedRun | None:
    """Hand out the next run of one runtime, None when there is none or no such runtime (W-102).

    Locks and raises as `claim_runs`.
    """
    workspace_id, _ = require_daemon(work)
    name = await work.session.fetchval(_sql.daemon_of, workspace_id, command.runtime_id)
    if name is None:
        return None
    claim = ClaimRuns(daemon_id=name, runtime_ids=(command.runtime_id,))
    return next(iter((await claim_runs(work, claim)).runs), None)


async def _look(work: Work, attempt: _Attempt) -> bool:
    """Hand out what can be handed out now; without a run, tell whether to look again at once.

    All agents are locked by one statement: what follows takes locks that lock order puts behind
    them. A few more agents than asked for stand in for those that another claim empties meanwhile.
    """
    seen = await _candidates(work, attempt, None, attempt.most + limits.CLAIM_SPARE_AGENTS)
    if not seen:
        return False
    wanted = list({row["agent_id"] for row in seen})
    agents = [row["id"] for row in await work.session.fetch(_sql.lock_agents, wanted)]
    due = [row["id"] for row in seen if row["status"] == RunStatus.DEFERRED]
    if due:
        await _promote(work, due)
    for _ in range(limits.CLAIM_ROUNDS_MAX):
        exact = await _candidates(work, attempt, agents, attempt.most)
        picked = [row["id"] for row in exact if row["status"] != RunStatus.DEFERRED]
        held = await work.session.fetch(_sql.hold, picked, attempt.now) if picked else []
        busy = set(picked) - {row["id"] for row in held}
        attempt.left_out.extend(busy)
        attempt.is_busy |= bool(busy) or len(picked) < len(exact)
        await _hand_out(work, attempt, sorted(held, key=lambda row: picked.index(row["id"])))
        if attempt.runs or not picked:
            break
    return not attempt.left_out


async def _candidates(
    work: Work, attempt: _Attempt, agents: Sequence[UUID] | None, most: int
) -> list[Record]:
    return await work.session.fetch(
        _sql.candidates,
        attempt.runtimes,
        attempt.now,
        agents,
        most,
        attempt.left_out,
        limits.CLAIM_CANDIDATES_MAX,
        limits.CLAIM_RECOVERY_SECONDS,
    )


async def _promote(work: Work, due: list[UUID]) -> None:
    try:
        await work.session.execute(_sql.promote, due)
    except ConstraintViolation as error:
        if error.constraint != "agent_task_pending_idx":
            raise
        raise WakefulError("contention", "a request took the slot of a deferred run") from None


async def _hand_out(work: Work, attempt: _Attempt, held: Sequence[Record]) -> None:
    """Make the response of each held run, then claim those that can be delivered (W-104).

    What cannot be delivered stays in the queue, or goes back to it, and takes no other run along.
    """
    responses: dict[UUID, ClaimedRun] = {}
    hashes: list[bytes] = []
    for row in held:
        if (check := refusal(_gate_run(row))) is not None:
            await _refuse(work, row, check)
            continue
        minted = mint(TokenPrefix.RUN)
        try:
            response = _response(row, minted.text)
        except Exception:  # noqa: BLE001 - W-104: whatever is wrong with one run, the others go out
            _log.warning("claim.not_delivered", run_id=str(row["id"]), exc_info=True)
            attempt.left_out.append(row["id"])
            await _give_back(work, row)
            continue
        responses[response.id] = response
        hashes.append(minted.hash)
    if not responses:
        return
    rows = await work.session.fetch(
        _sql.hand_out,
        list(responses),
        hashes,
        limits.PREPARE_LEASE_SECONDS,
        limits.RUN_TOKEN_SECONDS,
    )
    claims = {row["id"]: row for row in rows}
    attempt.runs = [
        attrs.evolve(
            response,
            status=RunStatus.DISPATCHED,
            runtime_id=claims[run_id]["runtime_id"],
            dispatched_at=claims[run_id]["dispatched_at"],
        )
        for run_id, response in responses.items()
    ]


def _gate_run(row: Record) -> GateRun:
    rule = None
    if row["rule_id"] is not None:
        rule = GateRule(
            issue_id=row["rule_issue_id"],
            agent_id=row["rule_agent_id"],
            created_by=row["rule_created_by"],
            revision=row["rule_revision"],
            is_enabled=row["rule_enabled"],
            is_off=row["rule_disabled_at"] is not None,
        )
    return GateRun(
        issue_id=row["issue_id"],
        agent_id=row["agent_id"],
        originator_user_id=row["originator_user_id"],
        has_issue=row["has_issue"],
        may_invoke=row["may_invoke"],
        has_runtime=row["has_runtime"],
        is_wakeup=row["wakeup_id"] is not None,
        is_system=_system_rule(row) is not None,
        revision=row["context"].get("wakeup_revision"),
        rule=rule,
    )


def _system_rule(row: Record) -> str | None:
    """Return which rule of the platform is behind a run, None for a person's and for none."""
    name = row["context"].get("wakeup_system")
    return name if isinstance(name, str) else None


async def _refuse(work: Work, row: Record, check: Refusal) -> None:
    """End a run that may not be handed out any more, and say which check failed (W-236).

    There is no retry (W-108).
    """
    await work.session.execute(runs_sql.fail, row["id"], describe(check), REFUSED_REASON)
    await work.session.execute(runs_sql.end_claim, row["id"])
    details = {"failure_reason": REFUSED_REASON, "check": check.value}
    await tell(work, row["id"], "claim_refused", "system", None, **details)
    freed(work, row)
    work.refused(check.value)
    _log.info(
        "claim.refused",
        outcome="wakeup_unavailable",
        issue_id=str(row["issue_id"]),
        rule_id=row["wakeup_id"] and str(row["wakeup_id"]),
        revision=row["context"].get("wakeup_revision"),
        run_id=str(row["id"]),
        check=check.value,
    )


async def _give_back(work: Work, row: Record) -> None:
    """Queue a claim that was lost and cannot be redelivered again (W-104); a queued run stays."""
    if row["status"] == RunStatus.DISPATCHED:
        await work.session.execute(_sql.give_back, row["id"], row["dispatched_at"])
        await work.session.execute(runs_sql.end_claim, row["id"])
        freed(work, row)


def _response(row: Record, token: str) -> ClaimedRun:
    is_wakeup = row["wakeup_id"] is not None
    facts = PromptFacts(
        issue_id=row["issue_id"],
        issue_identifier=row["issue_identifier"],
        wakeup_id=row["wakeup_id"],
        trigger_comment_id=row["trigger_comment_id"],
        thread_id=None if is_wakeup else row["comment_thread_id"],
        is_by_hand=row["context"].get("reason") == RunReason.BY_HAND,
        note=row["handoff_note"],
        system_rule=_system_rule(row),
        joined=joined_notes(row["context"]),
    )
    return ClaimedRun(
        **run_fields(row),
        prompt=render_prompt(facts),
        wakeup_system_rule=facts.system_rule,
        wakeup_joined=facts.joined or None,
        agent=ClaimedAgentView(
            id=row["agent_id"], name=row["agent_name"], instructions=row["agent_instructions"]
        ),
        issue=ClaimedIssueView(
            id=row["issue_id"],
            identifier=row["issue_identifier"],
            title=row["issue_title"],
            description=row["issue_description"],
            status=row["issue_status"],
        ),
        token=token,
    )
