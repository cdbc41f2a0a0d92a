"""The life of runs over HTTP: later, once more, again after a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.web.place import Json, Place, opened


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    async with opened(database_url) as ready:
        yield ready


async def claimed(place: Place, agent: Json) -> Json:
    """Claim the one run that waits, and start it."""
    (task,) = await place.claim(agent, wait_seconds=10)
    run = f"/daemon/tasks/{task['id']}"
    await place.call("POST", f"{run}/start", {"dispatched_at": task["dispatched_at"]})
    return task


async def test_a_run_is_asked_for_once_more(place: Place) -> None:
    """W-111: POST rerun is 202 with the new run; 400 without a run that has ended."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    early = await place.call("POST", "/issues/WF-1/rerun", {}, status=400)
    assert early["code"] == "invalid_transition"
    await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]}, status=201)
    task = await claimed(place, agent)
    await place.call("POST", f"/daemon/tasks/{task['id']}/complete", {"output": "Built."})
    again = await place.call("POST", "/issues/WF-1/rerun", {}, status=202)
    assert (again["rerun_of_task_id"], again["status"]) == (task["id"], "queued")
    named = {"task_id": task["id"]}
    last = await place.call("POST", "/issues/WF-1/rerun", named, status=202)
    assert (await place.call("GET", f"/runs/{again['id']}"))["status"] == "cancelled"
    assert (await claimed(place, agent))["id"] == last["id"]
    actions = [
        entry["action"] for entry in (await place.call("GET", "/issues/WF-1/timeline"))["items"]
    ]
    assert actions.count("run_rerun") == 2


async def test_a_failure_of_the_ground_is_tried_again(place: Place) -> None:
    """W-110, W-113: a failure report, sent three times, leaves one retry, which is claimed."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    body = {"agent_id": agent["id"], "note": "Go."}
    await place.call("POST", "/issues/WF-1/runs", body, status=201)
    task = await claimed(place, agent)
    report = {"error": "gone", "failure_reason": "timeout"}
    for _ in range(3):
        answer = await place.call("POST", f"/daemon/tasks/{task['id']}/fail", report)
        assert (answer["status"], answer["failure_reason"]) == ("failed", "timeout")
    found = await place.call("GET", "/issues/WF-1/runs")
    assert found["total"] == 2
    again = (await place.call("POST", f"/daemon/runtimes/{agent['runtime_id']}/tasks/claim"))[
        "task"
    ]
    assert (again["retry_of_task_id"], again["attempt"]) == (task["id"], 2)
    assert again["handoff_note"] == "Go."
    none = await place.call("POST", f"/daemon/runtimes/{agent['runtime_id']}/tasks/claim")
    assert none == {"task": None}


async def test_a_run_for_later_is_deferred(place: Place) -> None:
    """W-097: a run with `fire_at` is deferred until then; it can be stopped, and not be started."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    at = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=36_500)).isoformat()
    body = {"agent_id": agent["id"], "fire_at": at}
    run = await place.call("POST", "/issues/WF-1/runs", body, status=201)
    assert (run["status"], run["fire_at"][:4]) == ("deferred", "2125")
    assert await place.claim(agent) == []
    where = f"/daemon/tasks/{run['id']}"
    for step in ("complete", "fail"):
        refused = await place.call("POST", f"{where}/{step}", {}, status=400)
        assert refused["code"] == "invalid_transition"
    assert (await place.call("POST", f"/runs/{run['id']}/cancel"))["status"] == "cancelled"
