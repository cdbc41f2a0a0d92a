"""The gate: what it counts, what it refuses, and what a client that leaves can do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest
import trio
import trio.testing

from engine import limits
from engine.app import Engine
from engine.work import WorkKind, WorkLedger
from tests.web.conftest import Server, serving
from tests.web.stand_in import DAEMON, StandInEngine
from tests.web.traffic import Blocked, answer, idle, request
from web.admission import Gate, LongPolls

CLAIM = b'{"daemon_id": "d", "runtime_ids": [], "wait_seconds": 30}'


@pytest.fixture
def blocked(stand_in: StandInEngine) -> Blocked:
    return Blocked(stand_in)


async def test_a_request_is_work_until_its_handler_ended(
    server: Server, stand_in: StandInEngine, blocked: Blocked
) -> None:
    """S-058: every admitted request, GET included, holds a token of kind http until it returns."""
    lines = ("GET /api/me", "POST /api/workspaces", "DELETE /api/issues/WF-12")
    body = b'{"name": "a", "slug": "a", "issue_prefix": "A"}'
    async with trio.open_nursery() as nursery:
        for line in lines:
            sent = request(line, body if line.startswith("POST") else b"")
            nursery.start_soon(server.exchange, sent)
        while blocked.waiting < len(lines):
            await trio.lowlevel.checkpoint()
        assert stand_in.ledger.active_by_kind()[WorkKind.HTTP] == len(lines)
        assert {token.name for token in stand_in.ledger.open_tokens()} == set(lines)
        blocked.release.set()
    await idle(stand_in.ledger)
    assert stand_in.ledger.generation == 2 * len(lines)


async def test_a_probe_is_no_work(server: Server, stand_in: StandInEngine) -> None:
    """S-060: GET and HEAD of health leave the generation alone, every other request moves it."""
    async with server.client(token=None) as client:
        for path in ("/health", "/health/"):
            assert (await client.get(path)).status_code == 200
            assert (await client.head(path)).status_code == 200
        assert stand_in.ledger.generation == 0
        await client.post("/health")
        await idle(stand_in.ledger)
        assert stand_in.ledger.generation == 2
    for path in ("/api//health", "/API/health", "/api/%68ealth", "/api/health/x"):
        before = stand_in.ledger.generation
        await server.exchange(request(f"GET {path}"))
        await idle(stand_in.ledger)
        assert stand_in.ledger.generation == before + 2, path


@pytest.mark.parametrize("line", ["POST /api/issues", "DELETE /api/issues/WF-12"])
async def test_a_change_outlives_its_client(
    server: Server, stand_in: StandInEngine, blocked: Blocked, line: str
) -> None:
    """S-061: once its body is here, a change runs to its end although the client has gone."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(request(line, b'{"title": "a"}' if "POST" in line else b""))
    await blocked.reached.wait()
    await stream.aclose()
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert stand_in.ledger.active == 1
    assert not blocked.cancelled.is_set()
    blocked.release.set()
    await idle(stand_in.ledger)
    assert blocked.finished == 1


@pytest.mark.parametrize(
    "sent",
    [
        request("GET /api/me"),
        request("POST /api/daemon/tasks/claim", CLAIM, token=DAEMON),
        request("POST /api/daemon/tasks/cl%61im/", CLAIM, token=DAEMON),
    ],
    ids=["a read", "a claim", "a claim spelled otherwise"],
)
async def test_a_wait_ends_with_its_client(
    server: Server, stand_in: StandInEngine, blocked: Blocked, sent: bytes
) -> None:
    """W-103: a read and a waiting claim are cancelled when the client leaves."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(sent)
    await blocked.reached.wait()
    await stream.aclose()
    await blocked.cancelled.wait()
    await idle(stand_in.ledger)
    assert blocked.finished == 0


async def test_half_a_body_holds_no_token_once_its_client_left(
    server: Server, stand_in: StandInEngine
) -> None:
    """S-061: a client that leaves in the middle of its body ends the request."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(request("POST /api/issues", b'{"tit', length=100))
    while not stand_in.ledger.active:
        await trio.lowlevel.checkpoint()
    await stream.aclose()
    await idle(stand_in.ledger)
    assert stand_in.asked == []


@pytest.mark.parametrize("line", ["GET /api/me", "POST /api/issues/WF-12/wakeups/0/trigger"])
async def test_a_connection_ends_when_it_should(server: Server, line: str) -> None:
    """A connection that was to close after its answer is closed, whatever the handler was."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(request(line))
        with trio.fail_after(5):
            raw = b"".join([part async for part in stream])
    assert answer(raw)[1] is not None


async def test_half_a_connection_still_gets_its_answer(server: Server) -> None:
    """A client that only stops sending gets the answer of its change."""
    raw = await server.exchange(request("POST /api/issues", b'{"title": "a"}'), stop_sending=True)
    assert answer(raw)[0] == 201


async def test_an_announced_giant_is_refused_at_once(
    server: Server, stand_in: StandInEngine
) -> None:
    """An announced body above 1 MiB is 413 before any of it is read, and is no work."""
    before = stand_in.ledger.generation
    for size in (limits.BODY_BYTES_MAX + 1, 2**30, 10**19):
        for line in ("POST /api/issues", "POST /api/nothing", "GET /api/me"):
            with trio.fail_after(limits.LINGER_SECONDS_MAX + 3):
                status, problem = answer(await server.exchange(request(line, length=size)))
            assert (status, problem["code"]) == (413, "payload_too_large")
    assert stand_in.ledger.generation == before
    assert stand_in.asked == []


async def test_who_sends_too_much_learns_why(server: Server) -> None:
    """The refusal reaches a client that sends its whole body first, with and without a length."""
    body = b" " * (limits.BODY_BYTES_MAX + 1)

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield body

    async with server.client() as client:
        response = await client.post("/issues", content=body)
        assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
        for count in (1, 8):
            response = await client.post("/issues", content=pieces(count))
            assert (response.status_code, response.json()["code"]) == (400, "body_too_large")
        assert (await client.get("/me")).status_code == 200


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("/issues", limits.BODY_BYTES_MAX),
        ("/issues/WF-12/wakeups", limits.BODY_RULE_BYTES_MAX),
        ("/issues/WF-12/wakeups/00000000-0000-0000-0000-000000000301", limits.BODY_RULE_BYTES_MAX),
        (
            "/issues/WF-12/wakeups/00000000-0000-0000-0000-000000000301/enable",
            limits.BODY_ENABLE_BYTES_MAX,
        ),
        ("/issues/WF-12/wakeups/00000000-0000-0000-0000-000000000301/checkin", 8_192),
    ],
)
async def test_each_route_has_its_size(
    server: Server, stand_in: StandInEngine, path: str, size: int
) -> None:
    """W-011: a body may have exactly as many bytes as its route takes, announced or not."""
    method = "PUT" if path.endswith("301") else "POST"
    bodies: dict[str, dict[str, object]] = {
        "issues": {"title": "a"},
        "enable": {"revision": 1},
        "checkin": {"note": "a"},
    }
    body = bodies.get(path.rpartition("/")[2], {})
    text = json.dumps(body).encode()

    async def piece(extra: int) -> AsyncIterator[bytes]:
        yield text.ljust(size + extra)

    async with server.client() as client:
        for content in (text.ljust(size), piece(0)):
            assert (await client.request(method, path, content=content)).is_success
        asked = len(stand_in.asked)
        announced = await client.request(method, path, content=text.ljust(size + 1))
        expected = (413, "payload_too_large") if path == "/issues" else (400, "body_too_large")
        assert (announced.status_code, announced.json()["code"]) == expected
        response = await client.request(method, path, content=piece(1))
        assert (response.status_code, response.json()["code"]) == (400, "body_too_large")
    assert len(stand_in.asked) == asked


async def test_a_stopping_server_admits_nothing(
    server: Server, stand_in: StandInEngine, blocked: Blocked
) -> None:
    """S-077: after shutdown, further requests are 503 stopping, and those in progress finish."""
    async with server.client() as first, server.client() as second, trio.open_nursery() as nursery:
        finished: list[int] = []

        async def change() -> None:
            finished.append((await first.post("/issues", json={"title": "a"})).status_code)

        nursery.start_soon(change)
        await blocked.reached.wait()
        server.shutdown.set()
        await trio.testing.wait_all_tasks_blocked(0.01)
        refused = await second.get("/me")
        assert (refused.status_code, refused.json()["code"]) == (503, "stopping")
        assert refused.headers["retry-after"] == "1"
        assert (await second.get("/health")).status_code == 200
        assert finished == []
        blocked.release.set()
    assert finished == [201]
    await idle(stand_in.ledger)
    assert stand_in.ledger.generation == 2


async def test_a_request_that_never_ends_does_not_hold_the_server(
    stand_in: StandInEngine, blocked: Blocked
) -> None:
    """S-077: after the stop grace the port closes over what is still running."""
    stand_in.stop_grace_seconds = 0.05
    with trio.fail_after(5):
        async with serving(cast("Engine", stand_in)) as server:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            await stream.send_all(request("POST /api/issues", b'{"title": "a"}'))
            await blocked.reached.wait()
    async with stream:
        assert await stream.receive_some() == b""
    assert blocked.cancelled.is_set()
    assert blocked.finished == 0


async def test_a_stopping_server_ends_long_polls(
    server: Server, stand_in: StandInEngine, blocked: Blocked
) -> None:
    """A claim that waits when the server stops is answered at once, with no runs."""
    async with trio.open_nursery() as nursery:
        raw = b""

        async def claim() -> None:
            nonlocal raw
            raw = await server.exchange(
                request("POST /api/daemon/tasks/claim", CLAIM, token=DAEMON)
            )

        nursery.start_soon(claim)
        await blocked.reached.wait()
        server.shutdown.set()
    assert answer(raw) == (200, {"tasks": []})
    assert blocked.cancelled.is_set()
    await idle(stand_in.ledger)


async def test_a_poll_that_comes_after_the_end_does_not_wait() -> None:
    """A long poll that begins after all polls were ended is over at its first checkpoint."""
    polls = LongPolls()
    polls.end()
    with trio.fail_after(1), polls.waiting() as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_storm_of_leaving_clients_leaves_nothing(
    server: Server, stand_in: StandInEngine
) -> None:
    """S-061: aborted reads, changes and unsent bodies end all tokens, and the server lives."""
    requests = (
        request("GET /api/issues"),
        request("POST /api/issues", b'{"title": "a"}'),
        request("POST /api/issues", b'{"title": "a"}', length=1000),
        request("POST /api/issues", b"x" * 100_000, length=2**30),
        request("POST /api/issues", b"x" * 100_000, token="wkm_nobody", length=500_000),
    )

    async def leave(sent: bytes, turns: int) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(sent)
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        await stream.aclose()

    for turn in range(40):
        async with trio.open_nursery() as nursery:
            for number, sent in enumerate(requests):
                nursery.start_soon(leave, sent, (turn * (number + 1)) % 50)
    await idle(stand_in.ledger)
    async with server.client() as client:
        assert (await client.get("/me")).status_code == 200


async def test_a_crash_below_the_routes_is_still_a_problem() -> None:
    """What the application itself cannot answer, the gate answers: 500, and the token ends."""
    ledger = WorkLedger()
    sent: list[Any] = []

    async def crash(_scope: Any, _receive: Any, _send: Any) -> None:
        raise RuntimeError("no")

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/me",
        "raw_path": b"/api/me",
        "query_string": b"",
        "headers": [],
    }
    await Gate(crash, ledger, LongPolls())(scope, receive, send)
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"])["code"] == "internal_error"
    assert (ledger.active, ledger.generation) == (0, 2)


async def test_a_full_url_of_the_client_library_works(server: Server) -> None:
    """The address that the server reports is where it answers."""
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{server.url}/api/health")).status_code == 200
