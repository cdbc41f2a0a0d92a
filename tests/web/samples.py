"""A sound request for every route, and what it must become: the ground that the tests stand on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from engine.domain.commands import runs, tracker
from engine.domain.views import Page
from engine.domain.views import runs as run_views
from engine.domain.views import tracker as views
from tests.web.sample import IN_PLACE as _PLACE
from tests.web.sample import ON_ISSUE as _ISSUE
from tests.web.sample import PAGE as _PAGE
from tests.web.sample import PART as _PART
from tests.web.sample import THING, Sample
from tests.web.samples_catalogue import CATALOGUES
from tests.web.samples_conversation import CONVERSATION
from tests.web.samples_inventory import INVENTORY
from tests.web.samples_wakeups import WAKEUPS
from tests.web.stand_in import AGENT, ISSUE, RUN, USER, WORKSPACE

_AT: Final = "2030-01-02T03:04:05.000006+01:00"
_INSTANT: Final = datetime(2030, 1, 2, 2, 4, 5, 6, tzinfo=UTC)
_TASK: Final[Mapping[str, Any]] = {**_PLACE, "run_id": RUN}


_ISSUE_FIELDS: Final[Mapping[str, Any]] = {
    "title": "Sinking",
    "description": "It sinks.",
    "status": "todo",
    "priority": "high",
    "assignee_type": "agent",
    "assignee_id": str(AGENT),
    "parent_id": str(ISSUE),
    "stage": 2,
    "project_id": str(THING),
    "start_date": "2030-01-02",
    "due_date": "2030-01-03",
    "metadata": {"depth": [1, 2.5, None, True]},
}
_ISSUE_PARSED: Final[Mapping[str, Any]] = {
    **_ISSUE_FIELDS,
    "assignee_id": AGENT,
    "parent_id": ISSUE,
    "project_id": THING,
    "start_date": date(2030, 1, 2),
    "due_date": date(2030, 1, 3),
}
_AGENT_FIELDS: Final[Mapping[str, Any]] = {
    "name": "Noah",
    "instructions": "Build.",
    "visibility": "private",
    "invokers": [str(USER)],
    "runtime_id": str(THING),
    "max_concurrent_tasks": 2,
}
_AGENT_PARSED: Final[Mapping[str, Any]] = {
    **_AGENT_FIELDS,
    "invokers": (USER,),
    "runtime_id": THING,
}

TRACKER: Final = (
    Sample("GET", "/me", {}, tracker.Me(), views.MeView),
    Sample(
        "GET",
        f"/workspaces{_PAGE}",
        {},
        tracker.ListWorkspaces(**_PART),
        Page[views.WorkspaceView],
    ),
    Sample(
        "POST",
        "/workspaces",
        {"name": "Ark", "slug": "ark", "issue_prefix": "ARK"},
        tracker.CreateWorkspace(name="Ark", slug="ark", issue_prefix="ARK"),
        views.WorkspaceView,
        201,
    ),
    Sample(
        "GET",
        f"/workspaces/{WORKSPACE}",
        {},
        tracker.GetWorkspace(**_PLACE),
        views.WorkspaceView,
    ),
    Sample(
        "PATCH",
        f"/workspaces/{WORKSPACE}",
        {"name": "Ark", "settings": {"a": None}},
        tracker.UpdateWorkspace(**_PLACE, name="Ark", settings={"a": None}),
        views.WorkspaceView,
    ),
    Sample("DELETE", f"/workspaces/{WORKSPACE}", {}, tracker.DeleteWorkspace(**_PLACE), None, 204),
    Sample(
        "GET",
        f"/members{_PAGE}",
        {},
        tracker.ListMembers(**_PLACE, **_PART),
        Page[views.MemberView],
    ),
    Sample(
        "POST",
        "/members",
        {"email": "noah@example.com", "name": "Noah", "role": "admin"},
        tracker.AddMember(**_PLACE, email="noah@example.com", name="Noah", role="admin"),
        views.NewMemberView,
        201,
    ),
    Sample(
        "DELETE",
        f"/members/{THING}",
        {},
        tracker.RemoveMember(**_PLACE, member_id=THING),
        None,
        204,
    ),
    Sample(
        "GET", f"/tokens{_PAGE}", {}, tracker.ListTokens(**_PLACE, **_PART), Page[views.TokenView]
    ),
    Sample(
        "POST",
        "/tokens",
        {"name": "ci", "kind": "daemon", "expires_in_seconds": 60},
        tracker.CreateToken(**_PLACE, name="ci", kind="daemon", expires_in_seconds=60),
        views.NewTokenView,
        201,
    ),
    Sample(
        "DELETE", f"/tokens/{THING}", {}, tracker.RevokeToken(**_PLACE, token_id=THING), None, 204
    ),
    Sample(
        "GET", f"/agents{_PAGE}", {}, tracker.ListAgents(**_PLACE, **_PART), Page[views.AgentView]
    ),
    Sample(
        "POST",
        "/agents",
        _AGENT_FIELDS,
        tracker.CreateAgent(**_PLACE, **_AGENT_PARSED),
        views.AgentView,
        201,
    ),
    Sample(
        "GET",
        f"/agents/{AGENT}",
        {},
        tracker.GetAgent(**_PLACE, agent_id=AGENT),
        views.AgentView,
    ),
    Sample(
        "PATCH",
        f"/agents/{AGENT}",
        _AGENT_FIELDS,
        tracker.UpdateAgent(**_PLACE, agent_id=AGENT, **_AGENT_PARSED),
        views.AgentView,
    ),
    Sample(
        "POST",
        f"/agents/{AGENT}/archive",
        {},
        tracker.ArchiveAgent(**_PLACE, agent_id=AGENT),
        views.AgentView,
    ),
    Sample(
        "POST",
        f"/agents/{AGENT}/unarchive",
        {},
        tracker.UnarchiveAgent(**_PLACE, agent_id=AGENT),
        views.AgentView,
    ),
)

ISSUES: Final = (
    Sample(
        "GET",
        f"/issues{_PAGE}&status=todo&category=todo&assignee={AGENT}&parent={ISSUE}"
        f"&project={THING}&label={THING}&search=ark",
        {},
        tracker.ListIssues(
            **_PLACE,
            **_PART,
            status="todo",
            category="todo",
            assignee=AGENT,
            parent=ISSUE,
            project=THING,
            label=THING,
            search="ark",
        ),
        Page[views.IssueView],
    ),
    Sample(
        "POST",
        "/issues",
        _ISSUE_FIELDS,
        tracker.CreateIssue(**_PLACE, **_ISSUE_PARSED),
        views.IssueView,
        201,
    ),
    Sample("GET", "/issues/WF-12", {}, tracker.GetIssue(**_ISSUE), views.IssueView),
    Sample(
        "PATCH",
        f"/issues/{ISSUE}",
        _ISSUE_FIELDS,
        tracker.UpdateIssue(**_ISSUE, **_ISSUE_PARSED),
        views.IssueView,
    ),
    Sample("DELETE", "/issues/WF-12", {}, tracker.DeleteIssue(**_ISSUE), None, 204),
    Sample(
        "GET",
        f"/issues/WF-12/timeline{_PAGE}",
        {},
        tracker.ListTimeline(**_ISSUE, **_PART),
        Page[views.ActivityView],
    ),
)

RUNS: Final = (
    Sample(
        "GET",
        f"/issues/WF-12/runs{_PAGE}&status=queued",
        {},
        runs.ListRuns(**_ISSUE, **_PART, status="queued"),
        Page[run_views.RunView],
    ),
    Sample(
        "POST",
        "/issues/WF-12/runs",
        {"agent_id": str(AGENT), "note": "Go.", "fire_at": _AT},
        runs.CreateRun(**_ISSUE, agent_id=AGENT, note="Go.", fire_at=_INSTANT),
        run_views.CreatedRunView,
        201,
    ),
    Sample("GET", f"/runs/{RUN}", {}, runs.GetRun(**_TASK), run_views.RunView),
    Sample(
        "GET",
        f"/runs/{RUN}/messages{_PAGE}",
        {},
        runs.ListRunMessages(**_TASK, **_PART),
        Page[run_views.RunMessageView],
    ),
    Sample(
        "POST",
        "/issues/WF-12/rerun",
        {"task_id": str(RUN)},
        runs.RerunIssue(**_ISSUE, task_id=RUN),
        run_views.RunView,
        202,
    ),
    Sample("POST", f"/runs/{RUN}/cancel", {}, runs.CancelRun(**_TASK), run_views.RunView),
)


_DAEMON: Final[Mapping[str, Any]] = {"daemon_id": "d1", "runtime_ids": [str(THING)]}
_DAEMON_PARSED: Final[Mapping[str, Any]] = {
    **_PLACE,
    "daemon_id": "d1",
    "runtime_ids": (THING,),
}

DAEMONS: Final = (
    Sample(
        "POST",
        "/daemon/register",
        {
            "daemon_id": "d1",
            "device_name": "box",
            "version": "1",
            "runtimes": [{"name": "r", "provider": "exec"}],
        },
        runs.RegisterDaemon(
            **_PLACE,
            daemon_id="d1",
            device_name="box",
            version="1",
            runtimes=(runs.RuntimeDraft(name="r", provider="exec"),),
        ),
        run_views.RegistrationView,
    ),
    Sample("POST", "/daemon/heartbeat", _DAEMON, runs.Heartbeat(**_DAEMON_PARSED), None, 204),
    Sample(
        "POST",
        "/daemon/tasks/claim",
        {**_DAEMON, "max_tasks": 3, "wait_seconds": 0},
        runs.ClaimRuns(**_DAEMON_PARSED, max_tasks=3, wait_seconds=0),
        tuple[run_views.ClaimedRun, ...],
    ),
    Sample(
        "POST",
        f"/daemon/runtimes/{THING}/tasks/claim",
        {},
        runs.ClaimOne(**_PLACE, runtime_id=THING),
        run_views.ClaimedRun,
    ),
    Sample(
        "POST",
        "/daemon/tasks/start",
        {"tasks": [{"id": str(RUN), "dispatched_at": _AT}]},
        runs.StartRuns(**_PLACE, reports=(runs.StartRun(run_id=RUN, dispatched_at=_INSTANT),)),
        tuple[run_views.ReportedRun, ...],
    ),
    Sample(
        "POST",
        "/daemon/tasks/complete",
        {
            "tasks": [
                {
                    "id": str(RUN),
                    "output": "done",
                    "pr_url": "https://example.com/1",
                    "dispatched_at": _AT,
                }
            ]
        },
        runs.CompleteRuns(
            **_PLACE,
            reports=(
                runs.CompleteRun(
                    run_id=RUN,
                    output="done",
                    pr_url="https://example.com/1",
                    dispatched_at=_INSTANT,
                ),
            ),
        ),
        tuple[run_views.ReportedRun, ...],
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/prepare-lease",
        {},
        runs.RenewLease(**_TASK),
        run_views.RunView,
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/start",
        {"dispatched_at": _AT},
        runs.StartRun(**_TASK, dispatched_at=_INSTANT),
        run_views.RunView,
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/wait-local-directory",
        {"reason": "busy", "dispatched_at": _AT},
        runs.WaitLocalDirectory(**_TASK, reason="busy", dispatched_at=_INSTANT),
        run_views.RunView,
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/progress",
        {"summary": "half", "step": 1, "total": 2},
        runs.ReportProgress(**_TASK, summary="half", step=1, total=2),
        None,
        204,
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/messages",
        {"lines": [{"text": "hello"}]},
        runs.AppendMessages(**_TASK, lines=({"text": "hello"},)),
        None,
        204,
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/complete",
        {"output": "done", "pr_url": "https://example.com/1", "dispatched_at": _AT},
        runs.CompleteRun(
            **_TASK, output="done", pr_url="https://example.com/1", dispatched_at=_INSTANT
        ),
        run_views.RunView,
    ),
    Sample(
        "POST",
        f"/daemon/tasks/{RUN}/fail",
        {"error": "no", "failure_reason": "agent_error", "dispatched_at": _AT},
        runs.FailRun(**_TASK, error="no", failure_reason="agent_error", dispatched_at=_INSTANT),
        run_views.RunView,
    ),
    Sample(
        "GET",
        f"/daemon/tasks/{RUN}/status",
        {},
        runs.GetRunStatus(**_TASK),
        run_views.RunStatusView,
    ),
)

INSTANCE: Final = (
    Sample("GET", "/health", {}, None, None),
    Sample("GET", "/ready", {}, None, None),
)

SAMPLES: Final = (
    *TRACKER,
    *CATALOGUES,
    *ISSUES,
    *CONVERSATION,
    *RUNS,
    *WAKEUPS,
    *INVENTORY,
    *DAEMONS,
    *INSTANCE,
)
ANSWERS: Final[Mapping[type[Any], Any]] = {
    type(each.asked): each.answers for each in SAMPLES if each.asked is not None
}
