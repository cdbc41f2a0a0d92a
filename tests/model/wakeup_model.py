"""What the requirements say about rules, receipts and runs: a small model without an engine.

Written from sections 1 to 9 and 16 of the requirements alone. One issue, some people, agents and
rules; every method is one transaction of somebody, and answers the refusals that it may meet (HTTP
statuses; none of them means that it is carried out). `settle` is what the engine owes afterwards.

Where the requirements leave an outcome open (the order of two writers, for instance), the model
asks `either`; `outcomes` goes through all answers. A rule's inputs are counted, not listed: what is
free, consumed and discarded of each type.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from tests.model.wakeup_records import (
    CLAIM_LOST,
    CLAIMED,
    CRON_STEP,
    DUE,
    EXECUTING,
    MANUAL,
    PENDING,
    PREPARE,
    QUEUE_ENDS,
    REDELIVERY,
    RETRIED,
    SILENCE,
    UNSTARTED,
    Caller,
    Fact,
    Rule,
    Run,
    cron_before,
)
from tests.model.wakeup_rules import Rules


@attrs.define
class Model(Rules):
    """The issue and everything on it: rules, inputs and runs, daemons and time."""

    # --- Runs by hand ----------------------------------------------------------------------------

    def ask(self, caller: Caller, agent: str) -> set[int]:
        """Queue an ordinary run, or join the pending one (W-098)."""
        assert caller.person is not None
        refusals = set() if self.may_invoke(caller.person, agent) else {403}
        refusals |= {400} if self.agents[agent].is_archived else set()
        if not refusals:
            self.tell(*self._call(agent, caller.person))
        return refusals

    def cancel(self, number: int) -> set[int]:
        """W-094: the normal cancel ends it, whatever it waits for."""
        self.tell(self._move(number, "cancelled"))
        return set()

    def rerun(self, caller: Caller, number: int) -> set[int]:
        """W-111: the pending runs of its scope are cancelled, the caller answers for the new.

        W-111 is silent on runs that no claim would get: their agent is archived (W-012), their rule
        is off, gone, of another revision or another person's (W-106). They are refused with the
        status that the same has elsewhere, and what waits stays: cancelled in their favour it
        would be lost.
        """
        assert caller.person is not None
        first = self.runs[number]
        refusals = set() if self.may_invoke(caller.person, first.agent) else {403}
        refusals |= {400} if self.agents[first.agent].is_archived else set()
        if first.rule is not None:
            rule = self.rules.get(first.rule)
            refusals |= {400} if rule is None or rule.off else set()
            refusals |= {403} if rule is not None and rule.creator != caller.person else set()
            refusals |= {409} if rule is not None and rule.revision != first.revision else set()
        if refusals:
            return refusals
        again = self._new_run(first.agent, caller.person)
        again.rule, again.revision, again.rerun_of = first.rule, first.revision, number
        again.evidence, again.is_timers = first.evidence.copy(), first.is_timers
        replaced = [
            n
            for n, run in enumerate(self.runs)
            if (run.agent, run.rule) == (first.agent, first.rule)
            and run.status in (*PENDING, "deferred")
        ]
        facts = []
        for each in replaced:
            again.evidence += self.runs[each].evidence  # what it was to tell is not lost
            facts.append(self._move(each, "cancelled"))
        self.tell(*facts, self._queue(again))
        return set()

    # --- Daemons ---------------------------------------------------------------------------------

    def claim(self, daemon: str) -> set[int]:
        """W-101, W-105, W-106, W-108: one look for one run; what is refused fails."""
        [agent] = [name for name, each in self.agents.items() if each.daemon == daemon]
        if lost := self._lost_claim(agent):
            [number] = lost
            self._hand_out(number)
            return set()
        busy = [r for r in self.runs if r.agent == agent and r.status in EXECUTING]
        waiting = [n for n, r in enumerate(self.runs) if r.agent == agent and r.status == "queued"]
        if busy or self.agents[agent].is_archived:
            return set()
        for number in sorted(waiting, key=lambda n: (-self.runs[n].rank, n)):
            if self._hand_out(number) or self.either(2):  # after a refused one it may look again
                break
        return set()

    def _lost_claim(self, agent: str) -> list[int]:
        return [
            number
            for number, run in enumerate(self.runs)
            if run.agent == agent
            and run.status == "dispatched"
            and run.claimed_at is not None
            and self.now - run.claimed_at > REDELIVERY
        ]

    def _hand_out(self, number: int) -> bool:
        run = self.runs[number]
        if not self._passes_gate(run):
            self.tell(self._move(number, "failed"))
            return False
        is_new = run.status == "queued"
        run.claimed_at = run.leased_at = self.now
        if is_new:
            self.tell(self._move(number, "dispatched"))
        return True

    def _passes_gate(self, run: Run) -> bool:
        """W-106: the rule is there, of this revision, not off, its creator's, who may invoke."""
        if not self.may_invoke(run.person, run.agent):
            return False
        if run.rule is None:
            return True
        return self._stands(run) and self.rules[run.rule].creator == run.person

    def _stands(self, run: Run) -> bool:
        """W-106: the rule behind the run is there, as it was and not off; if not, it never is."""
        if run.rule is None:
            return True
        rule = self.rules.get(run.rule)
        return (
            rule is not None
            and rule.draft.agent == run.agent
            and rule.revision == run.revision
            and not rule.off
        )

    def start(self, number: int) -> set[int]:
        """W-104: the claim starts its run."""
        self.runs[number].started_at = self.now
        self.tell(self._move(number, "running"))
        return set()

    def complete(self, number: int, *, says: bool) -> set[int]:
        """W-112: the output is posted only when the agent wrote none since the start.

        Wherever it wrote from: the text asks who and since when, not in which run. One agent has
        one run of an issue at a time (W-101), so only its runs on other issues make a difference.
        """
        run = self.runs[number]
        facts = [self._move(number, "completed")]
        spoke_at = self.spoke_at.get(run.agent)
        if says and (spoke_at is None or run.started_at is None or spoke_at < run.started_at):
            self.spoke_at[run.agent] = self.now
            facts += self._by(Caller(run.person, run.agent, number), "comment.created")
        self.tell(*facts)
        return set()

    def fail(self, number: int, reason: str) -> set[int]:
        """W-110: some reasons are retried, unless a successor is pending.

        An archived agent's retry waits for it, as what it had queued does. A rule that is off,
        replaced or deleted has no unstarted runs (W-021, W-027, W-032, W-186): none is queued anew,
        only for the gate to refuse it.
        """
        run = self.runs[number]
        facts = [self._move(number, "failed")]
        successors = [
            each
            for each in self.runs
            if (each.agent, each.rule) == (run.agent, run.rule) and each.status in PENDING
        ]
        if reason in RETRIED and run.attempt < 2 and self._stands(run) and not successors:
            again = attrs.evolve(
                run,
                status="queued",
                attempt=run.attempt + 1,
                evidence=run.evidence.copy(),
                retry_of=number,
                rerun_of=None,
                queued_at=self.now,
                claimed_at=None,
                started_at=None,
            )
            facts.append(self._queue(again))
        self.tell(*facts)
        return set()

    def wait(self, number: int) -> set[int]:
        """W-097: the daemon waits for its directory."""
        self.runs[number].leased_at = self.now
        self.tell(self._move(number, "waiting_local_directory"))
        return set()

    def go(self, daemon: str) -> set[int]:
        """W-109: a runtime that is away claims and reports nothing; runs wait for it."""
        self.online.discard(daemon)
        self.away.setdefault(daemon, self.now)
        return set()

    def come(self, daemon: str, *, restarted: bool) -> set[int]:
        """W-110: a restarted daemon's runs fail and are retried, claims go back to the queue."""
        self.online.add(daemon)
        self.away.pop(daemon, None)
        held = [
            number
            for number, run in enumerate(self.runs)
            if self.agents[run.agent].daemon == daemon and run.status in EXECUTING
        ]
        for number in held if restarted else ():
            if self.runs[number].status == "dispatched":
                self.tell(self._move(number, "queued"))
            else:
                self.fail(number, "runtime_recovery")
        self._time_runs()
        return set()

    def change_rights(
        self, what: str, agent: str, person: str, invokers: frozenset[str]
    ) -> set[int]:
        """Give or take a right; it is judged at the next save, dispatch and claim (W-196)."""
        target = self.agents[agent]
        if what == "member":
            self.people ^= {person}
        elif what == "archive":
            target.is_archived = not target.is_archived
        else:
            target.is_private = what == "private"
            target.invokers = invokers if target.is_private else target.invokers
        return set()

    # --- Time and the engine ---------------------------------------------------------------------

    def pass_to(self, target: datetime) -> set[int]:
        """W-115 to W-118: what is due on the way happens at its instant."""
        while (at := self._next_due()) is not None and at <= target:
            self.now = max(self.now, at)
            self._come_due()
            self.settle()
        self.now = target
        self._come_due()
        return set()

    def _come_due(self) -> None:
        """Timers and what ends runs may come first, where both are due."""
        if self._ends() and self._once("timers first"):
            self.settle()
        self._time_runs()

    def jump_to(self, target: datetime) -> set[int]:
        """W-115: whatever came due meanwhile is one check with the newest planned time."""
        self.now = target
        self._come_due()
        return set()

    def _next_due(self) -> datetime | None:
        timers = [rule.due for rule in self.rules.values() if rule.enabled and rule.due]
        return min([*timers, *(at for at, _ in self._ends())], default=None)

    def _ends(self) -> list[tuple[datetime, int]]:
        """Return when time ends which run (W-097, W-109)."""
        found = []
        for number, run in enumerate(self.runs):
            if run.status == "queued" and run.rule is None:
                found.append((run.queued_at + QUEUE_ENDS, number))
            elif run.status in CLAIMED and run.claimed_at and run.leased_at:
                end = max(run.claimed_at + CLAIM_LOST, run.leased_at + PREPARE)
                away = self.away.get(self.agents[run.agent].daemon, self.now)
                if max(self.now, end) - away > SILENCE:
                    continue  # it may come back and start it
                found.append((end, number))
        return found

    def _time_runs(self) -> None:
        for rule in self.rules.values():  # W-100: it may say that it waits for the claim
            own = self._own(rule)
            if own is not None and own.claimed_at and self.now - own.claimed_at >= REDELIVERY:
                rule.has_error = None
        for at, number in self._ends():
            if at <= self.now:
                is_claim = self.runs[number].status in CLAIMED
                self.fail(number, "timeout" if is_claim else "queued_expired")

    def settle(self) -> None:
        """Dispatch until no rule has anything to do, one by one or all in one transaction."""
        while todo := [number for number, rule in self.rules.items() if self._is_candidate(rule)]:
            group = todo[:1] if len(todo) > 1 and self._once("one by one") else todo
            facts = [fact for number in group for fact in self._dispatch(number)]
            self.tell(*facts)

    def _is_candidate(self, rule: Rule) -> bool:
        """W-075: a timer that is due, or inputs that need not wait for a claim (W-100)."""
        if rule.enabled and rule.due is not None and rule.due <= self.now:
            return True
        if not rule.free:
            return False
        own = self._own(rule)
        return not self._is_authorised(rule) or own is None or own.status == "queued"

    def _own(self, rule: Rule) -> Run | None:
        """Return the pending run of the rule (W-098)."""
        for run in self.runs:
            is_own = run.rule is not None and self.rules.get(run.rule) is rule
            if is_own and run.status in PENDING:
                return run
        return None

    def _is_authorised(self, rule: Rule) -> bool:
        agent = rule.draft.agent
        return self.may_invoke(rule.creator, agent) and not self.agents[agent].is_archived

    def _dispatch(self, number: int) -> list[Fact]:
        """W-080, W-099, W-100, W-114: what follows from the inputs of one rule."""
        rule = self.rules[number]
        if not self._is_authorised(rule):
            rule.enabled, rule.off, rule.has_error = False, True, True
            rule.discard()
            return self._cancel(lambda run: run.rule == number, *UNSTARTED)
        self._fire(rule)
        if rule.draft.mode == "once" and rule.is_spent:
            rule.discard(MANUAL)
        own = self._own(rule)
        facts: list[Fact] = []
        if not rule.free:
            return facts
        if own is not None and own.status == "dispatched":
            rule.has_error = rule.has_error or None
            return facts
        if own is not None and own.revision != rule.revision:
            facts = self._cancel(lambda run: run.rule == number, *UNSTARTED)
            own = None
        if own is None:
            own = self._new_run(rule.draft.agent, rule.creator)
            own.rule, own.revision = number, rule.revision
            own.is_timers = rule.draft.kind != "event"
            facts.append(self._queue(own))
        own.evidence += rule.free
        rule.consumed += rule.free
        rule.free.clear()
        rule.is_spent, rule.has_error = True, False
        rule.enabled = rule.enabled and rule.draft.mode == "continuous"
        return facts

    def _fire(self, rule: Rule) -> None:
        """W-114 to W-117: one fact with the newest planned time, which replaces an older one."""
        if not rule.enabled or rule.due is None or rule.due > self.now:
            return
        rule.planned = rule.due
        if rule.draft.kind == "at":
            rule.enabled = False
        elif rule.draft.kind == "every":
            step = timedelta(seconds=rule.draft.after)
            rule.planned += (self.now - rule.due) // step * step
            rule.due = rule.planned + step
        else:
            rule.planned = cron_before(self.now)
            rule.due = rule.planned + CRON_STEP
        rule.free[DUE] = 1
