"""The ground of the model: what is open in the requirements, rights, facts, and the issue."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Self, TypeVar

import attrs

from tests.model.wakeup_records import (
    CLOSED,
    PRIORITIES,
    UNSTARTED,
    Agent,
    Caller,
    Draft,
    Fact,
    Rule,
    Run,
)

T = TypeVar("T")


@attrs.define
class Ground:
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

    def outcomes(self, story: Callable[[Self], T]) -> Iterator[tuple[T, Self]]:
        """Tell a story in every way in which it may go; the model itself stays as it is."""
        frozen = pickle.dumps(self)
        choices: list[tuple[int, int]] = []
        while True:
            told: Self = pickle.loads(frozen)
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
        # Whom a private agent does not admit need not learn that it exists.
        refusals = set() if agent is None or self.may_invoke(caller.person, agent) else {400, 403}
        if self.agents[agent].is_archived if agent is not None else to not in {None, *self.people}:
            refusals |= {400}
        if self.fields.get("assignee") == to:  # it changes nothing, whoever may do it
            return refusals if self.either(2) else set()
        if refusals:
            return refusals
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
        if number not in self.comments:
            return {404}
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

    def _ordinary(self, agent: str, *statuses: str) -> list[int]:
        return [
            number
            for number, run in enumerate(self.runs)
            if run.rule is None and run.agent == agent and run.status in statuses
        ]

    def _new_run(self, agent: str, person: str) -> Run:
        rank = PRIORITIES.index(str(self.fields.get("priority", "none")))
        return Run(agent=agent, person=person, rank=rank, queued_at=self.now)

    def _call(self, agent: str, person: str) -> list[Fact]:
        """Queue an ordinary run; one that waits already takes the request in."""
        new = self._new_run(agent, person)
        if waiting := self._ordinary(agent, "queued"):
            [number] = waiting
            joined = self.runs[number]
            joined.rank, joined.queued_at = max(joined.rank, new.rank), self.now
            return []
        return [self._queue(new)]
