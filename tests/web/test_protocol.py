"""Hostile bytes below the routes: addresses, headers, broken HTTP, clients that do not read."""

from __future__ import annotations

import socket
import struct
from typing import Any, cast

import attrs
import pytest
import trio

from engine import limits
from engine.app import Engine
from engine.domain.views.tracker import WorkspaceView
from tests.web.conftest import Server, serving
from tests.web.stand_in import Asked, StandInEngine, sample
from tests.web.traffic import answer, idle, request
from web import server as web_server

UPGRADE = (
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/api/issues/%ff", 400, "invalid_encoding"),
        ("/api/issues/%00", 400, "invalid_encoding"),
        ("/api/issues/%ED%A0%80", 400, "invalid_encoding"),
        ("/api/issues?search=%00", 400, "invalid_encoding"),
        ("/api/issues?search=%ff", 400, "invalid_encoding"),
        ("/api/issues?%C3%28=1", 400, "invalid_encoding"),
        ("/api/issues?search=" + "a" * 9000, 400, "invalid_input"),
        ("/api/issues/" + "a" * 9000, 400, "invalid_input"),
        ("/api/issues/%2e%2e%2f%2e%2e", 404, "not_found"),
        ("*", 400, "invalid_input"),
        ("wakeful:80", 400, "invalid_input"),
        ("http://[/nothing", 404, "not_found"),
        ("http://elsewhere/api/nothing", 404, "not_found"),
    ],
)
async def test_hostile_addresses_are_refused(
    server: Server, target: str, status: int, code: str
) -> None:
    """An address that is not UTF-8, holds NUL or is no path is a problem, never a crash."""
    found, problem = answer(await server.exchange(request(f"GET {target}")))
    assert (found, problem["code"]) == (status, code)


async def test_an_absolute_address_is_served(server: Server) -> None:
    """A request line with a whole URL, as proxies send it, is answered like its path."""
    status, _ = answer(await server.exchange(request("GET http://elsewhere:1/api/me")))
    assert status == 200


@pytest.mark.parametrize(
    "header",
    [
        "Host: \xff\xfe",
        "Host: [::",
        "Host: a b",
        "Host: " + "a" * 5000,
        "Content-Type: \xff/\xff; charset=\xff",
        "Content-Type: application/json; charset=utf-16",
        "Cookie: \xff=\xff; ;;=",
        "X-Workspace-ID: \xff",
        "Accept: \xff",
        "Transfer-Encoding: chunked",
    ],
)
async def test_hostile_headers_crash_nothing(server: Server, header: str) -> None:
    """No header of a request leads to a 5xx."""
    raw = request("POST /api/issues", b'{"title": "a"}', headers=f"{header}\r\n")
    with trio.fail_after(10):
        status = int((await server.exchange(raw, stop_sending=True)).split()[1])
    assert 200 <= status < 500


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
@pytest.mark.parametrize("more", [b"", b"\xff\xff\xff"])
async def test_an_offer_of_another_protocol_is_passed_over(
    server: Server, protocol: str, more: bytes
) -> None:
    """S-055: an upgrade is answered in HTTP/1.1 like any other request for its address."""
    headers = UPGRADE.format(protocol)
    for path, status in (("/api/me", 200), ("/api/nothing", 404)):
        raw = await server.exchange(request(f"GET {path}", headers=headers) + more)
        assert answer(raw)[0] == status


BROKEN = [
    b"\x00\x01\x02\xff\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /api/me HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET /api/me\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
    b"GET /api/me HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000,
    b"GET /api/me HTTP/1.1\r\nHost: x\r\n\r\n\xff\xff\r\n\r\n",
    b"POST /api/issues HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST /api/issues HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    b"POST /api/issues HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/issues HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    request("POST /api/issues", headers="Transfer-Encoding: chunked\r\n") + b"zz\r\n",
    request("POST /api/issues", b"{}", length=10),
]


@pytest.mark.parametrize("raw", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("resets", [False, True])
async def test_broken_http_harms_nobody_else(
    server: Server, stand_in: StandInEngine, raw: bytes, *, resets: bool
) -> None:
    """Bytes that are no HTTP/1.1 end their own connection, and no token is left behind."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(raw)
        if resets:
            linger = struct.pack("ii", 1, 0)
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        else:
            await stream.send_eof()
            with trio.fail_after(5):
                status = b"".join([part async for part in stream])[:12]
            assert status[:9] in {b"HTTP/1.1 ", b""}
            assert status[9:10] in {b"2", b"4", b"5", b""}
    await idle(stand_in.ledger)
    async with server.client() as client:
        assert (await client.get("/me")).status_code == 200


async def test_an_error_stays_with_its_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the protocol machinery fails on one connection, the others go on."""
    handle = web_server._Http1.handle
    failures = 0

    async def fail_once(self: Any, event: Any) -> None:
        nonlocal failures
        if not failures:
            failures += 1
            raise RuntimeError("wkm_secret")
        await handle(self, event)

    async with server.client() as client:
        assert (await client.get("/me")).status_code == 200
        monkeypatch.setattr(web_server._Http1, "handle", fail_once)
        assert await server.exchange(request("GET /api/me")) == b""
        assert failures == 1
        assert (await client.get("/me")).status_code == 200
    printed = "".join(capsys.readouterr())
    assert "connection_failed" in printed
    assert "RuntimeError" in printed
    assert "wkm_secret" not in printed


async def test_a_client_that_does_not_read_is_cut_off(
    server: Server, stand_in: StandInEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-061: whoever asks for much and reads nothing keeps the instance awake for a while only."""
    monkeypatch.setattr(limits, "WRITE_SECONDS_MAX", 0.1)
    view = attrs.evolve(sample(WorkspaceView), name="a" * 50_000_000)

    async def much(_asked: Asked) -> Any:
        return view

    stand_in.answer = much
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(request("GET /api/me"))
        while not stand_in.ledger.generation:
            await trio.lowlevel.checkpoint()
        await idle(stand_in.ledger)
        received = 0
        while part := await stream.receive_some():
            received += len(part)
        assert 0 < received < len(view.name)


async def test_a_large_answer_arrives_whole(client: Any, stand_in: StandInEngine) -> None:
    """An answer of many megabytes reaches a client that reads it."""
    view = attrs.evolve(sample(WorkspaceView), name="a" * 20_000_000)

    async def much(_asked: Asked) -> Any:
        return view

    stand_in.answer = much
    assert (await client.get("/me")).json()["name"] == view.name


async def test_a_connection_that_ended_is_closed(server: Server) -> None:
    """A kept connection whose client has finished is closed at once, not after its idle time."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await stream.receive_some()
        await stream.send_eof()
        with trio.fail_after(5):
            while await stream.receive_some():
                pass


async def test_an_idle_connection_is_closed(
    stand_in: StandInEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which nothing comes, or only half a request, is closed after a while."""
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.05)
    async with serving(cast("Engine", stand_in)) as server:
        for sent in (b"", b"GET /api/me HTT", b"GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n"):
            stream = await trio.open_tcp_stream("127.0.0.1", server.port)
            async with stream:
                await stream.send_all(sent)
                with trio.fail_after(5):
                    while await stream.receive_some():
                        pass
