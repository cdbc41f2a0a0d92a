"""The whole stack: HTTP over a real engine over a real database, as clients meet it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from tests.web.place import Json, Place, opened
from tests.web.sample import THING, Sample
from tests.web.samples import SAMPLES
from tests.web.stand_in import RUN


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    async with opened(database_url) as ready:
        yield ready


async def test_an_agent_is_woken_by_a_comment(place: Place) -> None:
    """The main job over HTTP: a rule, a comment, a claim with its prompt, a result, the timeline.

    Every answer on the way is as the OpenAPI description says.
    """
    agent = await place.agent()
    issue = await place.call("POST", "/issues", {"title": "Build an ark"}, status=201)
    where = f"/issues/{issue['identifier']}"
    rule = await place.call(
        "POST",
        f"{where}/wakeups",
        {
            "kind": "event",
            "mode": "continuous",
            "event_types": ["comment.created"],
            "agent_id": agent["id"],
            "instruction": "Answer the comment.",
        },
        status=201,
    )
    assert (rule["revision"], rule["enabled"]) == (1, True)
    await place.call("POST", f"{where}/comments", {"body": "It rains."}, status=201)
    (task,) = await place.claim(agent, wait_seconds=10)
    assert "Answer the comment." in task["prompt"]

    run = f"/daemon/tasks/{task['id']}"
    await place.call("POST", f"{run}/prepare-lease")
    await place.call("POST", f"{run}/start", {"dispatched_at": task["dispatched_at"]})
    await place.call("POST", f"{run}/progress", {"summary": "half"}, status=204)
    await place.call("POST", f"{run}/messages", {"lines": [{"text": "Hm."}]}, status=204)
    async with place.server.client(task["token"]) as as_run:
        assert (await as_run.get("/me")).json()["kind"] == "run"
        said = await as_run.post(f"{where}/comments", json={"body": "I will see."})
        assert said.status_code == 201
        assert said.json()["author_type"] == "agent"
    await place.call("POST", f"{run}/complete", {"output": "Built."})
    assert await place.call("GET", f"{run}/status") == {"status": "completed"}

    listed = await place.call("GET", f"{where}/runs?status=completed")
    assert [each["id"] for each in listed["items"]] == [task["id"]]
    lines = await place.call("GET", f"/runs/{task['id']}/messages")
    assert [each["line"] for each in lines["items"]] == [{"text": "Hm."}]
    assert [each["id"] for each in await place.call("GET", f"{where}/wakeups")] == [rule["id"]]
    assert (await place.call("GET", f"{where}/wakeups/{rule['id']}/runs"))[0]["id"] == task["id"]
    assert (await place.call("GET", f"{where}/timeline"))["total"] > 0


async def test_a_rule_is_switched_and_goes(place: Place) -> None:
    """Replace, disable, enable at the right revision, trigger and delete, with their statuses."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    body = {
        "kind": "every",
        "interval_seconds": 60,
        "agent_id": agent["id"],
        "instruction": "Look.",
    }
    rule = await place.call("POST", "/issues/WF-1/wakeups", body, status=201)
    where = f"/issues/WF-1/wakeups/{rule['id']}"
    replaced = await place.call("PUT", where, {**body, "interval_seconds": 120})
    assert (replaced["revision"], replaced["interval_seconds"]) == (2, 120)
    assert (await place.call("POST", f"{where}/disable"))["enabled"] is False
    stale = await place.call("POST", f"{where}/enable", {"revision": 1}, status=409)
    assert stale["code"] == "stale_revision"
    assert (await place.call("POST", f"{where}/enable", {"revision": 2}))["enabled"] is True
    await place.call("POST", f"{where}/trigger", status=204)
    assert len(await place.claim(agent, wait_seconds=10)) == 1
    await place.call("DELETE", where, status=204)
    assert (await place.call("GET", where, status=404))["code"] == "not_found"


async def test_a_scheduled_check_checks_in(place: Place) -> None:
    """W-154, W-155: over HTTP a check-in is 204 in its run alone, is shown, and is no comment."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Watch"}, status=201)
    body = {
        "kind": "every",
        "interval_seconds": 60,
        "agent_id": agent["id"],
        "instruction": "Look.",
    }
    rule = await place.call("POST", "/issues/WF-1/wakeups", body, status=201)
    where = f"/issues/WF-1/wakeups/{rule['id']}"
    await place.call("POST", f"{where}/trigger", status=204)
    (task,) = await place.claim(agent, wait_seconds=10)
    run = f"/daemon/tasks/{task['id']}"
    note = {"note": "All quiet."}
    async with place.server.client(task["token"]) as as_run:
        early = await as_run.post(f"{where}/checkin", json=note)
        assert (early.status_code, early.json()["code"]) == (409, "conflict")
        await place.call("POST", f"{run}/start", {"dispatched_at": task["dispatched_at"]})
        long = await as_run.post(f"{where}/checkin", json={"note": "x" * 501})
        assert (long.status_code, long.json()["details"]) == (400, {"field": "note"})
        accepted = await as_run.post(f"{where}/checkin", json=note)
        assert (accepted.status_code, accepted.content) == (204, b"")
    by_person = await place.call("POST", f"{where}/checkin", note, status=403)
    assert by_person["code"] == "not_allowed"
    await place.call("POST", f"{run}/complete", {"output": "Nothing new."})
    assert (await place.call("GET", f"{where}/runs"))[0]["checkin_note"] == "All quiet."
    assert (await place.call("GET", "/issues/WF-1/comments"))["total"] == 0


async def test_a_run_by_hand_joins_the_pending_one(place: Place) -> None:
    """POST runs is 201 for a new run and 200 for one that was pending already; cancel ends it."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    first = await place.call(
        "POST", "/issues/WF-1/runs", {"agent_id": agent["id"], "note": "Go."}, status=201
    )
    second = await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]})
    assert second["id"] == first["id"]
    assert (await place.call("POST", f"/runs/{first['id']}/cancel"))["status"] == "cancelled"
    assert (await place.call("GET", f"/runs/{first['id']}"))["status"] == "cancelled"


async def test_the_tracker_answers_as_described(place: Place) -> None:
    """Workspaces, members, tokens, agents and issues are made, listed, changed and removed."""
    me = await place.call("GET", "/me")
    assert me["kind"] == "member"
    workspace_id = me["workspaces"][0]["id"]
    await place.call("PATCH", f"/workspaces/{workspace_id}", {"settings": {"a": 1}})
    body = {"name": "Ark", "slug": "ark", "issue_prefix": "ARK"}
    other = await place.call("POST", "/workspaces", body, status=201)
    assert (await place.call("GET", "/workspaces"))["total"] == 2
    await place.call("DELETE", f"/workspaces/{other['id']}", status=204)

    body = {"email": "noah@example.com", "name": "Noah", "role": "member"}
    member = await place.call("POST", "/members", body, status=201)
    async with place.server.client(member["token"]) as noah:
        assert (await noah.get("/me")).json()["member"]["name"] == "Noah"
        assert (await place.call("GET", "/members"))["total"] == 2
        await place.call("DELETE", f"/members/{member['id']}", status=204)
        assert (await noah.get("/me")).status_code == 401

    token = await place.call("POST", "/tokens", {"name": "ci", "kind": "member"}, status=201)
    assert token["id"] in [each["id"] for each in (await place.call("GET", "/tokens"))["items"]]
    await place.call("DELETE", f"/tokens/{token['id']}", status=204)

    agent = await place.agent()
    assert (await place.call("POST", f"/agents/{agent['id']}/archive"))["archived_at"] is not None
    assert (await place.call("POST", f"/agents/{agent['id']}/unarchive"))["archived_at"] is None
    await place.call("PATCH", f"/agents/{agent['id']}", {"instructions": "Build."})
    assert (await place.call("GET", f"/agents/{agent['id']}"))["instructions"] == "Build."

    issue = await place.call("POST", "/issues", {"title": "One"}, status=201)
    await place.call("PATCH", f"/issues/{issue['id']}", {"status": "done", "metadata": {"a": [1]}})
    found = await place.call("GET", "/issues?status=done&search=one")
    assert [each["metadata"] for each in found["items"]] == [{"a": [1]}]
    await place.call("DELETE", "/issues/WF-1", status=204)
    await place.call("GET", "/issues/WF-1", status=404)
    assert (await place.call("GET", "/ready"))["database"] == "up"


async def test_a_stranger_sees_nothing(place: Place) -> None:
    """W-191: who is not a member gets 404 for the issue, its rules, its runs and its workspace."""
    agent = await place.agent()
    issue = await place.call("POST", "/issues", {"title": "Secret"}, status=201)
    run = await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]}, status=201)
    body = {"name": "Elsewhere", "slug": "elsewhere", "issue_prefix": "E"}
    elsewhere = await place.call("POST", "/workspaces", body, status=201)
    chosen = {"X-Workspace-ID": elsewhere["slug"]}
    body = {"email": "stranger@example.com", "name": "S", "role": "owner"}
    made = await place.member.post("/members", json=body, headers=chosen)
    assert made.status_code == 201
    rule = {"kind": "event", "event_types": ["comment.created"], "instruction": "x"}
    async with place.server.client(made.json()["token"]) as stranger:
        for method, path, sent in (
            ("GET", f"/issues/{issue['id']}", None),
            ("PATCH", f"/issues/{issue['id']}", {"title": "x"}),
            ("GET", f"/issues/{issue['id']}/comments", None),
            ("POST", f"/issues/{issue['id']}/comments", {"body": "x"}),
            ("GET", f"/issues/{issue['id']}/timeline", None),
            ("GET", f"/issues/{issue['id']}/runs", None),
            ("GET", f"/issues/{issue['id']}/wakeups", None),
            ("POST", f"/issues/{issue['id']}/wakeups", {**rule, "agent_id": agent["id"]}),
            ("GET", "/issues/WF-1", None),
            ("GET", f"/runs/{run['id']}", None),
            ("GET", f"/runs/{run['id']}/messages", None),
            ("POST", f"/runs/{run['id']}/cancel", None),
            ("GET", f"/agents/{agent['id']}", None),
            ("GET", f"/workspaces/{issue['workspace_id']}", None),
        ):
            response = await stranger.request(method, path, json=sent)
            assert response.status_code == 404, (method, path, response.text)
        named = {"X-Workspace-ID": "main"}
        assert (await stranger.get("/issues", headers=named)).status_code == 404


LONG: Final = "long " * 60_000
VALUES: Final[Mapping[type, tuple[Any, ...]]] = {
    str: ("", " ", LONG, "\x7f\u202e\u0301" * 100, "'; DROP TABLE issue; --", "%_\\", "\x01"),
    int: (0, -1, 1, 2**31 - 1, -(2**31)),
    bool: (),
    list: ([], ["00000000-0000-0000-0000-000000000001"] * 2_000, ["x"] * 2_000, [{}] * 2_000),
    dict: ({}, {"": ""}, {"a" * 10_000: 1}, {"n": 10**300, "m": -1e308, "d": [[[]]]}),
}


NEEDED: Final = frozenset(
    {
        "name",
        "slug",
        "issue_prefix",
        "email",
        "role",
        "kind",
        "title",
        "body",
        "daemon_id",
        "runtimes",
        "summary",
        "lines",
        "reason",
        "note",
        "emoji",
        "filename",
        "url",
        "key",
        "category",
        "leader_id",
        "value",
        "instruction",
    }
)
# Refusals that are about more than one field, or about the state of things.
FIELDLESS: Final = frozenset({"body_too_large", "invalid_transition"})
# What has to be there, or as it is: the name of a field, and where its value stands.
EXISTING: Final[Mapping[str, tuple[str, str]]] = {
    "agent_id": ("agents", "id"),
    "leader_id": ("agents", "id"),
    "revision": ("wakeups", "revision"),
    "expected_instruction": ("wakeups", "instruction"),
}
NO_ID: Final = ("claim", "complete", "preview", "start")  # what follows some names of collections
# The least that a rule needs beside its agent, so that each other field is looked at.
RULE: Final[Mapping[str, Any]] = {
    "kind": "event",
    "event_types": ["comment.created"],
    "instruction": "Look.",
}


def hostile_bodies(each: Sample, made: Mapping[str, Json]) -> Iterator[tuple[str | None, Json]]:
    """Yield the least sound body, then that body with one field of the right sort but outrageous.

    Ids in it are those of things that exist.
    """
    if "tasks" in each.full:
        yield from hostile_reports(each.full["tasks"][0], made["tasks"])
        return
    least = {name: each.full[name] for name in each.full if name in NEEDED}
    if set(RULE) <= set(each.full):
        least |= RULE
    least |= {name: made[of][its] for name, (of, its) in EXISTING.items() if name in each.full}
    if "runtime_ids" in each.full:
        least["runtime_ids"] = [made["agents"]["runtime_id"]]
    if each.path.endswith("/start"):
        least["dispatched_at"] = made["tasks"]["dispatched_at"]
    yield None, least
    for name, sound in each.full.items():
        for value in VALUES[type(sound)]:
            yield name, {**least, name: value}


def hostile_reports(report: Json, task: Json) -> Iterator[tuple[str | None, Json]]:
    """Yield a sound report among many, then reports beside it that are not."""
    sound = report | {"id": task["id"], "dispatched_at": task["dispatched_at"]}
    yield None, {"tasks": [sound]}
    for name, value in report.items():
        for bad in VALUES[type(value)]:
            yield name, {"tasks": [sound, sound | {name: bad}]}
    for values in VALUES[list]:
        yield "tasks", {"tasks": values}


def address(each: Sample, made: Mapping[str, Json]) -> str:
    """Return the path of a sample with the ids of things that exist."""
    parts = each.path.replace("WF-12", "WF-1").split("/")
    for place, part in enumerate(parts[:-1]):
        if part in made and not parts[place + 1].startswith(NO_ID):
            parts[place + 1] = made[part]["id"]
    return "/".join(parts).replace(f"wakeup_id={THING}", f"wakeup_id={made['wakeups']['id']}")


@asynccontextmanager
async def caller_of(
    each: Sample, place: Place, made: Mapping[str, Json]
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client whose credential a sample's route takes; a check-in, a run's."""
    if not each.path.endswith("/checkin"):
        yield place.daemon if each.is_daemon else place.member
        return
    earlier = made["tasks"]
    claimed = {"dispatched_at": earlier["dispatched_at"]}
    await place.call("POST", f"/daemon/tasks/{earlier['id']}/start", claimed)
    await place.call("POST", f"/daemon/tasks/{earlier['id']}/complete", {"output": ""})
    await place.call("POST", f"/issues/WF-1/wakeups/{made['wakeups']['id']}/trigger", status=204)
    (task,) = await place.claim(made["agents"], wait_seconds=10)
    claimed = {"dispatched_at": task["dispatched_at"]}
    await place.call("POST", f"/daemon/tasks/{task['id']}/start", claimed)
    async with place.server.client(task["token"]) as client:
        yield client


@pytest.mark.parametrize("each", [each for each in SAMPLES if each.full], ids=str)
async def test_outrageous_values_never_break_the_engine(each: Sample, place: Place) -> None:
    """Empty, endless, strange and extreme values of the right sort are taken, or refused by name.

    Past the schemas they meet the use cases and the database: still never a 5xx.
    """
    agent = await place.agent()
    issue = await place.call("POST", "/issues", {"title": "Target"}, status=201)
    await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]}, status=201)
    (task,) = await place.claim(agent, wait_seconds=10)
    claimed = {"dispatched_at": task["dispatched_at"]}
    if each.path.endswith(("/complete", "/fail", "/progress", "/messages", "/rerun")):
        await place.call("POST", f"/daemon/tasks/{task['id']}/start", claimed)
    if each.path.endswith("/rerun"):
        await place.call("POST", f"/daemon/tasks/{task['id']}/complete", {"output": ""})
    rule = {"kind": "every", "interval_seconds": 60, "agent_id": agent["id"], "instruction": "x"}
    named = {"name": "Made"}
    entries: Mapping[str, Json] = {
        "labels": named,
        "projects": named,
        "properties": named,
        "squads": {**named, "leader_id": agent["id"]},
        "statuses": {**named, "key": "made", "category": "in_progress"},
    }
    link = {"filename": "x", "url": "https://example.com/x"}
    made = {
        "agents": agent,
        "attachments": await place.call("POST", "/attachments", link, status=201),
        "comments": await place.call("POST", "/issues/WF-1/comments", {"body": "x"}, status=201),
        "issues": {**issue, "id": "WF-1"},
        "tasks": task,
        "wakeups": await place.call("POST", "/issues/WF-1/wakeups", rule, status=201),
        "workspaces": (await place.call("GET", "/me"))["workspaces"][0],
    }
    for what, entry in entries.items():
        if f"/{what}/" in each.path:
            made[what] = await place.call("POST", f"/{what}", entry, status=201)
    path = address(each, made)
    async with caller_of(each, place, made) as client:
        for name, body in hostile_bodies(each, made):
            content = json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            response = await client.request(each.method, path, content=content, headers=headers)
            assert response.status_code < 500, (name, content[:300], response.text)
            assert response.is_success or name is not None, response.text
            if response.status_code == 400 and response.json()["code"] not in FIELDLESS:
                assert response.json()["details"]["field"], (name, content[:300], response.text)


@pytest.mark.parametrize("each", [each for each in SAMPLES if "=" in each.path], ids=str)
async def test_outrageous_queries_never_break_the_engine(each: Sample, place: Place) -> None:
    """Whatever a filter says, a list answers, or refuses it by the name of the field."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Target"}, status=201)
    run = await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]}, status=201)
    path, _, query = each.path.replace("WF-12", "WF-1").partition("?")
    path = path.replace(str(RUN), run["id"])
    for name in (part.partition("=")[0] for part in query.split("&")):
        for value in ("", " ", "long" * 1_000, "%_\\", "'", "\x01", "0", "1000000", str(RUN)):
            body = {**RULE, "agent_id": agent["id"]} if each.full else None
            response = await place.member.request(
                each.method, path, params={name: value}, json=body
            )
            assert response.status_code in {200, 400, 404}, (name, value, response.text)
            if response.status_code == 400:
                assert response.json()["details"]["field"] == name
