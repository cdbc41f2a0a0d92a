"""The server: where it listens, and how it says so."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

import httpx
import pytest
import trio

from engine.app import Engine
from tests.web.stand_in import StandInEngine
from web.app import serve
from web.listening import address, listen_on_path, listening


async def test_a_unix_socket_stands_in_for_a_port(tmp_path: Path, stand_in: StandInEngine) -> None:
    """With a path the server listens there instead of on a port, and the file goes with it."""
    shutdown = trio.Event()
    path = tmp_path / "wakeful.sock"
    with listening("127.0.0.1", 1, path) as listener:
        async with trio.open_nursery() as nursery:
            run = partial(serve, cast("Engine", stand_in), listener, shutdown=shutdown)
            assert await nursery.start(run) == f"unix:{path}"
            transport = httpx.AsyncHTTPTransport(uds=str(path))
            async with httpx.AsyncClient(transport=transport, base_url="http://wakeful") as client:
                assert (await client.get("/api/health")).status_code == 200
            shutdown.set()
    assert not path.exists()


async def test_ipv6_is_served(stand_in: StandInEngine) -> None:
    """An IPv6 host is bound and reported in brackets."""
    shutdown = trio.Event()
    with listening("::1", 0, None) as listener:
        async with trio.open_nursery() as nursery:
            run = partial(serve, cast("Engine", stand_in), listener, shutdown=shutdown)
            url = await nursery.start(run)
            assert url.startswith("http://[::1]:")
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"{url}/api/health")).status_code == 200
            shutdown.set()


async def test_a_taken_port_is_an_error() -> None:
    """Who cannot have the port learns it at once, before anything else has been done."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        with pytest.raises(OSError, match="in use"), listening("127.0.0.1", port, None):
            pytest.fail("it listens on a port that is taken")


def test_a_socket_file_of_somebody_else_stays(tmp_path: Path) -> None:
    """A file that took the place of our socket meanwhile is not removed with it."""
    path = tmp_path / "wakeful.sock"
    with listening("127.0.0.1", 0, path):
        path.rename(tmp_path / "ours.sock")
        path.write_text("theirs")
    assert path.read_text() == "theirs"


def test_a_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    """A second server neither takes over a socket that is listened on nor removes another file."""
    path = tmp_path / "wakeful.sock"
    with listen_on_path(path) as first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            listen_on_path(path)
    with listen_on_path(path) as second:  # the first is gone and left its file
        assert address(second) == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.write_text("a file")
    with pytest.raises(OSError, match="in use"):
        listen_on_path(path)
    assert path.read_text() == "a file"
