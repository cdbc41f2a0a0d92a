"""The engine and the model of the requirements live through the same random histories.

After every step what is visible of both is equal, and no guarantee is broken. Two writers at once
may be told in any order, with or without a dispatch between them; the engine must agree with one,
and where it agrees with several, all of them are told on.

`make test` lives through the same histories until the code changes, from whose numbers Hypothesis
draws, too. `make model` lives through as many others as `MODEL_EXAMPLES` says, tells how often what
happened, and shortens a history that fails.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any, Final

import attrs
import pytest
import trio
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from engine.errors import WakefulError
from engine.storage.postgres import Postgres
from tests.model import wakeup_acts as acts
from tests.model import wakeup_run_acts as run_acts
from tests.model.wakeup_acts import Act
from tests.model.wakeup_comparison import differences
from tests.model.wakeup_model import Model
from tests.model.wakeup_place import Place, Thread, engine_thread
from tests.model.wakeup_records import Draft

EXAMPLES: Final = int(os.environ.get("MODEL_EXAMPLES", "150"))
STEPS: Final = 40
RUN_TYPES: Final = (
    "task.queued",
    "task.dispatched",
    "task.started",
    "task.waiting_local_directory",
    "task.completed",
    "task.failed",
    "task.cancelled",
)
CHANGES: Final = (
    "issue.updated",
    "issue.status_changed",
    "issue.assignee_changed",
    "issue.parent_changed",
    "issue.labels_changed",
    "issue.properties_changed",
    "issue.metadata_changed",
    "comment.created",
    "comment.updated",
    "comment.deleted",
    "comment.resolved",
    "comment.unresolved",
    "reaction.added",
    "reaction.removed",
    "attachment.attached",
    "attachment.detached",
)
ALL: Final = CHANGES + RUN_TYPES
# Kinds of acts that the histories of `make test` must contain: none may fall out unseen.
EVERYTHING: Final = """
create replace enable edit disable delete trigger comment resolve unresolve status assign title:
priority: parent: label: property: metadata: reaction attachment: ask cancel rerun claim start wait
complete say timeout agent_error member private open archive d e jump pass
"""


@attrs.frozen(kw_only=True)
class Mutant:
    """A trigger that makes the engine do something else, and what the machine says of it."""

    table: str
    when: str
    does: str
    said: str


MUTANTS: Final = (
    Mutant(  # forgets what was merged (W-063)
        table="issue_wakeup_receipt",
        when="(NEW.payload ->> 'coalesced_count')::int > 1",
        does="NEW.payload := NEW.payload || jsonb_build_object('coalesced_count', 1)",
        said="'comment.created': 1}, expected",
    ),
    Mutant(  # lets a spent one-shot watch on (W-001)
        table="issue_wakeup",
        when="NEW.mode = 'once' AND NOT NEW.enabled AND NEW.disabled_at IS NULL",
        does="NEW.enabled := true",
        said="enabled is True, expected False",
    ),
    Mutant(  # leaves the queued runs of rules that are switched off (W-027, W-186)
        table="agent_task_queue",
        when="NEW.status = 'cancelled' AND NEW.error ~ 'switched off|closed'",
        does="NEW.status := 'queued'",
        said="status is queued, expected cancelled",
    ),
    Mutant(  # retries for ever (W-110)
        table="agent_task_queue",
        when="NEW.attempt > 1",
        does="NEW.attempt := 1",
        said="attempt is 1, expected 2",
    ),
)

WHAT: Final = st.sampled_from(
    ("comment",) * 4
    + ("status",) * 2
    + ("edit", "resolve", "unresolve", "delete", "assignee", "title", "priority", "parent")
    + ("label", "property", "metadata", "reaction", "attachment")
)
ENDS: Final = st.sampled_from(("say", "complete", "timeout", "agent_error"))
NUMBER: Final = st.integers(0, 2**12 - 1)
DAEMON: Final = st.sampled_from(("d", "d", "e"))
USUAL: Final = st.sampled_from((ALL, CHANGES, ("comment.created",)))
TYPES: Final = st.one_of(
    USUAL,
    st.just(("task.completed", "task.failed")),
    st.lists(st.sampled_from(ALL), min_size=1, max_size=4, unique=True).map(tuple),
)


@st.composite
def drafts(draw: st.DrawFn) -> tuple[Draft, int]:
    """Return a configuration of any kind, and a number that names what it watches."""
    agent = draw(st.sampled_from(("A", "A", "B")))
    timer = draw(st.sampled_from(("event",) * 6 + ("at", "every", "cron")))
    mode = draw(st.sampled_from(("continuous", "continuous", "once")))
    types = draw(TYPES)
    watched = draw(st.sampled_from(("",) * 6 + ("agent", "run", "M", "N", "A", "B")))
    number = draw(NUMBER)
    if timer != "event":
        mode = "once" if timer == "at" else "continuous"
        return Draft(agent=agent, kind=timer, mode=mode, after=60 + number % 3 * 45), number
    runs = tuple(each for each in types if each.startswith("task."))
    changes = tuple(each for each in types if not each.startswith("task."))
    draft = Draft(agent=agent, mode=mode, types=types)
    match watched:
        case "agent" if runs:
            return acts.evolve(draft, filter_agent=agent), number
        case "agent":  # W-057: stored as a filter of the actor
            return acts.evolve(draft, filter_actor=("agent", agent)), number
        case "run":
            return acts.evolve(draft, types=runs or ("task.completed",), filter_run=number), number
        case "":
            return draft, number
        case _:
            who = ("member" if watched in "MN" else "agent", watched)
            types = changes or ("comment.created",)
            return acts.evolve(draft, types=types, filter_actor=who), number


class Machine(RuleBasedStateMachine):
    """One history on one issue; every step is told to the model and done to the engine."""

    thread: Thread
    place: Place
    tally: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.models = [Model(now=self.place.now)]
        self.story: list[str] = []

    @initialize(types=USUAL, second=drafts(), who=NUMBER)
    def opened(self, types: tuple[str, ...], second: tuple[Draft, int], who: int) -> None:
        """A new issue with two rules, one of which is told much, and everybody in their place."""
        first = Draft(agent="A", mode="continuous", types=types), 0
        self.models = [Model(now=self.thread.call(self.place.begin))]
        for number, draft in enumerate((first, second)):
            self.somebody_leaves_a_rule(draft, who + number)

    def teardown(self) -> None:
        """W-189: deleting the issue leaves nothing of it."""
        archived = {name for name, agent in self.model.agents.items() if agent.is_archived}
        self.thread.call(self.place.end, self.model.people, archived)

    # --- Steps -----------------------------------------------------------------------------------

    @rule(draft=drafts(), who=NUMBER)
    def somebody_leaves_a_rule(self, draft: tuple[Draft, int], who: int) -> None:
        """W-015: a rule watches from its commit onward."""
        if caller := acts.pick(acts.callers(self.model), who):
            self.step(acts.create(self.model, caller, self._watching(*draft)))

    @rule(
        what=st.sampled_from(("replace", "enable", "enable", "edit", "disable", "delete")),
        draft=drafts(),
        who=NUMBER,
        number=NUMBER,
    )
    def somebody_changes_a_rule(
        self, what: str, draft: tuple[Draft, int], who: int, number: int
    ) -> None:
        """W-020 to W-032: replace, enable, edit, disable, delete."""
        if caller := acts.pick(acts.callers(self.model), who):
            watching = self._watching(*draft)
            self.step(acts.on_rule(self.model, caller, what, number, watching))

    @rule(who=NUMBER, number=NUMBER)
    def somebody_wakes_by_hand(self, who: int, number: int) -> None:
        """W-030: wake now."""
        if caller := acts.pick(acts.callers(self.model), who):
            nothing = Draft(agent="A")
            self.step(acts.on_rule(self.model, caller, "trigger", number, nothing))

    @rule(what=WHAT, who=NUMBER, number=NUMBER)
    def something_happens(self, what: str, who: int, number: int) -> None:
        """W-036: facts from people and from runs."""
        self.step(self._fact(what, who, number, people_only=False))

    @rule(what=WHAT, who=NUMBER, number=NUMBER)
    def something_else_happens(self, what: str, who: int, number: int) -> None:
        """W-036: as above, and as often again."""
        self.step(self._fact(what, who, number, people_only=False))

    @rule(what=st.sampled_from(("comment", "comment", *acts.OPEN_STATUSES, "done")))
    def somebody_uses_psql(self, what: str) -> None:
        """W-038: a writer without settings."""
        self.step(acts.by_psql(self.model, what))

    @rule(
        first=WHAT,
        second=st.sampled_from(("comment", "status", "label", "psql", "start", "complete", "fail")),
        who=NUMBER,
        other=NUMBER,
    )
    def two_things_happen_at_once(self, first: str, second: str, who: int, other: int) -> None:
        """W-062: two writers, in whatever order."""
        one = self._fact(first, who, who, people_only=True)
        if second == "psql":
            two: Act | None = acts.by_psql(self.model, "comment")
        elif second in ("start", "complete", "fail"):
            how = "timeout" if second == "fail" else second
            two = run_acts.report(self.model, "d", how, other)
        else:
            two = self._fact(second, other, other, people_only=True)
        if one and two and one.name != two.name:
            self.step(one, two)

    @rule(who=NUMBER, status=st.sampled_from(("done", "cancelled", "todo", "in_review")))
    def the_issue_is_closed_or_reopened(self, who: int, status: str) -> None:
        """W-186, W-187: closing switches off, reopening nothing on."""
        if (who % 3 == 0) or self.model.is_closed:
            caller = acts.pick(acts.callers(self.model), who)
            assert caller is not None
            self.step(acts.close(caller, status=status))

    @rule(who=NUMBER, agent=st.sampled_from(("A", "A", "B")))
    def somebody_asks_for_a_run(self, who: int, agent: str) -> None:
        """W-098: ordinary runs queue beside those of rules."""
        caller = acts.pick(acts.callers(self.model, people_only=True), who)
        if caller and not self.model.is_closed:
            self.step(run_acts.ask(self.model, caller, agent))

    @rule(daemon=DAEMON)
    def a_daemon_claims(self, daemon: str) -> None:
        """W-101, W-106: the next run that passes the gate."""
        self.step(run_acts.claim(self.model, daemon))

    @rule(daemon=DAEMON, how=ENDS, number=NUMBER)
    def a_daemon_works(self, daemon: str, how: str, number: int) -> None:
        """W-094: start what is claimed, end what runs, else claim."""
        self.step(
            run_acts.report(self.model, daemon, "start", number)
            or run_acts.report(self.model, daemon, how, number)
            or run_acts.claim(self.model, daemon)
        )

    @rule(daemon=DAEMON, how=st.one_of(st.sampled_from(("start", "wait")), ENDS), number=NUMBER)
    def a_daemon_reports(self, daemon: str, how: str, number: int) -> None:
        """W-097: starts, completions and failures."""
        self.step(run_acts.report(self.model, daemon, how, number))

    @rule(who=NUMBER, number=NUMBER, again=st.booleans())
    def a_run_is_cancelled_or_rerun(self, who: int, number: int, again: bool) -> None:
        """W-094, W-111: stopped by hand, or once more."""
        caller = acts.pick(acts.callers(self.model, people_only=True), who)
        assert caller is not None
        rerun = run_acts.rerun(self.model, caller, number)
        self.step(rerun if again else run_acts.cancel(self.model, number))

    @rule(
        what=st.sampled_from(("member", "member", "private", "open", "open", "archive")),
        number=NUMBER,
    )
    def rights_change(self, what: str, number: int) -> None:
        """W-196: authority is judged when it is used."""
        self.step(run_acts.rights(self.model, what, number))

    @rule(daemon=DAEMON, restarts=st.sampled_from((False, False, True)))
    def a_daemon_goes_or_comes(self, daemon: str, restarts: bool) -> None:
        """W-109, W-110: runtimes go offline and come back."""
        self.step(run_acts.connection(self.model, daemon, restarts=restarts))

    @rule(seconds=st.sampled_from((1, 20, 45, 60, 100, 200, 400, 3_600)), jumps=st.booleans())
    def time_passes(self, seconds: int, jumps: bool) -> None:
        """W-084: one clock, which everything follows."""
        self.step(run_acts.time(self.model, seconds, jumps=jumps))

    def _anything(self) -> Act:
        """Return what the daemons have to do, now and then a comment instead."""
        number = len(self.story)
        begins = "start" if number % 4 else "wait"
        ends = ("say", "complete", "timeout", "say", "complete", "agent_error")[number % 6]
        turn = ("", "claim", "", "", begins, "", ends)[number % 7]
        for daemon in sorted(self.model.online) if turn else ():
            if turn == "claim":
                act = run_acts.claim(self.model, daemon)
            else:
                act = run_acts.report(self.model, daemon, turn, number)
            if act is not None:
                return act
        comment = self._fact("comment", number, 0, people_only=False)
        assert comment is not None
        return comment

    # --- What a step is --------------------------------------------------------------------------

    def _watching(self, draft: Draft, number: int) -> Draft:
        """Return the draft with the run that it watches, if there is any run."""
        if draft.filter_run is None:
            return draft
        runs = range(len(self.model.runs))
        return acts.evolve(draft, filter_run=acts.pick(runs, number))

    def _fact(self, what: str, who: int, number: int, *, people_only: bool) -> Act | None:
        caller = acts.pick(acts.callers(self.model, people_only=people_only), who)
        assert caller is not None
        return acts.on_issue(self.model, caller, what, number)

    def step(self, *given: Act | None) -> None:
        """Tell the model and do it; the engine must agree with one of the model's outcomes.

        Where there is nothing to do, somebody comments.
        """
        doing = [act for act in given if act is not None] or [self._anything()]
        self.story.append(" and ".join(act.name for act in doing))
        answers, seen, broken = self.thread.call(self._do, doing)
        assert not broken, broken
        self.tally.update(act.name.split()[0] for act in doing)
        agreed: list[Model] = []
        nearest: list[str] = []
        for model in self.models:
            for refusals, told in model.outcomes(lambda model: _foretell(model, doing)):
                different = list(differences(told, self.place, seen))
                for act, answer, refused in zip(doing, answers, refusals, strict=True):
                    if answer not in (refused or {0}):
                        wanted = refused or "yes"
                        different.append(f"{act.name}: answers {answer}, expected {wanted}")
                if not different and told not in agreed:
                    agreed.append(told)
                if not nearest or len(different) < len(nearest):
                    nearest = different
        assert agreed, "\n".join(["the story:", *self.story, "is not as told:", *nearest])
        self.models = agreed

    @property
    def model(self) -> Model:
        """One of the models that agree with all that was seen so far."""
        return self.models[0]

    async def _do(self, doing: list[Act]) -> tuple[list[int], dict[str, Any], list[Any]]:
        """Do one or two acts at once, and look at what there is when all is quiet."""
        answers = [0] * len(doing)

        async def do(number: int) -> None:
            try:
                await doing[number].do(self.place)
            except WakefulError as error:
                answers[number] = error.kind.status

        async with trio.open_nursery() as nursery:
            for number in range(len(doing)):
                nursery.start_soon(do, number)
        if any(act.needs_sweep for act in doing):
            await self.place.sweep()
        return answers, await self.place.look(), await self.place.broken()


def _foretell(model: Model, doing: list[Act]) -> list[set[int]]:
    """Tell acts in some order, with or without a dispatch in between, and then dispatch."""
    orders = list(permutations(range(len(doing))))
    answers: list[set[int]] = [set()] * len(doing)
    order = orders[model.either(len(orders))]
    for number in order:
        answers[number] = doing[number].tell(model)
        if number != order[-1] and model.either(2):
            model.settle()
    model.settle()
    return answers


def live(
    thread: Thread, place: Place, *, examples: int, is_random: bool = False, shrinks: bool = True
) -> Counter[str]:
    """Live through histories, the same ones each time unless random; return what happened."""
    tally: Counter[str] = Counter()
    fields = {"thread": thread, "place": place, "tally": tally}
    machine = type("OneMachine", (Machine,), fields)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=not is_random,
            database=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        ),
    )
    return tally


def test_the_engine_does_what_the_requirements_say(database_url: str) -> None:
    """W-083: whatever people, agents, daemons and time do, rules, inputs and runs are as told."""
    is_long = "MODEL_EXAMPLES" in os.environ
    with engine_thread(database_url) as (thread, place):
        tally = live(thread, place, examples=EXAMPLES, is_random=is_long, shrinks=is_long)
    if is_long:
        sys.stdout.write(f"{tally.total()} steps: {dict(tally.most_common())}\n")
    else:
        assert set(tally) >= set(EVERYTHING.split())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.said)
def test_the_machine_notices_a_broken_engine(
    mutant: Mutant, postgres: Postgres, template_url: str, create_database: Callable[[str], str]
) -> None:
    """W-062: an engine that miscounts, repeats, or keeps what it must not is told apart."""
    url = postgres.dsn(create_database("template"))
    function = "CREATE FUNCTION mutate() RETURNS trigger LANGUAGE plpgsql"
    trigger = f"CREATE TRIGGER a_mutant BEFORE INSERT OR UPDATE ON {mutant.table} FOR EACH ROW"
    with engine_thread(url) as (thread, place):
        body = f"{function} AS $$ BEGIN {mutant.does}; RETURN NEW; END $$"
        thread.call(place.psql, body)
        thread.call(place.psql, f"{trigger} WHEN ({mutant.when}) EXECUTE FUNCTION mutate()")
        with pytest.raises(AssertionError, match="is not as told") as caught:
            live(thread, place, examples=EXAMPLES, shrinks=False)
    assert mutant.said in str(caught.value)
