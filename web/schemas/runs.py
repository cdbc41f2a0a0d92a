"""Inputs about runs: those of people and agents, and those of daemons (api.md, Runs)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from web.schemas.inputs import Id, Ids, Input, Instant, Objects, Paging, Whole, listed


class RunFilter(Paging):
    """Which runs to list."""

    status: str | None = None


class NewRun(Input):
    """A run to queue by hand, at once or at `fire_at`."""

    agent_id: Id
    note: str = ""
    fire_at: Instant | None = None


class Rerun(Input):
    """Which run of an issue to repeat, by default the latest that has ended."""

    task_id: Id | None = None


class OfferedRuntime(Input):
    """One runtime that a daemon offers."""

    name: str
    provider: str


class Registration(Input):
    """A daemon that has started, with its runtimes."""

    daemon_id: str
    runtimes: Annotated[tuple[OfferedRuntime, ...], BeforeValidator(listed("runtimes"))]
    device_name: str | None = None
    version: str | None = None


class Alive(Input):
    """A daemon that is alive, with these of its runtimes."""

    daemon_id: str
    runtime_ids: Ids


class Claim(Input):
    """How many runs of which runtimes a daemon takes, and how long it waits for the first."""

    daemon_id: str
    runtime_ids: Ids
    max_tasks: Whole = 1
    wait_seconds: Whole = 0


class Start(Input):
    """The start of a run that was claimed at `dispatched_at`."""

    dispatched_at: Instant


class Waiting(Input):
    """Why a run cannot start yet."""

    reason: str
    dispatched_at: Instant | None = None


class Progress(Input):
    """Where a run stands."""

    summary: str
    step: Whole | None = None
    total: Whole | None = None


class Messages(Input):
    """More lines of a transcript, any JSON objects."""

    lines: Objects


class Completion(Input):
    """The result of a run."""

    output: str = ""
    pr_url: str | None = None
    dispatched_at: Instant | None = None


class StartOfOne(Start):
    """The start of one run among several."""

    id: Id


class Starts(Input):
    """The starts of several runs."""

    tasks: Annotated[tuple[StartOfOne, ...], BeforeValidator(listed("starts"))]


class CompletionOfOne(Completion):
    """The result of one run among several."""

    id: Id


class Completions(Input):
    """The results of several runs."""

    tasks: Annotated[tuple[CompletionOfOne, ...], BeforeValidator(listed("results"))]


class Failure(Input):
    """Why a run could not be done."""

    error: str = ""
    failure_reason: str | None = None
    dispatched_at: Instant | None = None
