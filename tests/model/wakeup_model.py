"""What the requirements say about rules, receipts and runs: a small model without an engine.

Written from sections 1 to 9 and 16 of the requirements alone. One issue, some people, agents and
rules; every method is one transaction of somebody, and answers the refusals that it may meet (HTTP
statuses; none of them means that it is carried out). `settle` is what the engine owes afterwards.

Where the requirements leave an outcome open (the order of two writers, for instance), the model
asks `either`; `outcomes` goes through all answers. A rule's inputs are counted, not listed: what is
free, consumed and discarded of each type.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import attrs

T = TypeVar("T")

REFUSED: Final = frozenset[int]()  # of nothing
CRON_STEP: Final = timedelta(minutes=5)  # the one expression of the model: */5 * * * *
PREPARE: Final = timedelta(seconds=45)  # W-105: the lease of a claim
REDELIVERY: Final = timedelta(seconds=90)  # W-105
CLAIM_LOST: Final = timedelta(seconds=300)  # W-097: a claim that nobody started
SILENCE: Final = timedelta(seconds=150)  # W-097: longer, and the runtime is offline
QUEUE_ENDS: Final = timedelta(hours=2)  # W-109: not for runs of wakeups
MANUAL: Final = "wakeup.manual"
DUE: Final = "time.due"
UNSTARTED: Final = ("queued", "deferred")
PENDING: Final = ("queued", "dispatched")
UNFINISHED: Final = (*PENDING, "deferred", "running", "waiting_local_directory")
RETRIED: Final = ("runtime_offline", "timeout", "runtime_recovery")
CLOSED: Final = ("done", "cancelled")
PRIORITIES: Final = ("none", "low", "medium", "high", "urgent")


@attrs.frozen
class Caller:
    """Who acts: a person, or an agent in a run that stands for one; nobody is the system."""

    person: str | None = None
    agent: str | None = None
    run: int | None = None

    @property
    def actor(self) -> tuple[str, str] | None:
        """What facts are attributed to (W-049)."""
        if self.agent is not None:
            return ("agent", self.agent)
        return None if self.person is None else ("member", self.person)


SYSTEM: Final = Caller()


@attrs.frozen(kw_only=True)
class Fact:
    """One captured change; `agent` is the run's of a run fact, else the actor's if it is one."""

    type: str
    actor: tuple[str, str] | None = None
    agent: str | None = None
    run: int | None = None


@attrs.define(kw_only=True)
class Run:
    """One run; `evidence` counts the facts of each type that it was woken for."""

    agent: str
    person: str
    rank: int
    queued_at: datetime
    status: str = "queued"
    rule: int | None = None
    revision: int = 0
    evidence: Counter[str] = attrs.field(factory=Counter)
    attempt: int = 1
    is_timers: bool = False
    retry_of: int | None = None
    rerun_of: int | None = None
    claimed_at: datetime | None = None
    leased_at: datetime | None = None
    started_at: datetime | None = None


@attrs.frozen(kw_only=True)
class Draft:
    """The configuration of a rule, as a caller sends it."""

    agent: str
    kind: str = "event"
    mode: str = "once"
    types: tuple[str, ...] = ()
    filter_actor: tuple[str, str] | None = None
    filter_agent: str | None = None
    filter_run: int | None = None
    after: int = 0  # seconds: of an `at` rule until it fires, of an `every` rule its interval


@attrs.define(kw_only=True)
class Rule:
    """One rule; `has_error` is None while either is right."""

    draft: Draft
    creator: str
    source_run: int | None
    due: datetime | None
    text: int = 0
    enabled: bool = True
    off: bool = False
    revision: int = 1
    is_spent: bool = False  # the row has a `last_task_id`
    has_error: bool | None = False
    planned: datetime | None = None
    free: Counter[str] = attrs.field(factory=Counter)
    consumed: Counter[str] = attrs.field(factory=Counter)
    discarded: Counter[str] = attrs.field(factory=Counter)

    def discard(self, *kept: str) -> None:
        """Everything that is free is given up, save the types that are `kept`."""
        for kind in [each for each in self.free if each not in kept]:
            self.discarded[kind] += self.free.pop(kind)


@attrs.define(kw_only=True)
class Agent:
    """An agent of the owner O: open to the workspace unless it is private."""

    daemon: str
    is_private: bool = False
    invokers: frozenset[str] = frozenset()
    is_archived: bool = False


@attrs.define
class Model:
    """The issue and everything on it that the requirements speak of."""

    now: datetime
    people: set[str] = attrs.field(factory=lambda: {"O", "M", "N"})
    agents: dict[str, Agent] = attrs.field(
        factory=lambda: {"A": Agent(daemon="d"), "B": Agent(daemon="e")}
    )
    online: set[str] = attrs.field(factory=lambda: {"d", "e"})
    away: dict[str, datetime] = attrs.field(factory=dict)
    status: str = "todo"
    fields: dict[str, object] = attrs.field(factory=dict)
    comments: dict[int, dict[str, object]] = attrs.field(factory=dict)
    spoke_at: dict[str, datetime] = attrs.field(factory=dict)
    rules: dict[int, Rule] = attrs.field(factory=dict)
    numbered: int = 0  # rules so far
    runs: list[Run] = attrs.field(factory=list)
    choices: list[tuple[int, int]] = attrs.field(factory=list)
    _asked: int = 0
    _manners: dict[str, int] = attrs.field(factory=dict)

    # --- What the requirements leave open --------------------------------------------------------

    def either(self, options: int) -> int:
        """Return which of several outcomes happens in this telling of the story."""
        if options <= 1:
            return 0
        if self._asked == len(self.choices):
            self.choices.append((0, options))
        self._asked += 1
        return self.choices[self._asked - 1][0]

    def _once(self, manner: str) -> int:
        """Return whether the engine works in this manner, throughout the step."""
        if manner not in self._manners:
            self._manners[manner] = self.either(2)
        return self._manners[manner]

    def outcomes(self, story: Callable[[Model], T]) -> Iterator[tuple[T, Model]]:
        """Tell a story in every way in which it may go; the model itself stays as it is."""
        frozen = pickle.dumps(self)
        choices: list[tuple[int, int]] = []
        while True:
            told: Model = pickle.loads(frozen)
            told.choices, told._asked, told._manners = choices, 0, {}
            answer = story(told)
            told.choices = []
            yield answer, told
            while choices and choices[-1][0] + 1 == choices[-1][1]:
                choices.pop()
            if not choices:
                return
            choices[-1] = (choices[-1][0] + 1, choices[-1][1])

    # --- Who may do what -------------------------------------------------------------------------

    def may_invoke(self, person: str, agent: str) -> bool:
        """W-012: the target must be invocable by the human principal, who must be a member."""
        whom = self.agents[agent]
        is_admitted = not whom.is_private or person == "O" or person in whom.invokers
        return person in self.people and is_admitted

    def _may_manage(self, caller: Caller, rule: Rule, *, invokes: bool = True) -> set[int]:
        """W-191: the creator or the owner; all but disable and delete ask for the agent, too."""
        assert caller.person is not None
        if caller.person not in (rule.creator, "O"):
            return {403}
        if invokes and not self.may_invoke(caller.person, rule.draft.agent):
            return {403}
        return set()

    def _may_save(self, caller: Caller, draft: Draft) -> set[int]:
        """W-012, W-018, W-026, W-055: what every save, enabling included, is judged by."""
        assert caller.person is not None
        refusals = set()
        if not self.may_invoke(caller.person, draft.agent):
            refusals.add(403)
        if self.is_closed or self.agents[draft.agent].is_archived:
            refusals.add(400)
        if draft.filter_actor and draft.filter_actor[0] == "member":
            refusals |= set() if draft.filter_actor[1] in self.people else {400}
        return refusals

    @property
    def is_closed(self) -> bool:
        """Whether the issue is (section 0)."""
        return self.status in CLOSED

    # --- Facts -----------------------------------------------------------------------------------

    def tell(self, *facts: Fact) -> None:
        """W-039, W-053: each enabled matching rule of an open issue gets each fact."""
        if self.is_closed:
            return
        for rule_id, rule in self.rules.items():
            for fact in facts:
                if self._hears(rule_id, rule, fact):
                    rule.free[fact.type] += 1

    def _hears(self, rule_id: int, rule: Rule, fact: Fact) -> bool:
        draft = rule.draft
        if not rule.enabled or fact.type not in draft.types:
            return False
        if draft.filter_actor is not None and fact.actor != draft.filter_actor:  # W-056
            return False
        if draft.filter_agent is not None and fact.agent != draft.filter_agent:  # W-053
            return False
        if draft.filter_run is not None and fact.run != draft.filter_run:  # W-054
            return False
        if fact.run is None:
            return True
        is_own = self.runs[fact.run].rule == rule_id  # W-058, retries included
        return not is_own and fact.run != rule.source_run

    def _by(self, caller: Caller, *types: str) -> list[Fact]:
        """Return facts of a change of the issue or of what hangs on it."""
        return [
            Fact(type=each, actor=caller.actor, agent=caller.agent, run=caller.run)
            for each in types
        ]

    def _move(self, number: int, status: str) -> Fact:
        """Bring a run into a status and return the fact (W-041)."""
        run = self.runs[number]
        run.status = status
        if status == "queued":
            run.claimed_at = None
        return self._of_run(number)

    def _of_run(self, number: int) -> Fact:
        run = self.runs[number]
        name = "started" if run.status == "running" else run.status
        return Fact(type=f"task.{name}", agent=run.agent, run=number)

    def _queue(self, run: Run) -> Fact:
        self.runs.append(run)
        return self._of_run(len(self.runs) - 1)

    def _cancel(self, which: Callable[[Run], bool], *statuses: str) -> list[Fact]:
        found = [n for n, run in enumerate(self.runs) if run.status in statuses and which(run)]
        return [self._move(number, "cancelled") for number in found]

    # --- What people and agents do to the issue --------------------------------------------------

    def set_field(
        self, caller: Caller, name: str, value: object, first: object, *types: str
    ) -> set[int]:
        """W-043, W-044: a changed field is its facts, the same value again is none."""
        if self.fields.get(name, first) != value:
            self.fields[name] = value
            self.tell(*self._by(caller, *types))
        return set()

    def set_status(self, caller: Caller, status: str) -> set[int]:
        """W-044, W-186, W-187: closing switches everything off and tells nothing."""
        was_closed, changes = self.is_closed, status != self.status
        self.status = status
        if self.is_closed and changes:
            for rule in self.rules.values():
                rule.has_error = rule.has_error if rule.off else True  # W-188
                rule.enabled, rule.off = False, True
                rule.discard()
            self._cancel(lambda run: run.rule is not None, *UNSTARTED)
        elif changes and not was_closed:
            self.tell(*self._by(caller, "issue.updated", "issue.status_changed"))
        return set()

    def assign(self, caller: Caller, to: str | None) -> set[int]:
        """W-044: an assignment is a fact, and queues an ordinary run where it names an agent."""
        assert caller.person is not None
        agent = to if to in self.agents else None
        refusals = set() if agent is None or self.may_invoke(caller.person, agent) else {403}
        if self.agents[agent].is_archived if agent is not None else to not in {None, *self.people}:
            refusals |= {400}
        if refusals:
            return refusals
        if self.fields.get("assignee") == to:
            return set()
        self.fields["assignee"] = to
        facts = self._by(caller, "issue.updated", "issue.assignee_changed")
        if agent is not None and not self.is_closed:
            facts += self._call(agent, caller.person)
        self.tell(*facts)
        return set()

    def comment(self, caller: Caller, number: int) -> set[int]:
        """W-045, W-050: the author is the actor."""
        self.comments[number] = {"author": caller.actor, "text": 0, "resolved": False}
        if caller.agent is not None:
            self.spoke_at[caller.agent] = self.now
        self.tell(*self._by(caller, "comment.created"))
        return set()

    def change_comment(self, caller: Caller, number: int, how: str, text: int) -> set[int]:
        """W-046: one update gives at most one fact; what changes nothing is none."""
        comment = self.comments[number]
        kind = {
            "edit": "updated" if comment["text"] != text else "",
            "resolve": "" if comment["resolved"] else "resolved",
            "unresolve": "unresolved" if comment["resolved"] else "",
            "delete": "deleted",
        }[how]
        if how == "edit":
            comment["text"] = text
        elif how == "delete":
            del self.comments[number]
        else:
            comment["resolved"] = how == "resolve"
        if kind:
            self.tell(*self._by(caller, f"comment.{kind}"))
        return set()

    # --- Rules -----------------------------------------------------------------------------------

    def create(self, caller: Caller, number: int, draft: Draft) -> set[int]:
        """W-015 to W-018: it watches from now on."""
        assert caller.person is not None
        if refusals := self._may_save(caller, draft):
            return refusals
        self.numbered += 1
        self.rules[number] = Rule(
            draft=draft,
            creator=caller.person,
            source_run=caller.run,
            due=self._first_due(draft),
        )
        self._snapshot(self.rules[number])
        return set()

    def replace(self, caller: Caller, number: int, draft: Draft) -> set[int]:
        """W-020 to W-022: everything anew, by whoever saves it now."""
        assert caller.person is not None
        rule = self.rules[number]
        if refusals := self._may_manage(caller, rule, invokes=False) | self._may_save(caller, draft):
            return refusals
        rule.creator, rule.source_run, rule.draft = caller.person, caller.run, draft
        rule.is_spent = False
        self._restart(number, self._first_due(draft))
        self._snapshot(rule)
        return set()

    def _first_due(self, draft: Draft) -> datetime | None:
        if draft.kind == "event":
            return None
        if draft.kind == "cron":
            return _cron_before(self.now) + CRON_STEP
        return self.now + timedelta(seconds=draft.after)

    def _snapshot(self, rule: Rule) -> None:
        """W-017: a watched run that has ended already is one receipt."""
        if rule.draft.filter_run is not None:
            kind = self._of_run(rule.draft.filter_run).type
            is_over = self.runs[rule.draft.filter_run].status not in UNFINISHED
            if is_over and kind in rule.draft.types:
                rule.free[kind] += 1

    def _restart(self, number: int, due: datetime | None) -> None:
        """A new revision that is on: old inputs and unstarted runs go (W-021, W-026)."""
        rule = self.rules[number]
        rule.revision += 1
        rule.enabled, rule.off, rule.has_error, rule.due = True, False, False, due
        rule.discard()
        self.tell(*self._cancel(lambda run: run.rule == number, *UNSTARTED))

    def enable(
        self, caller: Caller, number: int, revision: int, *, rearm: bool, at: int | None
    ) -> set[int]:
        """W-023 to W-026: the stored configuration once more."""
        assert caller.person is not None
        rule = self.rules[number]
        draft = rule.draft
        refusals = self._may_manage(caller, rule)
        if revision != rule.revision:
            refusals |= {409}
        if rule.enabled:
            refusals |= {409} if rearm or at is not None else set()
            refusals |= {400} if at is not None and draft.kind != "at" else set()
            # "Changes nothing" (W-023) and "an archived agent is 400" (W-012): either is right.
            is_archived = self.agents[draft.agent].is_archived
            return refusals | ({400} if is_archived and self.either(2) else set())
        refusals |= self._may_save(caller, draft)
        is_unfinished = any(r.rule == number and r.status in UNFINISHED for r in self.runs)
        has_passed = draft.kind == "at" and (rule.is_spent or self._is_past(rule))
        if (
            (draft.mode == "once" and rule.is_spent and not rearm)
            or (at is not None and draft.kind != "at")
            or (has_passed and at is None)
        ):
            refusals |= {400}
        if rearm and draft.mode == "once" and is_unfinished:
            refusals |= {409}
        if refusals:
            return refusals
        due = self._first_due(draft) if draft.kind in ("every", "cron") else rule.due
        if at is not None:
            due = self.now + timedelta(seconds=at)
        rule.is_spent = False
        rule.creator, rule.source_run = caller.person, caller.run  # as by a save
        self._restart(number, due)
        self._snapshot(rule)
        return set()

    def _is_past(self, rule: Rule) -> bool:
        return rule.due is not None and rule.due <= self.now

    def edit(self, caller: Caller, number: int, expected: int, revision: int, text: int) -> set[int]:
        """W-028, W-029: nothing but the text."""
        rule = self.rules[number]
        refusals = self._may_manage(caller, rule)
        if expected != rule.text or revision != rule.revision:
            refusals |= {409}
        if not refusals:
            rule.text = text
        return refusals

    def disable(self, caller: Caller, number: int) -> set[int]:
        """W-027: off, inputs discarded, unstarted runs cancelled; again it changes nothing."""
        rule = self.rules[number]
        if refusals := self._may_manage(caller, rule, invokes=False):
            return refusals
        if not rule.off:
            self._switch_off(number)
        return set()

    def _switch_off(self, number: int) -> None:
        rule = self.rules[number]
        rule.enabled, rule.off = False, True
        rule.discard()
        self.tell(*self._cancel(lambda run: run.rule == number, *UNSTARTED))

    def delete(self, caller: Caller, number: int) -> set[int]:
        """W-032: the row and its inputs go, unstarted runs are cancelled."""
        if refusals := self._may_manage(caller, self.rules[number], invokes=False):
            return refusals
        del self.rules[number]
        self.tell(*self._cancel(lambda run: run.rule == number, *UNSTARTED))
        return set()

    def trigger(self, caller: Caller, number: int) -> set[int]:
        """W-030, W-031: one input by hand, also of a consumed one-shot."""
        rule = self.rules[number]
        refusals = self._may_manage(caller, rule)
        if self.is_closed or rule.off or self.agents[rule.draft.agent].is_archived:
            refusals |= {400}
        if not refusals:
            rule.free[MANUAL] += 1
        return refusals

    # --- Runs by hand ----------------------------------------------------------------------------

    def _ordinary(self, agent: str, *statuses: str) -> list[int]:
        return [
            number
            for number, run in enumerate(self.runs)
            if run.rule is None and run.agent == agent and run.status in statuses
        ]

    def _new_run(self, agent: str, person: str) -> Run:
        rank = PRIORITIES.index(str(self.fields.get("priority", "none")))
        return Run(agent=agent, person=person, rank=rank, queued_at=self.now)

    def ask(self, caller: Caller, agent: str) -> set[int]:
        """Queue an ordinary run, or join the pending one (W-098)."""
        assert caller.person is not None
        refusals = set() if self.may_invoke(caller.person, agent) else {403}
        refusals |= {400} if self.agents[agent].is_archived else set()
        if not refusals:
            self.tell(*self._call(agent, caller.person))
        return refusals

    def _call(self, agent: str, person: str) -> list[Fact]:
        """Queue an ordinary run; one that waits already takes the request in."""
        new = self._new_run(agent, person)
        if waiting := self._ordinary(agent, "queued"):
            [number] = waiting
            joined = self.runs[number]
            joined.rank, joined.queued_at = max(joined.rank, new.rank), self.now
            return []
        return [self._queue(new)]

    def cancel(self, number: int) -> set[int]:
        """W-094: the normal cancel ends it, whatever it waits for."""
        self.tell(self._move(number, "cancelled"))
        return set()

    def rerun(self, caller: Caller, number: int) -> set[int]:
        """W-111: the pending runs of its scope are cancelled, the caller answers for the new one."""
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
        busy = [r for r in self.runs if r.agent == agent and r.status in _EXECUTING]
        waiting = [n for n, r in enumerate(self.runs) if r.agent == agent and r.status == "queued"]
        if busy or self.agents[agent].is_archived:
            return set()
        for number in sorted(waiting, key=lambda n: (-self.runs[n].rank, n)):
            if self._hand_out(number) or self.either(2):
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
        rule = self.rules.get(run.rule)
        return (
            rule is not None
            and rule.draft.agent == run.agent
            and rule.revision == run.revision
            and not rule.off
            and rule.creator == run.person
        )

    def start(self, number: int) -> set[int]:
        """W-104: the claim starts its run."""
        self.runs[number].started_at = self.now
        self.tell(self._move(number, "running"))
        return set()

    def complete(self, number: int, *, says: bool) -> set[int]:
        """W-112: the output is posted unless the agent wrote itself."""
        run = self.runs[number]
        facts = [self._move(number, "completed")]
        spoke_at = self.spoke_at.get(run.agent)
        if says and (spoke_at is None or run.started_at is None or spoke_at < run.started_at):
            self.spoke_at[run.agent] = self.now
            facts += self._by(Caller(run.person, run.agent, number), "comment.created")
        self.tell(*facts)
        return set()

    def fail(self, number: int, reason: str) -> set[int]:
        """W-110: some reasons are retried, unless a successor is pending."""
        run = self.runs[number]
        facts = [self._move(number, "failed")]
        successors = [
            each
            for each in self.runs
            if (each.agent, each.rule) == (run.agent, run.rule) and each.status in PENDING
        ]
        is_able = not self.agents[run.agent].is_archived
        if reason in RETRIED and run.attempt < 2 and is_able and not successors:
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
            if self.agents[run.agent].daemon == daemon and run.status in _EXECUTING
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
            elif run.status in _CLAIMED and run.claimed_at and run.leased_at:
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
                is_claim = self.runs[number].status in _CLAIMED
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
            if run.status in PENDING and run.rule is not None:
                if self.rules.get(run.rule) is rule:
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
            rule.planned = _cron_before(self.now)
            rule.due = rule.planned + CRON_STEP
        rule.free[DUE] = 1


_CLAIMED: Final = ("dispatched", "waiting_local_directory")
_EXECUTING: Final = (*_CLAIMED, "running")


def _cron_before(at: datetime) -> datetime:
    """Return the last occurrence of the one expression, at or before an instant."""
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return start + (at - start) // CRON_STEP * CRON_STEP
