"""Statuses, squads, labels, properties, projects and metadata over HTTP, with the whole stack."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from engine.domain.commands import UNSET
from engine.domain.commands.catalogue import UpdateLabel
from tests.web.place import Json, Place, opened
from tests.web.stand_in import StandInEngine


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    async with opened(database_url) as ready:
        yield ready


async def made(place: Place, what: str, **fields: object) -> Json:
    """Make an entry of a catalogue and return it, read again by its id and found in the list."""
    entry: Json = await place.call("POST", f"/{what}", fields, status=201)
    assert await place.call("GET", f"/{what}/{entry['id']}") == entry
    listed = await place.call("GET", f"/{what}")
    assert listed["items"][-1] == entry
    assert listed["total"] == len(listed["items"])
    return entry


async def problem(client: httpx.AsyncClient, method: str, path: str, body: object = None) -> Any:
    """Make a request that is refused; return status, code and the field."""
    response = await client.request(method, path, json=body)
    found = response.json()
    return response.status_code, found["code"], found.get("details", {}).get("field")


async def archived(place: Place, path: str) -> None:
    """Archive and unarchive an entry, each answered with it."""
    assert (await place.call("POST", f"{path}/archive"))["archived_at"] is not None
    assert (await place.call("POST", f"{path}/unarchive"))["archived_at"] is None


async def test_statuses_are_made_given_and_retired(place: Place) -> None:
    """A status is made, changed, given to issues, archived and taken back; its category stays."""
    first = await place.call("GET", "/statuses?limit=7")
    assert [each["key"] for each in first["items"]] == [
        "backlog", "todo", "in_progress", "in_review", "blocked", "done", "cancelled",
    ]  # fmt: skip
    status = await made(place, "statuses", key="qa", name="In QA", category="in_progress")
    where = f"/statuses/{status['id']}"
    changed = await place.call("PATCH", where, {"name": "QA", "color": "#FFFFFF"})
    assert (changed["name"], changed["color"], changed["category"]) == (
        "QA",
        "#ffffff",
        "in_progress",
    )
    assert await problem(place.member, "PATCH", where, {"category": "done"}) == (
        400,
        "invalid_input",
        "category",
    )
    body = {"key": "qa", "name": "Other", "category": "todo"}
    taken = (409, "conflict", "key")
    assert await problem(place.member, "POST", "/statuses", body) == taken
    assert await problem(place.member, "POST", "/statuses", {**body, "key": "todo"}) == taken
    issue = await place.call("POST", "/issues", {"title": "Q", "status": "qa"}, status=201)
    assert (issue["status"], issue["category"]) == ("qa", "in_progress")
    await archived(place, where)
    await place.call("POST", f"{where}/archive")
    refused = (400, "invalid_input", "status")
    await place.call("POST", "/issues", {"title": "R"}, status=201)
    assert await problem(place.member, "PATCH", "/issues/WF-2", {"status": "qa"}) == refused
    assert (await place.call("GET", "/issues?status=qa&category=in_progress"))["total"] == 1


async def test_a_squad_is_assigned(place: Place) -> None:
    """A squad is made, changed and archived; an issue assigned to it is run by its leader."""
    agent = await place.agent()
    squad = await made(
        place,
        "squads",
        name="Ops",
        leader_id=agent["id"],
        members=[{"type": "agent", "id": agent["id"]}],
    )
    where = f"/squads/{squad['id']}"
    changed = await place.call("PATCH", where, {"instructions": "Delegate.", "members": []})
    assert (changed["instructions"], changed["members"]) == ("Delegate.", [])
    body = {"title": "Ship", "assignee_type": "squad", "assignee_id": squad["id"]}
    issue = await place.call("POST", "/issues", body, status=201)
    assert (issue["assignee_type"], issue["assignee_id"]) == ("squad", squad["id"])
    assert (await place.call("GET", f"/issues?assignee={squad['id']}"))["total"] == 1
    (task,) = await place.claim(agent, wait_seconds=10)
    assert task["context"]["squad_id"] == squad["id"]
    assert "You lead the squad Ops" in task["prompt"]
    assert "Delegate." in task["prompt"]
    await archived(place, where)
    await place.call("POST", f"{where}/archive")
    assert await problem(place.member, "POST", "/issues", body) == (
        400,
        "invalid_input",
        "assignee_id",
    )


async def test_labels_are_attached_and_go(place: Place) -> None:
    """A label is made, changed, attached and detached, each twice with 204, and deleted."""
    issue = await place.call("POST", "/issues", {"title": "Sinking"}, status=201)
    label = await made(place, "labels", name="Bug", color="#ff0000")
    where = f"/labels/{label['id']}"
    await place.call("PATCH", where, {"name": "Leak"})
    assert await problem(place.member, "POST", "/labels", {"name": "LEAK"}) == (
        409,
        "conflict",
        "name",
    )
    on_issue = f"/issues/{issue['identifier']}{where}"
    shown = [{"id": label["id"], "name": "Leak", "color": "#ff0000"}]
    for method, labels in (("PUT", shown), ("DELETE", []), ("PUT", shown)):
        for _ in range(2):
            await place.call(method, on_issue, status=204)
        assert (await place.call("GET", "/issues/WF-1"))["labels"] == labels
    assert (await place.call("GET", f"/issues?label={label['id']}"))["total"] == 1
    await place.call("DELETE", where, status=204)
    assert (await place.call("GET", "/issues/WF-1"))["labels"] == []
    assert await problem(place.member, "PUT", on_issue) == (404, "not_found", None)
    timeline = (await place.call("GET", "/issues/WF-1/timeline"))["items"]
    assert [each["action"] for each in timeline[:4]] == [
        "issue_label_removed",
        "issue_label_added",
        "issue_label_removed",
        "issue_label_added",
    ]


async def test_properties_are_set_by_their_type(place: Place) -> None:
    """A property is made, changed and archived; values of its type are set and cleared with 204."""
    await place.call("POST", "/issues", {"title": "Sinking"}, status=201)
    risk = await made(
        place, "properties", name="Risk", type="select", config={"options": ["low", "high"]}
    )
    where = f"/properties/{risk['id']}"
    changed = await place.call("PATCH", where, {"config": {"options": ["low", "high", "none"]}})
    assert changed["config"]["options"] == ["low", "high", "none"]
    on_issue = f"/issues/WF-1{where}"
    for _ in range(2):
        await place.call("PUT", on_issue, {"value": "none"}, status=204)
    assert (await place.call("GET", "/issues/WF-1"))["properties"] == {risk["id"]: "none"}
    for body, code, field in (
        ({"value": "some"}, "invalid_input", "value"),
        ({"value": None}, "invalid_input", "value"),
        ({}, "missing_field", "value"),
        ({"value": "low", "by": "me"}, "unknown_field", "by"),
    ):
        assert await problem(place.member, "PUT", on_issue, body) == (400, code, field)
    for _ in range(2):
        await place.call("DELETE", on_issue, status=204)
    assert (await place.call("GET", "/issues/WF-1"))["properties"] == {}
    await archived(place, where)
    await place.call("POST", f"{where}/archive")
    assert await problem(place.member, "PUT", on_issue, {"value": "low"}) == (
        400,
        "invalid_input",
        "property_id",
    )


async def test_projects_hold_issues(place: Place) -> None:
    """A project is made, changed and archived; issues are made in it, moved, filtered by it."""
    project = await made(place, "projects", name="Ark")
    where = f"/projects/{project['id']}"
    changed = await place.call("PATCH", where, {"description": "Two of each."})
    assert (changed["name"], changed["description"]) == ("Ark", "Two of each.")
    body = {"title": "Build", "project_id": project["id"]}
    assert (await place.call("POST", "/issues", body, status=201))["project_id"] == project["id"]
    assert (await place.call("GET", f"/issues?project={project['id']}"))["total"] == 1
    out = await place.call("PATCH", "/issues/WF-1", {"project_id": None})
    assert out["project_id"] is None
    await archived(place, where)
    await place.call("POST", f"{where}/archive")
    refused = (400, "invalid_input", "project_id")
    assert await problem(place.member, "PATCH", "/issues/WF-1", body) == refused


async def test_metadata_take_a_merge_patch(place: Place) -> None:
    """RFC 7396: the body is the patch, whatever its keys are called; the answer is the result."""
    body = {"title": "Build", "metadata": {"a": {"b": 1, "c": 2}, "id": "x"}}
    await place.call("POST", "/issues", body, status=201)
    where = "/issues/WF-1/metadata"
    patch = {"a": {"b": None}, "id": None, "patch": [1], "model_config": {"self": None}, "": 0}
    merged = {"a": {"c": 2}, "patch": [1], "model_config": {}, "": 0}
    for _ in range(2):
        assert await place.call("PATCH", where, patch) == merged
    assert await place.call("PATCH", where, {}) == merged
    issue = await place.call("GET", "/issues/WF-1")
    assert (issue["metadata"], issue["revision"]) == (merged, 2)
    newest = (await place.call("GET", "/issues/WF-1/timeline"))["items"][0]
    assert (newest["action"], newest["details"]) == (
        "issue_metadata_changed",
        {"changed_fields": ["", "a", "id", "model_config", "patch"]},
    )
    response = await place.member.patch(
        where, content=b'{"d": 1}', headers={"Content-Type": "application/merge-patch+json"}
    )
    assert response.json() == {**merged, "d": 1}


async def test_outrageous_metadata_never_break_the_engine(place: Place) -> None:
    """A patch is taken, or refused for `metadata` or by the place at fault, never with a 5xx."""
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    deep = '{"a":' * 40 + "1" + "}" * 40
    for content, status in (
        (json.dumps({"a" * 10_000: 1}), 400),
        (json.dumps({"n": 10**300, "m": -1e308, "d": [[[]]]}), 200),
        (json.dumps({"long": "x" * 70_000}), 400),
        (json.dumps({str(number): number for number in range(200)}), 400),
        (json.dumps({"'; DROP TABLE issue; --": "%_\\", "\x01": "\x7f\u202e"}), 200),
        (deep, 400),
        ('{"a": "\\u0000"}', 400),
        ('{"\\u0000": 1}', 400),
        ('{"a": {"b": ["\\ud800"]}}', 400),
        ('{"a": 1, "a": 2}', 400),
        ('{"a": NaN}', 400),
        ("[]", 400),
        ("null", 400),
    ):
        response = await place.member.patch(
            "/issues/WF-1/metadata", content=content, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == status, (content[:100], response.text)
        if status == 400 and content[:1] == "{" and "NaN" not in content:
            assert response.json()["details"]["field"], content[:100]


async def test_who_may_do_what(place: Place) -> None:
    """Over HTTP: a member makes no status; a run labels, but changes no catalogue besides."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Build"}, status=201)
    entry = {"name": "Made"}
    squad = {**entry, "leader_id": agent["id"]}
    status = {**entry, "key": "made", "category": "todo"}
    label = await place.call("POST", "/labels", entry, status=201)
    prop = await place.call("POST", "/properties", entry, status=201)
    await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]}, status=201)
    (task,) = await place.claim(agent, wait_seconds=10)
    async with place.server.client(task["token"]) as run:
        for path, body in (
            ("/statuses", status),
            ("/squads", squad),
            ("/projects", entry),
            ("/properties", entry),
        ):
            assert await problem(run, "POST", path, body) == (403, "not_allowed", None), path
        for method in ("PATCH", "DELETE"):
            refused = await problem(run, method, f"/labels/{label['id']}", {})
            assert refused == (403, "not_allowed", None)
        assert (await run.post("/labels", json={"name": "By the run"})).status_code == 201
        on_issue = "/issues/WF-1"
        value = {"value": "x"}
        marks: tuple[tuple[str, str, Json | None, int], ...] = (
            ("PUT", f"{on_issue}/labels/{label['id']}", None, 204),
            ("PUT", f"{on_issue}/properties/{prop['id']}", value, 204),
            ("PATCH", f"{on_issue}/metadata", {"a": 1}, 200),
        )
        for method, path, sent, expected in marks:
            assert (await run.request(method, path, json=sent)).status_code == expected, path
    person = {"email": "noah@example.com", "name": "Noah", "role": "member"}
    token = (await place.call("POST", "/members", person, status=201))["token"]
    async with place.server.client(token) as member:
        assert await problem(member, "POST", "/statuses", status) == (403, "not_allowed", None)
        assert (await member.post("/squads", json=squad)).status_code == 201
        assert (await member.post("/projects", json=entry)).status_code == 201


async def test_a_stranger_finds_no_catalogue(place: Place) -> None:
    """W-191: entries of a workspace, and what its issues have of them, are 404 to strangers."""
    agent = await place.agent()
    await place.call("POST", "/issues", {"title": "Secret"}, status=201)
    issue = (await place.call("GET", "/issues/WF-1"))["id"]
    entry: Json = {"name": "Secret"}
    bodies: dict[str, Json] = {
        "statuses": {**entry, "key": "secret", "category": "todo"},
        "squads": {**entry, "leader_id": agent["id"]},
        "labels": entry,
        "properties": entry,
        "projects": entry,
    }
    paths: list[tuple[str, str, Json | None]] = []
    for what, body in bodies.items():
        found = await place.call("POST", f"/{what}", body, status=201)
        paths += [("GET", f"/{what}/{found['id']}", None)]
        paths += [("PATCH", f"/{what}/{found['id']}", {"name": "x"})]
        gone = "archive" if what != "labels" else None
        paths += [("POST", f"/{what}/{found['id']}/archive", None)] if gone else []
        paths += [("DELETE", f"/{what}/{found['id']}", None)] if not gone else []
        if what in {"labels", "properties"}:
            value = {"value": "x"} if what == "properties" else None
            paths += [("PUT", f"/issues/{issue}/{what}/{found['id']}", value)]
            paths += [("DELETE", f"/issues/{issue}/{what}/{found['id']}", None)]
    paths += [("PATCH", f"/issues/{issue}/metadata", {"a": 1})]
    body = {"name": "Elsewhere", "slug": "elsewhere", "issue_prefix": "E"}
    await place.call("POST", "/workspaces", body, status=201)
    person = {"email": "s@example.com", "name": "S", "role": "owner"}
    chosen = {"X-Workspace-ID": "elsewhere"}
    token = (await place.member.post("/members", json=person, headers=chosen)).json()["token"]
    async with place.server.client(token) as stranger:
        for method, path, sent in paths:
            assert (await problem(stranger, method, path, sent))[:2] == (404, "not_found"), path
        for what in bodies:
            named = await stranger.get(f"/{what}", headers={"X-Workspace-ID": "main"})
            assert named.status_code == 404
            assert "Secret" not in (await stranger.get(f"/{what}")).text


async def test_a_change_tells_null_from_not_sent(
    client: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """A colour that is null is taken away; a field that cannot be null refuses it by its name."""
    thing = "00000000-0000-0000-0000-000000000001"
    assert (await client.patch(f"/labels/{thing}", json={"color": None})).status_code == 200
    (asked,) = stand_in.asked
    assert isinstance(asked, UpdateLabel)
    assert (asked.color, asked.name) == (None, UNSET)
    for path, field in (
        ("labels", "name"),
        ("statuses", "category"),
        ("squads", "leader_id"),
        ("squads", "members"),
        ("properties", "config"),
        ("projects", "description"),
    ):
        refused = await problem(client, "PATCH", f"/{path}/{thing}", {field: None})
        assert refused == (400, "invalid_input", field)
