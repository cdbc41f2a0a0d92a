"""Every route, from the request to the command and from the view to the answer."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import attrs
import httpx
import pytest
import trio

from engine.domain.commands import UNSET, Command, tracker
from engine.domain.commands.runs import CreateRun
from engine.domain.commands.wakeups import CreateRule
from engine.domain.views.runs import CreatedRunView
from engine.errors import WakefulError
from tests.web.conftest import Server
from tests.web.sample import Sample
from tests.web.samples import SAMPLES
from tests.web.stand_in import (
    DAEMON,
    ISSUE,
    MEMBER,
    OTHER_WORKSPACE,
    PRINCIPALS,
    RUN_TOKEN,
    WANDERER,
    WORKSPACE,
    Asked,
    StandInEngine,
    sample,
)
from web import wire
from web.api import ROUTES
from web.schemas.inputs import Input, Nothing


async def send(server: Server, each: Sample, token: str | None = None) -> httpx.Response:
    """Send the request of a sample, as who may send it."""
    async with server.client(token or (DAEMON if each.is_daemon else MEMBER)) as client:
        content = json.dumps(dict(each.full)) if each.full else None
        headers = {"Content-Type": "application/json"}
        return await client.request(each.method, each.path, content=content, headers=headers)


@pytest.mark.parametrize("each", SAMPLES, ids=str)
async def test_a_request_becomes_its_command(
    each: Sample, server: Server, stand_in: StandInEngine
) -> None:
    """Every field of every route reaches the engine parsed, and the view comes back as JSON."""
    response = await send(server, each)
    assert response.status_code == each.status, response.text
    if each.asked is not None:
        assert stand_in.asked == [each.asked]
        assert stand_in.callers == [PRINCIPALS[DAEMON if each.is_daemon else MEMBER]]
    if each.status == 204:
        assert response.content == b""
        assert "content-type" not in response.headers
    elif each.is_file:
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.content == sample(bytes)
        return
    else:
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
    if each.answers is not None:
        view = json.loads(wire.dumps(sample(each.answers)))
        if each.path.endswith("/claim") or "tasks" in each.full:  # of one runtime, or of many
            view = {"task" if "/runtimes/" in each.path else "tasks": view}
        assert response.json() == view


def names(fields: type[Input]) -> set[str]:
    """Return the names that the fields of a body or query have on the wire."""
    return {field.alias or name for name, field in fields.model_fields.items()}


def test_every_route_has_one_sample() -> None:
    """No route is declared without a request that these tests send, with all that it takes."""
    sent = [(each, each.path.partition("?")[0]) for each in SAMPLES]
    for route in ROUTES:
        address = re.compile(re.sub(r"\{\w+\}", "[^/]+", route.path))
        (found,) = [
            each for each, path in sent if each.method == route.method and address.fullmatch(path)
        ]
        query = route.asks if route.has_body else route.takes
        if route.has_body:
            assert set(found.full) == names(route.takes)
        assert set(re.findall(r"(\w+)=", found.path)) == names(query or Nothing)
    assert len(ROUTES) == len(SAMPLES)


async def test_what_a_change_does_not_send_is_unset(
    client: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """A PATCH tells a field that is null from one that was not sent."""
    response = await client.patch("/issues/WF-12", json={"parent_id": None})
    assert response.status_code == 200
    (command,) = stand_in.asked
    assert isinstance(command, tracker.UpdateIssue)
    assert command.parent_id is None
    assert command.title is UNSET
    assert command.metadata is UNSET


async def test_a_run_that_joined_another_is_200(
    client: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """POST runs answers 201 for a new run and 200 for the pending one that it merged into."""

    async def joined(asked: Asked) -> Any:
        assert isinstance(asked, CreateRun)
        return attrs.evolve(sample(CreatedRunView), created=False)

    stand_in.answer = joined
    response = await client.post("/issues/WF-12/runs", json={"agent_id": str(UUID(int=1))})
    assert response.status_code == 200


async def test_null_counts_as_not_sent_in_a_rule(
    client: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """A rule with null in every field is the empty draft: what is missing, the domain says."""
    names = ("agent_id", "kind", "event_types", "at", "after_seconds", "timezone")
    await client.post("/issues/WF-12/wakeups", json=dict.fromkeys(names))
    (command,) = stand_in.asked
    assert isinstance(command, CreateRule)
    assert command.draft == attrs.evolve(command.draft, event_types=(), agent_id=None, kind=None)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("POST", "/nothing", 404, "not_found"),
        ("GET", "/runs", 404, "not_found"),
        ("GET", "/runs/1", 404, "not_found"),
        ("GET", f"/runs/{{{WORKSPACE}}}", 404, "not_found"),
        ("GET", f"/runs/urn:uuid:{WORKSPACE}", 404, "not_found"),
        ("GET", "/issues/WF-13", 404, "not_found"),
        ("GET", f"/issues/{WORKSPACE}", 404, "not_found"),
        ("GET", "//health", 404, "not_found"),
        ("GET", "/HEALTH", 404, "not_found"),
        ("DELETE", "/issues", 405, "method_not_allowed"),
        ("OPTIONS", "/issues", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("BREW", "/me", 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_there_is_a_problem(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    """Unknown addresses and ids are 404, methods that an address does not take 405 with Allow."""
    response = await client.request(method, httpx.URL(f"{client.base_url}".rstrip("/") + path))
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("fields", "code", "detail"),
    [
        ({"event_types": "x"}, "invalid_input", "event_types: must be a list of texts"),
        ({"event_types": [1]}, "invalid_input", "event_types.0: must be a text"),
        ({"after_seconds": "5"}, "invalid_input", "after_seconds: must be a whole number"),
        ({"after_seconds": 2**31}, "invalid_input", "after_seconds: must be at most 2147483647"),
        ({"agent_id": "me"}, "invalid_input", "agent_id: must be a UUID"),
        ({"colour": 1}, "unknown_field", "colour: unknown field"),
    ],
)
async def test_a_refusal_is_a_plain_sentence(
    client: httpx.AsyncClient, fields: dict[str, Any], code: str, detail: str
) -> None:
    """W-003, W-011: what is wrong with a field is said in words of JSON, not of the library's."""
    problem = (await client.post("/issues/WF-12/wakeups", json=fields)).json()
    assert (problem["code"], problem["detail"]) == (code, detail)


async def test_a_browser_is_led_to_the_description(server: Server) -> None:
    """Who opens the server's bare address gets to the page that describes the API."""
    async with httpx.AsyncClient() as browser:
        response = await browser.get(f"{server.url}/")
    assert (response.status_code, response.headers["location"]) == (302, "/api/docs")


async def test_a_slash_at_the_end_changes_nothing(client: httpx.AsyncClient) -> None:
    """An address answers the same with one trailing slash, without a redirect."""
    assert (await client.get("/health/")).status_code == 200
    assert (await client.get("/issues/WF-12/")).status_code == 200


@pytest.mark.parametrize("header", ["", "Basic abc", "Bearer", "Bearer a b", "Bearer wkm_x", "x"])
async def test_who_is_not_known_is_401(server: Server, header: str) -> None:
    """No, unreadable and unknown credentials are 401 with the challenge."""
    async with server.client(token=None) as client:
        response = await client.get("/me", headers={"Authorization": header})
    assert response.status_code == 401
    assert response.json()["code"] == "not_authenticated"
    assert response.headers["www-authenticate"] == "Bearer"


async def test_two_credentials_are_none(server: Server) -> None:
    """A request that shows two tokens is refused, instead of one being picked."""
    async with server.client(token=None) as client:
        headers = [("Authorization", f"Bearer {token}") for token in (MEMBER, RUN_TOKEN)]
        response = await client.get("/me", headers=headers)
    assert response.status_code == 401


@pytest.mark.parametrize("each", [each for each in SAMPLES if each.asked is not None], ids=str)
async def test_a_daemon_does_nothing_but_daemon_work(each: Sample, server: Server) -> None:
    """A daemon token is 403 on all but the daemon's routes, and on those every other token is."""
    response = await send(server, each, MEMBER if each.is_daemon else DAEMON)
    assert response.status_code == 403
    assert response.json()["code"] == "not_allowed"
    if each.is_daemon:
        assert (await send(server, each, RUN_TOKEN)).status_code == 403


async def test_a_run_is_no_person(server: Server) -> None:
    """A run token reads and works on issues, but makes no workspaces, members or tokens."""
    for each in SAMPLES:
        if each.method != "GET" and each.path.startswith(("/workspaces", "/members", "/tokens")):
            assert (await send(server, each, RUN_TOKEN)).status_code == 403
        elif each.path.startswith("/issues"):
            assert (await send(server, each, RUN_TOKEN)).status_code == each.status


async def test_headers_never_change_who_calls(server: Server, stand_in: StandInEngine) -> None:
    """W-193: X-Agent-ID, X-Task-ID and X-Actor-Source change nothing."""
    forged = {"X-Agent-ID": str(UUID(int=1)), "X-Task-ID": str(UUID(int=2)), "X-Actor-Source": "x"}
    async with server.client(MEMBER, **forged) as client:
        await client.post("/issues", json={"title": "a"})
    assert stand_in.callers == [PRINCIPALS[MEMBER]]


async def test_the_workspace_is_named_where_there_is_a_choice(
    server: Server, stand_in: StandInEngine
) -> None:
    """X-Workspace-ID chooses among several workspaces, and is required only then."""
    async with server.client(WANDERER) as client:
        response = await client.get("/agents")
        assert response.status_code == 400
        assert response.json()["details"] == {"field": "X-Workspace-ID"}
        chosen = {"X-Workspace-ID": str(OTHER_WORKSPACE)}
        assert (await client.get("/agents", headers=chosen)).status_code == 200
    assert stand_in.asked == [tracker.ListAgents(workspace_id=OTHER_WORKSPACE)]
    async with server.client(MEMBER) as client:
        assert (await client.get("/agents", headers=chosen)).status_code == 404


@pytest.mark.parametrize(
    "each",
    [each for each in SAMPLES if isinstance(each.asked, Command) and each.method == "POST"],
    ids=str,
)
async def test_an_idempotency_key_is_not_ignored(
    each: Sample, server: Server, stand_in: StandInEngine
) -> None:
    """W-033: a person's change carries its key; a daemon's call, which needs none, is refused."""
    token = DAEMON if each.is_daemon else MEMBER
    async with server.client(token, **{"Idempotency-Key": "a-key"}) as client:
        response = await client.post(each.path, json=each.full)
    if each.is_daemon:
        assert response.status_code == 400
        assert response.json()["details"] == {"field": "Idempotency-Key"}
        assert stand_in.asked == []
        return
    assert response.status_code == each.status
    (command,) = stand_in.asked
    assert isinstance(command, Command)
    assert command.once is not None
    assert (command.once.key, len(command.once.digest)) == ("a-key", 32)


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("form=2030-01-02T02:04:05Z", "form", "unknown_field"),
        ("from=2030-01-02T02:04:05", "from", "invalid_input"),
        ("start=2030-01-02T02:04:05Z", "start", "unknown_field"),
        ("wakeup_id=1", "wakeup_id", "invalid_input"),
    ],
)
async def test_a_query_beside_a_body_is_read_as_strictly(
    client: httpx.AsyncClient, stand_in: StandInEngine, query: str, field: str, code: str
) -> None:
    """W-034: what a preview does not know in its query, or cannot read, is refused by name."""
    body = {"kind": "cron", "instruction": "Look.", "cron_expression": "* * * * *"}
    response = await client.post(f"/issues/WF-12/wakeups/preview?{query}", json=body)
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert response.json()["details"] == {"field": field}
    assert stand_in.asked == []


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("limit=0", "limit", "invalid_input"),
        ("limit=101", "limit", "invalid_input"),
        ("limit=ten", "limit", "invalid_input"),
        ("limit=1.0", "limit", "invalid_input"),
        ("limit=%2B5", "limit", "invalid_input"),
        ("limit=", "limit", "invalid_input"),
        ("limit=\u0661", "limit", "invalid_input"),
        ("offset=-1", "offset", "invalid_input"),
        ("offset=1000001", "offset", "invalid_input"),
        ("offset=1&offset=2", "offset", "invalid_input"),
        ("page=1", "page", "unknown_field"),
        ("assignee=me", "assignee", "invalid_input"),
    ],
)
async def test_a_bad_query_names_its_field(
    client: httpx.AsyncClient, query: str, field: str, code: str
) -> None:
    """Lists take limit 1 to 100 and an offset; anything else is 400 with the field."""
    response = await client.get(f"/issues?{query}")
    assert response.status_code == 400
    assert response.json()["code"] == code
    assert response.json()["details"]["field"] == field


async def test_errors_of_the_engine_are_problems(
    client: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """An error keeps its code, sentence and details, and says when a retry may help."""

    async def fail(_asked: Asked) -> Any:
        raise WakefulError(
            "wakeup_source_busy", "The run is busy.", field="filter_task_id", details={"run": ISSUE}
        )

    stand_in.answer = fail
    response = await client.get("/me")
    assert response.status_code == 409
    assert response.json() == {
        "type": "urn:wakeful:problem:wakeup_source_busy",
        "title": "The watched run is busy",
        "status": 409,
        "detail": "The run is busy.",
        "code": "wakeup_source_busy",
        "error": "The run is busy.",
        "details": {"run": str(ISSUE), "field": "filter_task_id"},
    }
    assert "retry-after" not in response.headers

    async def wait(_asked: Asked) -> Any:
        raise WakefulError("contention", "The rows stayed locked.")

    stand_in.answer = wait
    response = await client.get("/me")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize("error", [KeyError("wkm_secret"), ValueError("SELECT 1")])
async def test_a_mistake_says_nothing_of_itself(
    client: httpx.AsyncClient,
    stand_in: StandInEngine,
    error: Exception,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unexpected exception is 500 internal_error, and only its type is logged."""

    async def fail(_asked: Asked) -> Any:
        async with trio.open_nursery():
            raise error

    stand_in.answer = fail
    response = await client.get("/me")
    assert response.status_code == 500
    assert response.json()["code"] == "internal_error"
    printed = "".join(capsys.readouterr())
    assert "request_crashed" in printed
    assert type(error).__name__ in printed
    for place in (response.text, printed):
        assert str(error) not in place


async def test_the_instance_says_how_it_is(server: Server, stand_in: StandInEngine) -> None:
    """Health and readiness need no token; what is not ready answers 503 with the same body."""
    async with server.client(token=None) as client:
        health = await client.get("/health")
        assert health.json() == {"status": "ok", "version": "0.0.0", "startup": "complete"}
        head = await client.head("/health")
        assert (head.status_code, head.content) == (200, b"")
        assert (await client.get("/ready")).json() == {"database": "up"}
        stand_in.is_ready = False
        response = await client.get("/ready")
        assert (response.status_code, response.json()) == (503, {"database": "down"})
    assert stand_in.asked == []
