"""Runs, as people and agents see them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from engine.domain.commands import runs as ask
from engine.domain.views import Page
from engine.domain.views.runs import CreatedRunView, RunMessageView, RunView
from web.routing import Answer, Call, Routes
from web.schemas.inputs import Nothing, Paging
from web.schemas.runs import NewRun, Rerun, RunFilter

routes: Final = Routes("Runs")


@routes("GET", "/issues/{issue}/runs", takes=RunFilter, answers=Page[RunView])
async def list_runs(call: Call[RunFilter]) -> Any:
    """List the runs of an issue, newest first."""
    query = ask.ListRuns(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.read(query)


@routes(
    "POST",
    "/issues/{issue}/runs",
    takes=NewRun,
    answers=CreatedRunView,
    statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
)
async def create_run(call: Call[NewRun]) -> Any:
    """Queue a run of an agent by hand; 200 where it joined a run that was pending already."""
    command = ask.CreateRun(
        workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent()
    )
    return await call.submit(command, _created)


@routes(
    "POST",
    "/issues/{issue}/rerun",
    takes=Rerun,
    answers=RunView,
    statuses=(HTTPStatus.ACCEPTED,),
)
async def rerun_issue(call: Call[Rerun]) -> Any:
    """Run once more what has ended, the latest run by default; cancels what waits in its scope."""
    return await call.submit(
        ask.RerunIssue(workspace_id=call.workspace_id, issue_id=call.issue_id, **call.input.sent())
    )


@routes("GET", "/runs/{id}", answers=RunView)
async def get_run(call: Call[Nothing]) -> Any:
    """Return a run."""
    return await call.read(ask.GetRun(workspace_id=call.workspace_id, run_id=call.id))


@routes("GET", "/runs/{id}/messages", takes=Paging, answers=Page[RunMessageView])
async def list_run_messages(call: Call[Paging]) -> Any:
    """List the transcript of a run, oldest line first."""
    query = ask.ListRunMessages(workspace_id=call.workspace_id, run_id=call.id, **call.input.sent())
    return await call.read(query)


@routes("POST", "/runs/{id}/cancel", answers=RunView)
async def cancel_run(call: Call[Nothing]) -> Any:
    """Stop a run that has not ended."""
    return await call.submit(ask.CancelRun(workspace_id=call.workspace_id, run_id=call.id))


def _created(run: CreatedRunView) -> Answer:
    return Answer(run, HTTPStatus.CREATED if run.created else HTTPStatus.OK)
