"""Why a rule did not fire, and what it will do: states and codes for what `decide` says.

Nothing is decided here. What the next dispatch would do is asked of `decide` with a snapshot that
was read without locks, and what a claim would do of `claim_gate.refusal`; this module names the
answers (W-213, W-216, W-255). A further code needs its line here and its row in
`docs/use/explain.md`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import attrs

from engine.domain import receipts, timers
from engine.domain.claim_gate import Refusal, describe
from engine.domain.decision import REFUSALS, Decision, Outcome, decide
from engine.domain.planned import PlannedTime
from engine.domain.preview import clock_text, is_offline, offline_text
from engine.domain.records import Kind, Mode, PauseReason, RunStatus, Snapshot
from engine.limits import CLAIM_RECOVERY_SECONDS


class State(StrEnum):
    """How a rule stands, in one word."""

    ACTIVE = "active"  # it waits for its event or time
    FIRING = "firing"  # an input is here, the next dispatch takes it
    WAITING = "waiting"  # inputs or its run wait for something
    BLOCKED = "blocked"  # it may not go on: the next input or time switches it off
    PAUSED = "paused"  # the platform stopped it from running away
    DISABLED = "disabled"  # somebody or something switched it off
    CONSUMED = "consumed"  # a one-shot that has fired
    ENDED = "ended"  # its issue is closed, or its schedule is over


class Code(StrEnum):
    """Why a rule stands as it does: a closed list, explained in docs/use/explain.md (W-255)."""

    WAITING_EVENT = "waiting_event"
    WAITING_TIME = "waiting_time"
    OWN_RUN_CLAIMED = "own_run_claimed"
    CLAIM_RECOVERY_WAIT = "claim_recovery_wait"
    CONTENTION = "contention"
    PERMISSION_LOST = "permission_lost"
    AGENT_UNAVAILABLE = "agent_unavailable"
    AGENT_OFFLINE = "agent_offline"
    AGENT_BUSY = "agent_busy"
    CLAIM_REFUSED = "claim_refused"
    PAUSED_LOOP = "paused_loop"
    PAUSED_RATE = "paused_rate"
    PAUSED_MAX_FIRES = "paused_max_fires"
    ISSUE_CLOSED = "issue_closed"
    DISABLED = "disabled"
    CONSUMED = "consumed"


class IgnoreReason(StrEnum):
    """Why a fact of a type that the rule listens to did not reach it (W-254)."""

    FILTERED_ACTOR = "filtered_actor"
    FILTERED_AGENT = "filtered_agent"
    FILTERED_TASK = "filtered_task"
    SELF_LOOP_REGISTERING_RUN = "self_loop_registering_run"
    SELF_LOOP_OWN_RUN = "self_loop_own_run"
    DUPLICATE_KEY = "duplicate_key"
    ISSUE_CLOSED = "issue_closed"


class FactOutcome(StrEnum):
    """What became of a fact that reached the rule."""

    PENDING = "pending"  # it waits for the next dispatch
    RUN = "run"  # it started a run
    MERGED = "merged"  # a run that was waiting took it along
    DISCARDED = "discarded"  # the rule was changed, switched off or spent, or a newer time came


@attrs.frozen(kw_only=True)
class AgentAtWork:
    """Who would carry out the rule's runs; the counts leave out the rule's own waiting run."""

    name: str
    seen_at: datetime | None
    busy_runs: int
    busy_runs_max: int
    works_on_issue: bool


@attrs.frozen(kw_only=True)
class WaitingRun:
    """The rule's run that no daemon has started; `fire_at` is when a deferred one is due."""

    id: UUID
    status: RunStatus
    created_at: datetime
    dispatched_at: datetime | None
    fire_at: datetime | None


@attrs.frozen(kw_only=True)
class Circumstances:
    """Everything that an explanation rests on, from one snapshot of the database.

    `is_candidate` tells that a dispatch would look at the rule, `is_contended` that the last one
    could not, `paused` why the platform switched it off. `refusal` is what the claim gate says of
    `run`, `refused` the error of the rule's last run if the gate has refused that.
    """

    snapshot: Snapshot
    now: datetime
    is_candidate: bool
    is_contended: bool
    paused: PauseReason | None
    agent: AgentAtWork | None
    run: WaitingRun | None
    refusal: Refusal | None
    refused: str | None


@attrs.frozen(kw_only=True)
class Obstacle:
    """Something that the next dispatch or claim would meet."""

    code: Code
    text: str


@attrs.frozen(kw_only=True)
class PendingInput:
    """An input that waits for the rule, since the first fact that it stands for."""

    event_type: str
    count: int
    since: datetime


@attrs.frozen(kw_only=True)
class Guard:
    """A protection against loops that stands for this rule; `code` is that of its ignored facts."""

    code: IgnoreReason
    text: str


@attrs.frozen(kw_only=True)
class Explanation:
    """What `explain` answers; `next_dispatch` is None where that cannot be decided."""

    state: State
    code: Code
    sentences: tuple[str, ...]
    next_dispatch: Outcome | None
    pending: tuple[PendingInput, ...]
    obstacles: tuple[Obstacle, ...]


_REFUSED: Final = "Its last run was refused when a daemon asked for it"
_WITHDRAWN: Final = "Its waiting run is older than its last change; the next dispatch withdraws it."
_CLEARED: Final = UUID(int=0)  # a runtime, where only its being there is asked
_PAUSED: Final = {
    PauseReason.LOOP: Code.PAUSED_LOOP,
    PauseReason.RATE: Code.PAUSED_RATE,
    PauseReason.MAX_FIRES: Code.PAUSED_MAX_FIRES,
}
_SENTENCES: Final = {
    Code.WAITING_EVENT: "It waits for the event.",
    Code.WAITING_TIME: "It waits for its time.",
    Code.OWN_RUN_CLAIMED: "Its run is with a daemon; what comes meanwhile goes into the next one.",
    Code.CONTENTION: "Others hold the issue; dispatch tries again within half a minute.",
    Code.CLAIM_REFUSED: "It has fired, but nobody carried out its run.",
    Code.PAUSED_LOOP: "It was paused because it went in a circle; enable it when that is mended.",
    Code.PAUSED_RATE: "It was paused because it fired too often within an hour; enable it again.",
    Code.PAUSED_MAX_FIRES: "It was paused after firing as often as it may; enable it again.",
    Code.ISSUE_CLOSED: "It is off because the issue was closed; enable it after reopening.",
    Code.DISABLED: "Somebody switched it off.",
    Code.CONSUMED: "It has fired, once as it should; rearm it to let it fire again.",
}


def explain(facts: Circumstances) -> Explanation:
    """Return how a rule stands. Raises what `decide` raises for a rule that makes no sense."""
    decision = decide(facts.snapshot, facts.now)
    obstacles = tuple(_obstacles(facts, decision))
    state, code = _verdict(facts, decision, obstacles)
    return Explanation(
        state=state,
        code=code,
        sentences=(
            _sentence(facts, state, code, decision, obstacles),
            *([] if facts.refused is None else [f"{_REFUSED}: {facts.refused}."]),
        ),
        next_dispatch=decision.outcome if facts.is_candidate else Outcome.IDLE,
        pending=tuple(_pending(facts, decision)),
        obstacles=obstacles,
    )


def unreadable(facts: Circumstances, reason: str) -> Explanation:
    """Return how a rule stands whose configuration or inputs cannot be read (W-076)."""
    off = _off(facts) or _paused(facts)
    state, code = off or (State.BLOCKED, _resting(facts.snapshot.rule.kind))
    return Explanation(
        state=state,
        code=code,
        sentences=(f"It cannot be dispatched as it is stored: {reason}",),
        next_dispatch=None,
        pending=(),
        obstacles=(),
    )


def guards_of(snapshot: Snapshot) -> tuple[Guard, ...]:
    """Return what keeps the rule from waking itself (W-058)."""
    if snapshot.rule.kind is not Kind.EVENT:
        return ()
    found = [
        Guard(
            code=IgnoreReason.SELF_LOOP_OWN_RUN, text="What its own runs do does not wake it again."
        )
    ]
    if snapshot.rule.source_task_id is not None:
        text = "What the run that registered it does does not wake it."
        found.append(Guard(code=IgnoreReason.SELF_LOOP_REGISTERING_RUN, text=text))
    return tuple(found)


def sentences_of(
    explanation: Explanation, times: Sequence[PlannedTime], ignored: Mapping[IgnoreReason, int]
) -> tuple[str, ...]:
    """Put an explanation in sentences, for people who ask why a rule did not fire."""
    found = list(explanation.sentences)
    told = {each.text for each in explanation.obstacles if each.text in found[0]}
    found += [each.text for each in explanation.obstacles if each.text not in told]
    for each in explanation.pending:
        count = "" if each.count == 1 else f" ({each.count} of them)"
        found.append(f"{each.event_type}{count} waits since {clock_text(each.since)}.")
    if times:
        found.append(f"Its next time is {clock_text(times[0].at)}.")
    if ignored:
        counts = ", ".join(f"{count} x {reason}" for reason, count in sorted(ignored.items()))
        found.append(f"Ignored so far: {counts}.")
    return tuple(found)


# --- How does it stand? ---------------------------------------------------------------------------


def _verdict(
    facts: Circumstances, decision: Decision, obstacles: tuple[Obstacle, ...]
) -> tuple[State, Code]:
    """Return state and code: what keeps the rule off first, then what keeps it or its run back."""
    return _off(facts) or _under_way(facts, decision, obstacles) or _at_rest(facts)


def _off(facts: Circumstances) -> tuple[State, Code] | None:
    if facts.snapshot.issue_closed:
        return State.ENDED, Code.ISSUE_CLOSED
    if facts.snapshot.rule.disabled_at is not None:
        return _paused(facts) or (State.DISABLED, _switched_off_by(facts))
    return None


def _paused(facts: Circumstances) -> tuple[State, Code] | None:
    """Return why the platform paused the rule; one that was switched on since is paused no more."""
    if facts.paused is None or facts.snapshot.rule.enabled:
        return None
    return State.PAUSED, _PAUSED[facts.paused]


def _under_way(
    facts: Circumstances, decision: Decision, obstacles: tuple[Obstacle, ...]
) -> tuple[State, Code] | None:
    """Return how a rule stands that is on and has an input, a run or an obstacle; else None."""
    resting = _resting(facts.snapshot.rule.kind)
    reason = None if decision.reason is None else Code(decision.reason)
    is_done = _is_spent(facts) or _paused(facts) is not None
    if is_done and not facts.is_candidate and facts.run is None:
        return None
    if reason is not None and reason in REFUSALS:
        return State.BLOCKED, reason
    if decision.outcome is Outcome.HELD:
        return State.WAITING, reason or resting
    first = obstacles[0].code if obstacles else resting
    if decision.outcome in (Outcome.STARTED, Outcome.ADDED):
        return State.WAITING if first is Code.CONTENTION else State.FIRING, first
    return None if facts.run is None else (State.WAITING, first)


def _at_rest(facts: Circumstances) -> tuple[State, Code]:
    rule = facts.snapshot.rule
    if _is_spent(facts):
        return State.CONSUMED, Code.CONSUMED if facts.refused is None else Code.CLAIM_REFUSED
    if (paused := _paused(facts)) is not None:
        return paused
    if not rule.enabled:  # some writer past the API left it so
        return State.DISABLED, Code.DISABLED
    is_over = rule.kind is not Kind.EVENT and rule.next_fire_at is None
    return State.ENDED if is_over else State.ACTIVE, _resting(rule.kind)


def _is_spent(facts: Circumstances) -> bool:
    rule = facts.snapshot.rule
    return rule.mode is Mode.ONCE and rule.last_task_id is not None


def _resting(kind: Kind) -> Code:
    return Code.WAITING_EVENT if kind is Kind.EVENT else Code.WAITING_TIME


def _switched_off_by(facts: Circumstances) -> Code:
    """Return why a rule went off, which the text that was stored with it tells (W-188)."""
    reasons = {text: reason for reason, text in REFUSALS.items()}
    return Code(reasons.get(facts.snapshot.rule.last_error or "", Code.DISABLED))


def _sentence(
    facts: Circumstances,
    state: State,
    code: Code,
    decision: Decision,
    obstacles: tuple[Obstacle, ...],
) -> str:
    """Say in one sentence how the rule stands."""
    is_withdrawn = decision.outcome is Outcome.HELD and decision.cancel_unstarted is not None
    match state, code:
        case State.FIRING, _:
            does = "starts a run" if decision.outcome is Outcome.STARTED else "adds it to the run"
            return f"An input is here; the next dispatch {does}."
        case State.BLOCKED, _:
            when = "The next dispatch" if facts.is_candidate else "The next input"
            return f"{_text_of(code, obstacles)} {when} switches it off."
        case State.DISABLED, Code.AGENT_UNAVAILABLE | Code.PERMISSION_LOST:
            return f"{REFUSALS[code]} Enable it when that is mended."
        case State.WAITING, Code.WAITING_EVENT | Code.WAITING_TIME:
            return _WITHDRAWN if is_withdrawn else "Its run waits for a daemon to take it."
        case State.ENDED, Code.WAITING_TIME:
            return "Its schedule has no further time."
        case _:
            return _text_of(code, obstacles)


def _text_of(code: Code, obstacles: tuple[Obstacle, ...]) -> str:
    """Return the sentence of the obstacle that the code names, else the code's own."""
    found = [each.text for each in obstacles if each.code is code]
    return found[0] if found else _SENTENCES[code]


# --- What stands in the way? ----------------------------------------------------------------------


def _obstacles(facts: Circumstances, decision: Decision) -> Iterator[Obstacle]:
    """Yield what the next dispatch would meet, then what the next claim would."""
    refusals = set[str]()
    for code in _refusals(facts.snapshot, facts.now):
        refusals.add(code.value)
        yield Obstacle(code=code, text=_refusal_text(code, facts.agent))
    if decision.reason == Code.CLAIM_RECOVERY_WAIT:
        yield Obstacle(code=Code.CLAIM_RECOVERY_WAIT, text=_recovery_text(facts.run))
    if facts.is_contended and facts.is_candidate:
        yield Obstacle(code=Code.CONTENTION, text=_SENTENCES[Code.CONTENTION])
    if facts.refusal is not None and facts.refusal.value not in refusals:
        text = f"A daemon that asks for the run will not get it: {describe(facts.refusal)}."
        yield Obstacle(code=Code.CLAIM_REFUSED, text=text)
    if facts.agent is not None and Code.AGENT_UNAVAILABLE.value not in refusals:
        yield from _obstacles_of(facts.agent, facts.now)


def _refusals(snapshot: Snapshot, now: datetime) -> Iterator[Code]:
    """Yield every reason not to go on: asked again and again as if the last one were mended."""
    rule = attrs.evolve(snapshot.rule, disabled_at=None)
    snapshot = attrs.evolve(snapshot, rule=rule)
    while (reason := decide(snapshot, now).reason) is not None and reason in REFUSALS:
        code = Code(reason)
        yield code
        match code:
            case Code.ISSUE_CLOSED:
                snapshot = attrs.evolve(snapshot, issue_closed=False)
            case Code.AGENT_UNAVAILABLE:
                snapshot = attrs.evolve(snapshot, agent_archived=False, runtime_id=_CLEARED)
            case _:
                assert code is Code.PERMISSION_LOST, f"nothing mends {code}"
                snapshot = attrs.evolve(snapshot, may_invoke=True)


def _obstacles_of(agent: AgentAtWork, now: datetime) -> Iterator[Obstacle]:
    """Yield what keeps the agent from taking a run (W-101, W-102, W-235)."""
    if is_offline(agent.seen_at, now):
        text = offline_text(agent.name, agent.seen_at)
        yield Obstacle(code=Code.AGENT_OFFLINE, text=text)
    if agent.works_on_issue:
        text = f"{agent.name} is busy with another run of this issue."
        yield Obstacle(code=Code.AGENT_BUSY, text=text)
    elif agent.busy_runs >= agent.busy_runs_max:
        text = f"{agent.name} is busy: {agent.busy_runs} of {agent.busy_runs_max} runs at a time."
        yield Obstacle(code=Code.AGENT_BUSY, text=text)


def _refusal_text(code: Code, agent: AgentAtWork | None) -> str:
    name = "the agent" if agent is None else agent.name
    match code:
        case Code.ISSUE_CLOSED:
            return "The issue is closed."
        case Code.AGENT_UNAVAILABLE:
            return f"{name[:1].upper()}{name[1:]} is archived or has no runtime."
        case _:
            return f"Its creator may no longer invoke {name}."


def _recovery_text(run: WaitingRun | None) -> str:
    since = (
        "" if run is None or run.dispatched_at is None else f" at {clock_text(run.dispatched_at)}"
    )
    return (
        f"A daemon took the run{since} and has neither started it nor said that it prepares it, for"
        f" {CLAIM_RECOVERY_SECONDS} s or more; whoever asks next gets it."
    )


# --- What waits? ----------------------------------------------------------------------------------


def _pending(facts: Circumstances, decision: Decision) -> Iterator[PendingInput]:
    """Yield the inputs that count, oldest first, and the time that has come."""
    rule = facts.snapshot.rule
    gone = set() if decision.disable else {ref.seq for ref in decision.discard}
    for receipt in facts.snapshot.receipts:
        if receipt.revision == rule.revision and receipt.seq not in gone:
            yield PendingInput(
                event_type=receipt.event_type,
                count=receipts.facts_count(receipt.payload),
                since=receipt.created_at,
            )
    if decision.due is not None:
        since = datetime.fromisoformat(decision.due.payload["occurred_at"])
        yield PendingInput(event_type=timers.TIME_DUE, count=1, since=since)
