"""What can happen in the machine's histories: each act as the model tells it and as it is done.

An act is built from the model as it stands and from numbers that Hypothesis draws, whose shape
never depends on the model: where nothing fits, there is no act. So a history can be replayed even
where two writers raced in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from engine import limits
from engine.domain.commands.conversation import (
    AddIssueReaction,
    BindAttachment,
    DeleteComment,
    RemoveIssueReaction,
    ResolveComment,
    UnresolveComment,
    UpdateComment,
)
from engine.domain.commands.runs import (
    CancelRun,
    CompleteRun,
    CreateRun,
    FailRun,
    RerunIssue,
    StartRun,
    WaitLocalDirectory,
)
from engine.domain.commands.tracker import (
    ArchiveAgent,
    AttachLabel,
    ClearProperty,
    CreateComment,
    DetachLabel,
    PatchMetadata,
    SetProperty,
    UnarchiveAgent,
    UpdateAgent,
    UpdateIssue,
)
from engine.domain.commands.wakeups import (
    CreateRule,
    DeleteRule,
    DisableRule,
    EditInstruction,
    EnableRule,
    ReplaceRule,
    TriggerRule,
)
from engine.domain.rules import RuleDraft
from tests.model.wakeup_model import PENDING, PRIORITIES, SYSTEM, UNFINISHED, Caller, Draft, Model
from tests.model.wakeup_place import Place

T = TypeVar("T")
evolve = attrs.evolve

OPEN_STATUSES: Final = ("todo", "in_progress", "in_review")
RULES_MAX: Final = 4
OFFLINE_MAX: Final = timedelta(hours=2)
# The engine comes back to a row that was locked: a moment later, also in virtual time.
MOMENT: Final = timedelta(seconds=limits.RECOVERY_PAUSE_SECONDS)


@attrs.frozen(kw_only=True)
class Act:
    """One transaction of somebody: what the requirements say of it, and how it is done."""

    name: str
    tell: Callable[[Model], set[int]]
    do: Callable[[Place], Awaitable[object]]
    needs_sweep: bool = False  # nobody tells the engine


def pick(items: Sequence[T], number: int) -> T | None:
    """Return one of the items, None where there are none."""
    return items[number % len(items)] if items else None


def callers(model: Model, *, people_only: bool = False) -> list[Caller]:
    """Return who can act now: members, and the agents of running runs."""
    people = [Caller(name) for name in sorted(model.people)]
    if people_only:
        return people
    return people + [
        Caller(run.person, run.agent, number)
        for number, run in enumerate(model.runs)
        if run.status == "running" and run.person in model.people
    ]


def by(caller: Caller, command: Callable[[Place], Any]) -> Callable[[Place], Awaitable[object]]:
    """Return how a caller carries out a command, which is built when everything has an id."""

    async def do(place: Place) -> object:
        if caller.run is not None:
            return await place.act_as_run(caller.run, command(place))
        assert caller.person is not None
        return await place.submit(caller.person, command(place))

    return do


# --- The issue ----------------------------------------------------------------------------------


def on_issue(model: Model, caller: Caller, what: str, number: int) -> Act | None:
    """Change the issue or what hangs on it."""
    match what:
        case "comment":
            return _new_comment(model, caller)
        case "edit" | "resolve" | "unresolve" | "delete":
            return _old_comment(model, caller, what, number)
        case "status":
            return _status(caller, OPEN_STATUSES[number % 3])
        case "assignee":
            return _assign(model, caller, ("A", "M", None, "B")[number % 4])
        case "attachment":  # nobody else sees a file that hangs on nothing
            return _field(Caller("O"), what, number)
        case _:
            return _field(caller, what, number)


def _new_comment(model: Model, caller: Caller) -> Act:
    number = max(model.comments, default=0) + 1 + len(model.runs) * 1_000
    while number in model.comments:
        number += 1

    async def do(place: Place) -> None:
        make = by(caller, lambda place: CreateComment(issue_id=place.issue, body="Hello"))
        place.comments[number] = (await make(place)).id  # type: ignore[attr-defined]

    return Act(name=f"comment {number}", tell=partial(_tell_comment, caller, number), do=do)


def _tell_comment(caller: Caller, number: int, model: Model) -> set[int]:
    return model.comment(caller, number)


def _old_comment(model: Model, caller: Caller, how: str, number: int) -> Act | None:
    which = pick(sorted(model.comments), number)
    if which is None:
        return None
    author = model.comments[which]["author"]
    if how in ("edit", "delete") and author != caller.actor:
        caller = Caller("O")
    text = number % 2
    make: dict[str, Callable[[Place], Any]] = {
        "edit": lambda p: UpdateComment(comment_id=p.comments[which], body=("Hello", "Bye")[text]),
        "resolve": lambda p: ResolveComment(comment_id=p.comments[which]),
        "unresolve": lambda p: UnresolveComment(comment_id=p.comments[which]),
        "delete": lambda p: DeleteComment(comment_id=p.comments[which]),
    }
    return Act(
        name=f"{how} comment {which}",
        tell=lambda model: model.change_comment(caller, which, how, text),
        do=by(caller, make[how]),
    )


def _status(caller: Caller, status: str) -> Act:
    return Act(
        name=f"status {status}",
        tell=lambda model: model.set_status(caller, status),
        do=by(caller, lambda place: UpdateIssue(issue_id=place.issue, status=status)),
    )


def close(caller: Caller, *, status: str) -> Act:
    """Close the issue."""
    return _status(caller, status)


def _assign(model: Model, caller: Caller, to: str | None) -> Act | None:
    if to is not None and _is_claimed(model, to):
        return None
    kind = None if to is None else "member" if to == "M" else "agent"

    def command(place: Place) -> UpdateIssue:
        whom = None if to is None else place.people[to].user_id if to == "M" else place.agents[to]
        return UpdateIssue(issue_id=place.issue, assignee_type=kind, assignee_id=whom)

    return Act(
        name=f"assign to {to}",
        tell=lambda model: model.assign(caller, to),
        do=by(caller, command),
    )


def _field(caller: Caller, what: str, number: int) -> Act:
    is_on = bool(number % 2)
    name = f"reaction of {caller.actor}" if what == "reaction" else what
    value: object = {"title": number % 3, "priority": PRIORITIES[number % 5]}.get(what, is_on)
    types = {
        "title": ("issue.updated",),
        "priority": ("issue.updated",),
        "parent": ("issue.updated", "issue.parent_changed"),
        "label": ("issue.labels_changed",),
        "property": ("issue.updated", "issue.properties_changed"),
        "metadata": ("issue.updated", "issue.metadata_changed"),
        "reaction": ("reaction.added" if is_on else "reaction.removed",),
        "attachment": ("attachment.attached" if is_on else "attachment.detached",),
    }[what]

    def command(place: Place) -> Any:
        issue, at = place.issue, {"issue_id": place.issue}
        return {
            "title": lambda: UpdateIssue(**at, title=f"Issue {value}"),
            "priority": lambda: UpdateIssue(**at, priority=str(value)),
            "parent": lambda: UpdateIssue(**at, parent_id=place.parent if is_on else None),
            "label": lambda: (AttachLabel if is_on else DetachLabel)(**at, label_id=place.label),
            "property": lambda: (
                SetProperty(issue_id=issue, property_id=place.property, value="large")
                if is_on
                else ClearProperty(issue_id=issue, property_id=place.property)
            ),
            "metadata": lambda: PatchMetadata(**at, patch={"key": "on" if is_on else None}),
            "reaction": lambda: (AddIssueReaction if is_on else RemoveIssueReaction)(
                **at, emoji="eyes"
            ),
            "attachment": lambda: BindAttachment(
                attachment_id=place.attachment, issue_id=issue if is_on else None
            ),
        }[what]()

    before = {"title": -1, "priority": "none"}.get(what, False)
    return Act(
        name=f"{name}: {value}",
        tell=lambda model: model.set_field(caller, name, value, before, *types),
        do=by(caller, command),
    )


def by_psql(model: Model, what: str) -> Act:
    """A change by a writer without settings (W-038): a comment of M's, or a status."""
    if what == "comment":
        made = _new_comment(model, Caller("M"))
        number = int(made.name.split()[1])

        async def comment(place: Place) -> None:
            text = (
                "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
                " VALUES ($1, $2, 'member', $3, 'Hello') RETURNING id"
            )
            person = place.people["M"].user_id
            place.comments[number] = await place.psql(
                text, place.issue, place.world.workspace_id, person
            )

        return Act(name="comment by psql", tell=made.tell, do=comment, needs_sweep=True)

    async def status(place: Place) -> None:
        await place.psql("UPDATE issue SET status = $2 WHERE id = $1", place.issue, what)

    return Act(
        name=f"status {what} by psql",
        tell=lambda model: model.set_status(SYSTEM, what),
        do=status,
        needs_sweep=True,
    )


# --- Rules --------------------------------------------------------------------------------------


def _stored(place: Place, draft: Draft, text: int) -> RuleDraft:
    """Return a draft as the engine takes it."""
    who = None
    if draft.filter_actor is not None:
        kind, name = draft.filter_actor
        who = place.people[name].user_id if kind == "member" else place.agents[name]
    return RuleDraft(
        agent_id=place.agents[draft.agent],
        instruction=f"Text {text}",
        kind=draft.kind,
        mode=draft.mode,
        event_types=draft.types,
        filter_actor_type=draft.filter_actor[0] if draft.filter_actor else None,
        filter_actor_id=who,
        filter_agent_id=place.agents[draft.filter_agent] if draft.filter_agent else None,
        filter_task_id=None if draft.filter_run is None else place.runs[draft.filter_run],
        after_seconds=draft.after if draft.kind == "at" else None,
        interval_seconds=draft.after if draft.kind == "every" else None,
        cron_expression="*/5 * * * *" if draft.kind == "cron" else None,
    )


def create(model: Model, caller: Caller, draft: Draft) -> Act | None:
    """Leave one more rule, up to a few."""
    if len(model.rules) >= RULES_MAX:
        return None
    number = model.numbered

    async def do(place: Place) -> None:
        make = by(caller, lambda p: CreateRule(issue_id=p.issue, draft=_stored(p, draft, 0)))
        place.rules[number] = (await make(place)).id  # type: ignore[attr-defined]

    return Act(
        name=f"create rule {number}: {draft}",
        tell=lambda model: model.create(caller, number, draft),
        do=do,
    )


def on_rule(model: Model, caller: Caller, what: str, number: int, draft: Draft) -> Act | None:
    """Do something to one of the rules."""
    which = pick(list(model.rules), number)
    if which is None:
        return None
    rule = model.rules[which]
    odd, stale = bool(number // 8 % 2), number // 16 % 4 == 0
    revision = rule.revision + stale
    at = (None, None, 60)[number // 64 % 3]
    text = number // 8 % 2

    def command(place: Place) -> Any:
        whose = {"issue_id": place.issue, "rule_id": place.rules[which]}
        if what == "replace":
            return ReplaceRule(**whose, draft=_stored(place, draft, rule.text))
        if what == "enable":
            when = None if at is None else place.now + timedelta(seconds=at)
            return EnableRule(**whose, revision=revision, rearm=odd, at=when)
        if what == "edit":
            return EditInstruction(
                **whose,
                instruction=f"Text {text}",
                expected_instruction=f"Text {rule.text + stale}",
                revision=rule.revision,
            )
        return {"disable": DisableRule, "delete": DeleteRule, "trigger": TriggerRule}[what](**whose)

    tell: dict[str, Callable[[Model], set[int]]] = {
        "replace": lambda model: model.replace(caller, which, draft),
        "enable": lambda model: model.enable(caller, which, revision, rearm=odd, at=at),
        "edit": lambda model: model.edit(caller, which, rule.text + stale, rule.revision, text),
        "disable": lambda model: model.disable(caller, which),
        "delete": lambda model: model.delete(caller, which),
        "trigger": lambda model: model.trigger(caller, which),
    }
    return Act(
        name=f"{what} rule {which} by {caller} ({revision=} {odd=} {at=} {text=} {draft})",
        tell=tell[what],
        do=by(caller, command),
    )


# --- Runs ---------------------------------------------------------------------------------------


def _is_claimed(model: Model, agent: str) -> bool:
    """Tell whether an ordinary run is claimed: what comes behind it is deferred, another story."""
    return any((r.agent, r.rule, r.status) == (agent, None, "dispatched") for r in model.runs)


def ask(model: Model, caller: Caller, agent: str) -> Act | None:
    """Queue an ordinary run by hand."""
    if _is_claimed(model, agent):
        return None
    return Act(
        name=f"ask {agent}",
        tell=lambda model: model.ask(caller, agent),
        do=by(caller, lambda p: CreateRun(issue_id=p.issue, agent_id=p.agents[agent])),
    )


def cancel(model: Model, number: int) -> Act | None:
    """Stop an unfinished run."""
    which = pick([n for n, run in enumerate(model.runs) if run.status in UNFINISHED], number)
    if which is None:
        return None
    return Act(
        name=f"cancel run {which}",
        tell=lambda model: model.cancel(which),
        do=by(Caller("O"), lambda place: CancelRun(run_id=place.runs[which])),
    )


def rerun(model: Model, caller: Caller, number: int) -> Act | None:
    """Run once more what has ended."""
    ended = [n for n, run in enumerate(model.runs) if run.status not in UNFINISHED]
    which = pick(ended, number)
    if which is None:
        return None
    return Act(
        name=f"rerun run {which}",
        tell=lambda model: model.rerun(caller, which),
        do=by(caller, lambda place: RerunIssue(issue_id=place.issue, task_id=place.runs[which])),
    )


def claim(model: Model, daemon: str) -> Act | None:
    """A daemon asks for one run."""
    mine = [run for run in model.runs if model.agents[run.agent].daemon == daemon]
    if daemon not in model.online or not any(run.status in PENDING for run in mine):
        return None
    return Act(
        name=f"claim by {daemon}",
        tell=lambda model: model.claim(daemon),
        do=lambda place: place.claim(daemon),
    )


def report(model: Model, daemon: str, how: str, number: int) -> Act | None:
    """A daemon starts, completes or fails one of its runs."""
    if daemon not in model.online:
        return None
    statuses = {
        "start": ("dispatched", "waiting_local_directory"),
        "wait": ("dispatched",),
        "complete": ("running",),
        "say": ("running",),
    }.get(how, ("dispatched", "running", "waiting_local_directory"))
    which = pick(
        [
            n
            for n, run in enumerate(model.runs)
            if model.agents[run.agent].daemon == daemon and run.status in statuses
        ],
        number,
    )
    if which is None:
        return None

    def command(place: Place) -> Any:
        run_id = place.runs[which]
        held = place.claims[run_id].dispatched_at
        if how == "start":
            return StartRun(run_id=run_id, dispatched_at=held)
        if how == "wait":
            return WaitLocalDirectory(run_id=run_id, reason="busy", dispatched_at=held)
        if how in ("complete", "say"):
            output = "done" if how == "say" else ""
            return CompleteRun(run_id=run_id, output=output, dispatched_at=held)
        return FailRun(run_id=run_id, error="No", failure_reason=how, dispatched_at=held)

    tell: dict[str, Callable[[Model], set[int]]] = {
        "start": lambda model: model.start(which),
        "wait": lambda model: model.wait(which),
        "complete": lambda model: model.complete(which, says=False),
        "say": lambda model: model.complete(which, says=True),
    }
    return Act(
        name=f"{how} run {which}",
        tell=tell.get(how, lambda model: model.fail(which, how)),
        do=lambda place: place.report(daemon, command(place)),
    )


# --- Rights, runtimes, time ---------------------------------------------------------------------


def rights(model: Model, what: str, number: int) -> Act | None:
    """Give or take what people may and agents can."""
    agent, person = ("A", "B")[number % 2], ("M", "N")[number // 2 % 2]
    invokers = frozenset({person}) if number // 4 % 2 else frozenset[str]()

    async def do(place: Place) -> None:
        whom = place.agents[agent]
        people = tuple(
            user for each in invokers if (user := place.people[each].user_id) is not None
        )
        match what:
            case "member":
                await (place.expel(person) if person in model.people else place.admit(person))
            case "private":
                command = UpdateAgent(agent_id=whom, visibility="private", invokers=people)
                await place.submit("O", command)
            case "open":
                await place.submit("O", UpdateAgent(agent_id=whom, visibility="workspace"))
            case _:
                is_archived = model.agents[agent].is_archived
                await place.submit(
                    "O", (UnarchiveAgent if is_archived else ArchiveAgent)(agent_id=whom)
                )

    def tell(model: Model) -> set[int]:
        return model.change_rights(what, agent, person, invokers)

    if invokers - model.people:
        return None
    return Act(name=f"{what} {agent} {person} {invokers}", tell=tell, do=do, needs_sweep=True)


def connection(model: Model, daemon: str, *, restarts: bool) -> Act:
    """A daemon goes offline or comes back, or is started anew."""
    if daemon in model.online and not restarts:
        return Act(
            name=f"{daemon} goes",
            tell=lambda model: model.go(daemon),
            do=lambda place: place.daemons[daemon].go_offline(),
        )

    async def do(place: Place) -> None:
        await place.daemons[daemon].come_back(restarted=restarts)
        await place.sweep()
        await place.world.advance(MOMENT)

    def tell(model: Model) -> set[int]:
        model.come(daemon, restarted=restarts)
        model.settle()
        return model.pass_to(model.now + MOMENT)

    return Act(name=f"{daemon} comes", tell=tell, do=do)


def time(model: Model, seconds: int, *, jumps: bool) -> Act | None:
    """Time passes, stop by stop or at one go; not while a daemon is away for hours."""
    target = model.now + timedelta(seconds=seconds)
    if any(target - since > OFFLINE_MAX for since in model.away.values()):
        return None


    async def do(place: Place) -> None:
        await (place.world.step_to(target) if jumps else place.world.advance(target))
        await place.world.advance(MOMENT)

    def tell(model: Model) -> set[int]:
        (model.jump_to if jumps else model.pass_to)(target)
        model.settle()
        return model.pass_to(target + MOMENT)

    return Act(name=f"{'jump' if jumps else 'pass'} {seconds} s", tell=tell, do=do)
