"""What callers may ask about runs: people and agents queue and stop them, daemons carry them out.

Field names are the wire's (api.md, Runs). `run_id` is the id in the path. `dispatched_at` is the
claim generation (W-104); where it is optional, None skips the comparison.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import Command, IssueCommand, Query
from engine.domain.records import Json

# --- People and agents --------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListRuns(Query):
    """The runs of an issue, newest first, those of wakeups among them (W-094)."""

    issue_id: UUID
    status: str | None = None
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetRun(Query):
    """One run."""

    run_id: UUID


@attrs.frozen(kw_only=True)
class ListRunMessages(Query):
    """The transcript of a run, oldest line first."""

    run_id: UUID
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class CreateRun(IssueCommand):
    """Queue an ordinary run by hand, at once or at `fire_at`; answers a `CreatedRunView`."""

    agent_id: UUID
    note: str = ""
    fire_at: datetime | None = None


@attrs.frozen(kw_only=True)
class RerunIssue(IssueCommand):
    """Run an agent once more: the run `task_id`, else the issue's latest that has ended (W-111)."""

    task_id: UUID | None = None


@attrs.frozen(kw_only=True)
class CancelRun(Command):
    """Stop a run that has not ended."""

    run_id: UUID


# --- Daemons ------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class RuntimeDraft:
    """One runtime that a daemon offers; its name is unique within the daemon."""

    name: str
    provider: str


@attrs.frozen(kw_only=True)
class RegisterDaemon(Command):
    """A daemon started: bind its name to the token, recover what it left in flight."""

    daemon_id: str
    runtimes: tuple[RuntimeDraft, ...]
    device_name: str | None = None
    version: str | None = None


@attrs.frozen(kw_only=True)
class Heartbeat(Command):
    """The daemon and these of its runtimes are alive; unknown ones are skipped."""

    daemon_id: str
    runtime_ids: tuple[UUID, ...]


@attrs.frozen(kw_only=True)
class ClaimRuns(Command):
    """Hand out runs of these runtimes; one attempt, which answers a `ClaimAttempt`.

    Waiting up to `wait_seconds` for work is the claim desk's part (W-103); here it is only checked.
    """

    daemon_id: str
    runtime_ids: tuple[UUID, ...]
    max_tasks: int = 1
    wait_seconds: int = 0


@attrs.frozen(kw_only=True)
class ClaimOne(Command):
    """Hand out the next run of one runtime at once, or None: the older form of a claim (W-102)."""

    runtime_id: UUID


@attrs.frozen(kw_only=True)
class RenewLease(Command):
    """The daemon still prepares this run (W-105)."""

    run_id: UUID


@attrs.frozen(kw_only=True)
class StartRun(Command):
    """The daemon starts the run that it claimed at `dispatched_at`."""

    run_id: UUID
    dispatched_at: datetime


@attrs.frozen(kw_only=True)
class WaitLocalDirectory(Command):
    """The daemon cannot start yet, because another run uses the directory."""

    run_id: UUID
    reason: str
    dispatched_at: datetime | None = None


@attrs.frozen(kw_only=True)
class ReportProgress(Command):
    """Where the run stands; replaces the previous report."""

    run_id: UUID
    summary: str
    step: int | None = None
    total: int | None = None


@attrs.frozen(kw_only=True)
class AppendMessages(Command):
    """More lines of the run's transcript, any JSON objects."""

    run_id: UUID
    lines: tuple[Json, ...]


@attrs.frozen(kw_only=True)
class CompleteRun(Command):
    """The run is done; repeating the report changes nothing (W-113)."""

    run_id: UUID
    output: str = ""
    pr_url: str | None = None
    dispatched_at: datetime | None = None


@attrs.frozen(kw_only=True)
class StartRuns(Command):
    """The daemon starts several of its claims; each has an outcome of its own."""

    reports: tuple[StartRun, ...]


@attrs.frozen(kw_only=True)
class CompleteRuns(Command):
    """Several runs are done; each has an outcome of its own."""

    reports: tuple[CompleteRun, ...]


@attrs.frozen(kw_only=True)
class FailRun(Command):
    """The run could not be done; repeating the report changes nothing (W-113)."""

    run_id: UUID
    error: str = ""
    failure_reason: str | None = None
    dispatched_at: datetime | None = None


@attrs.frozen(kw_only=True)
class GetRunStatus(Query):
    """The status of a run, so that its daemon learns of a cancel."""

    run_id: UUID
