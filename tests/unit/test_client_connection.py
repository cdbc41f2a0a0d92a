"""Calls and their answers, over a transport that a test plays."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from client.api import Wakeful
from client.connection import AsyncConnection, Connection, Server
from client.errors import ApiError, UnreachableError

SERVER = Server(url="http://127.0.0.1:1/", token="wkm_x", workspace="main")
Answering = Callable[[httpx.Request], httpx.Response]


def connection(answering: Answering) -> Connection:
    """Return a connection whose server is a function."""
    return Connection(SERVER, transport=httpx.MockTransport(answering))


def test_a_call_carries_who_and_where() -> None:
    """A call names credential and workspace and leaves out what was not given."""

    def answering(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "http://127.0.0.1:1/api/issues?status=todo"
        assert request.headers["authorization"] == "Bearer wkm_x"
        assert request.headers["x-workspace-id"] == "main"
        return httpx.Response(200, json={"items": [], "total": 0})

    with connection(answering) as open_connection:
        api = Wakeful(open_connection)
        assert api.issues(status="todo", search=None) == {"items": [], "total": 0}


def test_a_path_cannot_be_left() -> None:
    """Names in a path are escaped: no text of a user addresses another route."""

    def answering(request: httpx.Request) -> httpx.Response:
        assert request.url.raw_path == b"/api/issues/..%2Fme%3F"
        return httpx.Response(200, json={})

    with connection(answering) as open_connection:
        Wakeful(open_connection).issue("../me?")


def test_a_refusal_keeps_code_sentence_and_details() -> None:
    """A problem document becomes an ApiError with everything that a caller decides by."""
    problem = {
        "type": "urn:wakeful:problem:invalid_input",
        "code": "invalid_input",
        "detail": "Say more.",
        "details": {"field": "title"},
    }
    with (
        connection(lambda _: httpx.Response(400, json=problem)) as open_connection,
        pytest.raises(ApiError) as refused,
    ):
        Wakeful(open_connection).create_issue("")
    error = refused.value
    assert (error.code, error.message, error.status) == ("invalid_input", "Say more.", 400)
    assert error.details == {"field": "title"}
    assert not error.is_passing


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(502, text="<h1>Bad\ngateway</h1>"),
        httpx.Response(404, json=["not", "ours"]),
        httpx.Response(403, json=["not", "ours"]),
        httpx.Response(401, json={"code": "token_not_valid", "detail": "Sign in."}),
        httpx.Response(302, headers={"Location": "/login"}),
        httpx.Response(200, text="hello"),
        httpx.Response(200, json=["not", "ours"]),
        httpx.Response(200, text="[" * 100_000),
        httpx.Response(204),
    ],
)
def test_an_answer_of_somebody_else_is_told(response: httpx.Response) -> None:
    """What is no answer of Wakeful is an error of its own, which may pass, whatever its status."""
    with (
        connection(lambda _: response) as open_connection,
        pytest.raises(ApiError, match="answered") as refused,
    ):
        Wakeful(open_connection).me()
    assert refused.value.code == "unexpected_answer"
    assert refused.value.is_passing


def test_no_answer_is_unreachable() -> None:
    """Where no answer comes the error says so, and that it may pass."""

    def answering(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("too slow")

    with (
        connection(answering) as open_connection,
        pytest.raises(UnreachableError, match="too slow") as lost,
    ):
        Wakeful(open_connection).me()
    assert lost.value.is_passing


async def test_the_asynchronous_connection_answers_alike() -> None:
    """The connection on Trio sends and raises what the synchronous one does."""

    async def answering(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            kind = "urn:wakeful:problem:stopping"
            body = {"type": kind, "code": "stopping", "detail": "Later."}
            return httpx.Response(503, json=body)
        assert json.loads(request.content) == {"a": 1}
        return httpx.Response(204)

    transport = httpx.MockTransport(answering)
    async with AsyncConnection(SERVER, transport=transport) as open_connection:
        assert await open_connection.call("POST", "/x", body={"a": 1}) is None
        with pytest.raises(ApiError) as refused:
            await open_connection.call("GET", "/x")
    assert (refused.value.code, refused.value.is_passing) == ("stopping", True)


def test_lists_are_read_to_their_end() -> None:
    """Agents are found beyond the first page; an archived one of the same name is not taken."""
    agents = [
        {"id": str(number), "name": f"a{number}", "archived_at": None} for number in range(150)
    ]
    agents[3] = {"id": "3", "name": "a149", "archived_at": "2026-01-01T00:00:00Z"}

    def answering(request: httpx.Request) -> httpx.Response:
        offset, limit = (int(request.url.params[name]) for name in ("offset", "limit"))
        return httpx.Response(200, json={"items": agents[offset : offset + limit], "total": 150})

    with connection(answering) as open_connection:
        api = Wakeful(open_connection)
        assert api.find_agent("a149") == agents[149]
        assert api.find_agent("nobody") is None


@pytest.mark.parametrize(
    ("url", "is_local", "base"),
    [
        ("http://127.0.0.1:8765", True, "http://127.0.0.1:8765/api"),
        ("http://[::1]:8765/", True, "http://[::1]:8765/api"),
        ("http://localhost", True, "http://localhost/api"),
        ("unix:/run/wakeful.sock", True, "http://localhost/api"),
        ("https://wakeful.example/team", False, "https://wakeful.example/team/api"),
    ],
)
def test_no_proxy_stands_before_this_machine(url: str, is_local: bool, base: str) -> None:
    """A server on this machine is reached directly, whatever the environment says of proxies."""
    server = Server(url=url, token="wkm_x")
    assert (server.is_local, server.base) == (is_local, base)


def test_a_token_is_not_shown() -> None:
    """The text of a token is in no representation."""
    assert "wkm_x" not in repr(SERVER)
