"""What can happen to runs in the machine's histories, and to rights, runtimes and time.

Acts as those of `wakeup_acts`: built from the model as it stands and from drawn numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from engine import limits
from engine.domain.commands.runs import (
    CancelRun,
    CompleteRun,
    CreateRun,
    FailRun,
    RerunIssue,
    StartRun,
    WaitLocalDirectory,
)
from engine.domain.commands.tracker import ArchiveAgent, UnarchiveAgent, UpdateAgent
from tests.model.wakeup_acts import Act, by, is_claimed, pick
from tests.model.wakeup_model import Model
from tests.model.wakeup_place import Place
from tests.model.wakeup_records import EXECUTING, REDELIVERY, UNFINISHED, Caller

OFFLINE_MAX: Final = timedelta(hours=2)
# The engine comes back to a row that was locked: a moment later, also in virtual time.
MOMENT: Final = timedelta(seconds=limits.RECOVERY_PAUSE_SECONDS)


# --- Runs ---------------------------------------------------------------------------------------


def ask(model: Model, caller: Caller, agent: str) -> Act | None:
    """Queue an ordinary run by hand."""
    if is_claimed(model, agent):
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
    is_lost = any(run.claimed_at and model.now - run.claimed_at >= REDELIVERY for run in mine)
    is_queued = any(run.status == "queued" for run in mine)
    is_busy = any(run.status in EXECUTING for run in mine)
    if daemon not in model.online or not (is_lost or (is_queued and not is_busy)):
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
