"""What daemons call: register, stay alive, claim runs and report on them."""

from __future__ import annotations

from typing import Any, Final

import attrs

from engine.domain.commands import runs as ask
from engine.domain.views.runs import (
    ClaimedRun,
    RegistrationView,
    ReportedRun,
    RunStatusView,
    RunView,
)
from web.routing import DAEMONS, Call, Routes
from web.schemas.inputs import Nothing
from web.schemas.runs import (
    Alive,
    Claim,
    Completion,
    Completions,
    Failure,
    Messages,
    Progress,
    Registration,
    Start,
    Starts,
    Waiting,
)

routes: Final = Routes("Daemons", kinds=DAEMONS)
_TASK: Final = "/daemon/tasks/{id}"


@attrs.frozen(kw_only=True)
class ClaimedTasks:
    """The runs that were handed out; none when the wait ended without work."""

    tasks: tuple[ClaimedRun, ...] = ()


@attrs.frozen(kw_only=True)
class ClaimedTask:
    """The run that was handed out, if there was one."""

    task: ClaimedRun | None


@attrs.frozen(kw_only=True)
class ReportedTasks:
    """What became of each report, in their order."""

    tasks: tuple[ReportedRun, ...]


@routes("POST", "/daemon/register", takes=Registration, answers=RegistrationView)
async def register_daemon(call: Call[Registration]) -> Any:
    """Register a daemon that has started; runs that it left in flight are recovered."""
    offered = tuple(
        ask.RuntimeDraft(name=each.name, provider=each.provider) for each in call.input.runtimes
    )
    command = ask.RegisterDaemon(
        workspace_id=call.workspace_id, **{**call.input.sent(), "runtimes": offered}
    )
    return await call.submit(command)


@routes("POST", "/daemon/heartbeat", takes=Alive)
async def heartbeat(call: Call[Alive]) -> None:
    """Say that a daemon and its runtimes are alive."""
    await call.submit(ask.Heartbeat(workspace_id=call.workspace_id, **call.input.sent()))


@routes("POST", "/daemon/tasks/claim", takes=Claim, answers=ClaimedTasks, polls=True)
async def claim_tasks(call: Call[Claim]) -> ClaimedTasks:
    """Take runs, waiting up to `wait_seconds` for the first.

    A server that stops ends the wait with no runs.
    """
    command = ask.ClaimRuns(workspace_id=call.workspace_id, **call.input.sent())
    with call.polls.waiting():
        return ClaimedTasks(tasks=tuple(await call.engine.claim(call.principal, command)))
    return ClaimedTasks()


@routes("POST", "/daemon/runtimes/{id}/tasks/claim", answers=ClaimedTask)
async def claim_task(call: Call[Nothing]) -> ClaimedTask:
    """Take the next run of one runtime, without waiting; `task` is null when there is none."""
    command = ask.ClaimOne(workspace_id=call.workspace_id, runtime_id=call.id)
    return ClaimedTask(task=await call.engine.submit(call.principal, command))


@routes("POST", "/daemon/tasks/start", takes=Starts, answers=ReportedTasks)
async def start_runs(call: Call[Starts]) -> ReportedTasks:
    """Start up to 100 runs; a run that cannot be started keeps none of the others back."""
    return await _report_all(call, ask.StartRuns, ask.StartRun)


@routes("POST", "/daemon/tasks/complete", takes=Completions, answers=ReportedTasks)
async def complete_runs(call: Call[Completions]) -> ReportedTasks:
    """End up to 100 runs with their results, each by itself; repeating it changes nothing."""
    return await _report_all(call, ask.CompleteRuns, ask.CompleteRun)


@routes("POST", f"{_TASK}/prepare-lease", answers=RunView)
async def prepare_lease(call: Call[Nothing]) -> Any:
    """Say that a claimed run is still being prepared."""
    return await call.submit(ask.RenewLease(workspace_id=call.workspace_id, run_id=call.id))


@routes("POST", f"{_TASK}/start", takes=Start, answers=RunView)
async def start_run(call: Call[Start]) -> Any:
    """Start a run; `stale_claim` if it was claimed anew meanwhile."""
    return await _report(call, ask.StartRun)


@routes("POST", f"{_TASK}/wait-local-directory", takes=Waiting, answers=RunView)
async def wait_local_directory(call: Call[Waiting]) -> Any:
    """Say that a run waits for a directory that another run uses."""
    return await _report(call, ask.WaitLocalDirectory)


@routes("POST", f"{_TASK}/progress", takes=Progress)
async def report_progress(call: Call[Progress]) -> None:
    """Say where a run stands."""
    await _report(call, ask.ReportProgress)


@routes("POST", f"{_TASK}/messages", takes=Messages)
async def append_messages(call: Call[Messages]) -> None:
    """Add lines to the transcript of a run."""
    await _report(call, ask.AppendMessages)


@routes("POST", f"{_TASK}/complete", takes=Completion, answers=RunView)
async def complete_run(call: Call[Completion]) -> Any:
    """End a run with its result; repeating it changes nothing."""
    return await _report(call, ask.CompleteRun)


@routes("POST", f"{_TASK}/fail", takes=Failure, answers=RunView)
async def fail_run(call: Call[Failure]) -> Any:
    """End a run that could not be done; repeating it changes nothing."""
    return await _report(call, ask.FailRun)


@routes("GET", f"{_TASK}/status", answers=RunStatusView)
async def get_run_status(call: Call[Nothing]) -> Any:
    """Return the status of a run, so that its daemon learns of a cancel."""
    return await call.read(ask.GetRunStatus(workspace_id=call.workspace_id, run_id=call.id))


async def _report_all(call: Call[Any], command: type[Any], report: type[Any]) -> ReportedTasks:
    """Hand a daemon's reports on many runs to the engine."""
    reports = tuple(
        report(run_id=sent.pop("id"), **sent) for sent in (each.sent() for each in call.input.tasks)
    )
    outcomes = await call.submit(command(workspace_id=call.workspace_id, reports=reports))
    return ReportedTasks(tasks=outcomes)


async def _report(call: Call[Any], command: type[Any]) -> Any:
    """Hand a daemon's report on one run to the engine."""
    return await call.submit(
        command(workspace_id=call.workspace_id, run_id=call.id, **call.input.sent())
    )
