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

from engine.domain.commands.conversation import (
    AddIssueReaction,
    BindAttachment,
    DeleteComment,
    RemoveIssueReaction,
    ResolveComment,
    UnresolveComment,
    UpdateComment,
)
from engine.domain.commands.tracker import (
    AttachLabel,
    ClearProperty,
    CreateComment,
    DetachLabel,
    PatchMetadata,
    SetProperty,
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
from tests.model.wakeup_model import Model
from tests.model.wakeup_place import Place
from tests.model.wakeup_records import PRIORITIES, SYSTEM, Caller, Draft

T = TypeVar("T")
evolve = attrs.evolve

OPEN_STATUSES: Final = ("todo", "in_progress", "in_review")
RULES_MAX: Final = 4


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


def is_claimed(model: Model, agent: str) -> bool:
    """Tell whether an ordinary run is claimed: what comes behind it is deferred, another story."""
    return any((r.agent, r.rule, r.status) == (agent, None, "dispatched") for r in model.runs)


def by(caller: Caller, command: Callable[[Place], Any]) -> Callable[[Place], Awaitable[Any]]:
    """Return how a caller carries out a command, which is built when everything has an id."""

    async def do(place: Place) -> Any:
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
            return _new_comment(caller, max(model.comments, default=0) + 1)
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


def _new_comment(caller: Caller, number: int) -> Act:
    async def do(place: Place) -> None:
        make = by(caller, lambda place: CreateComment(issue_id=place.issue, body="Hello"))
        place.comments[number] = (await make(place)).id

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
    if to is not None and is_claimed(model, to):
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
        issue, at = place.issue, dict[str, Any](issue_id=place.issue)
        make: dict[str, Callable[[], Any]] = {
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
        }
        return make[what]()

    before = {"title": -1, "priority": "none"}.get(what, False)
    return Act(
        name=f"{name}: {value}",
        tell=lambda model: model.set_field(caller, name, value, before, *types),
        do=by(caller, command),
    )


def by_psql(model: Model, what: str) -> Act:
    """A change by a writer without settings (W-038): a comment of M's, or a status."""
    if what == "comment":
        number = max(model.comments, default=0) + 2  # the next one may be made at the same time
        made = _new_comment(Caller("M"), number)

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
        place.rules[number] = (await make(place)).id

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
        whose: dict[str, Any] = {"issue_id": place.issue, "rule_id": place.rules[which]}
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
