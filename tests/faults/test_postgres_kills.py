"""kill -9 of every process that the embedded server depends on or consists of."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from engine.errors import WakefulError
from engine.storage.postgres import Postgres
from tests.faults import servers

BUSY = "SELECT count(*) FROM generate_series(1, 1000000000000)"
REINITIALISING = "all server processes terminated; reinitializing"
READY = "database system is ready to accept connections"


@pytest.fixture
def folder() -> Iterator[Path]:
    with servers.open_directory() as path:
        yield path


@pytest.fixture
def postgres(folder: Path) -> Iterator[Postgres]:
    server = Postgres(folder / "data")
    yield server
    server.stop(grace_seconds=1)


def test_a_server_dies_with_its_engine(postgres: Postgres, folder: Path) -> None:
    """After kill -9 of the engine its server ends by itself; a restart has every committed row."""
    with servers.spawned(folder / "data") as process:
        engine = servers.ready(process)
        servers.ask(engine.sockets, "CREATE TABLE kept AS SELECT 7 AS number")
        engine.kill()
    servers.until(lambda: not servers.processes(postgres), "the orphan follows its parent")
    assert "received immediate shutdown request" in postgres.log_path.read_text()
    postgres.start()
    assert servers.ask(postgres._sockets, "SELECT number FROM kept") == "7"
    assert "not properly shut down" in postgres.log_path.read_text()


def test_an_orphan_does_not_block_the_next_start(postgres: Postgres) -> None:
    """A server that outlived its engine is found, ended and replaced, data intact."""
    postgres.start()
    servers.ask(postgres._sockets, "CREATE TABLE kept AS SELECT 7 AS number")
    orphan = postgres.pid
    assert orphan is not None
    # As after an engine's death where the death signal was lost: no parent knows the server.
    process, postgres._process = postgres._process, None
    postgres._release()
    assert servers.lives(orphan)
    postgres.start()
    assert process is not None
    assert process.wait() == 0, "it was asked to shut down in order"
    assert postgres.pid != orphan
    assert servers.ask(postgres._sockets, "SELECT number FROM kept") == "7"


def test_a_killed_postmaster_leaves_nothing_behind(postgres: Postgres) -> None:
    """After kill -9 of the postmaster a busy backend is ended too, and a start recovers."""
    postgres.start()
    servers.ask(postgres._sockets, "CREATE TABLE kept AS SELECT 7 AS number")
    with servers.start_asking(postgres._sockets, BUSY):
        backend = servers.victim(postgres._sockets)
        postmaster = postgres.pid
        assert postmaster is not None
        os.kill(postmaster, signal.SIGKILL)
        servers.until(lambda: postgres.pid is None, "the postmaster is dead")
        assert servers.lives(backend), "a computing backend does not notice"
        postgres.start()
        assert not servers.lives(backend)
    assert servers.ask(postgres._sockets, "SELECT number FROM kept") == "7"
    assert postgres.pid in servers.processes(postgres)


def test_stopping_after_the_postmaster_was_killed(postgres: Postgres) -> None:
    """`stop` also ends what a killed postmaster left, and gives the directory free."""
    postgres.start()
    with servers.start_asking(postgres._sockets, BUSY):
        backend = servers.victim(postgres._sockets)
        assert postgres.pid is not None
        os.kill(postgres.pid, signal.SIGKILL)
        postgres.stop()
        assert not servers.lives(backend)
    assert not servers.processes(postgres)
    postgres.start()


async def restarted(postgres: Postgres, *earlier: int) -> int:
    """Wait until a postmaster other than the earlier ones is ready; return its process id."""
    while (  # noqa: ASYNC110 - nothing announces a restart to bystanders
        (pid := postgres.pid) is None or pid in earlier or not postgres._is_ready()
    ):
        await trio.sleep(0.005)  # paced: nothing announces a restart to bystanders
    return pid


async def test_a_server_is_restarted_while_its_engine_lives(postgres: Postgres) -> None:
    """`keep_running` brings a killed server back with its data, and ends after `stop`."""
    postgres.start()
    servers.ask(postgres._sockets, "CREATE TABLE kept AS SELECT 7 AS number")
    first = postgres.pid
    assert first is not None
    with trio.fail_after(servers.WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(postgres.keep_running)
            os.kill(first, signal.SIGKILL)
            await restarted(postgres, first)
            assert servers.ask(postgres._sockets, "SELECT number FROM kept") == "7"
            postgres.stop()
    assert not servers.processes(postgres)


async def test_a_server_that_comes_up_no_more_is_given_up(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that died is restarted as often as it comes up; one that cannot come up raises."""
    monkeypatch.setattr("engine.limits.RESTARTS_MAX", 2)
    postgres.start()
    killed: list[int] = []

    async def kill_each() -> None:
        while len(killed) < 4:
            killed.append(await restarted(postgres, *killed))
            if len(killed) == 4:
                (postgres.cluster / "global/pg_control").unlink()
            os.kill(killed[-1], signal.SIGKILL)

    with trio.fail_after(servers.WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill_each)
            with pytest.raises(WakefulError, match="does not come up any more"):
                await postgres.keep_running()
    assert len(killed) == 4


def test_stopping_a_reinitialising_server_does_not_hang(postgres: Postgres) -> None:
    """A stop while PostgreSQL re-initialises after kill -9 of a backend ends within its bounds.

    At least one of the tries must meet the re-initialisation, by the server's own log.
    """
    met = 0
    for _ in range(4):
        postgres.start()
        before = postgres.log_path.stat().st_size

        def said(before: int = before) -> str:
            return postgres.log_path.read_text()[before:]

        with servers.start_asking(postgres._sockets, "SELECT pg_sleep(600)"):
            os.kill(servers.victim(postgres._sockets), signal.SIGKILL)
            servers.until(lambda: REINITIALISING in said(), "the server re-initialises")
            began = time.monotonic()
            postgres.stop(grace_seconds=1)
            took = time.monotonic() - began
        assert took < 5
        assert not servers.processes(postgres)
        since = said().partition(REINITIALISING)[2]
        asked = since.find("shutdown request")
        met += asked >= 0 and (READY not in since or asked < since.index(READY))
    assert met > 0
    postgres.start()
    assert servers.ask(postgres._sockets, "SELECT 1") == "1"


def test_a_killed_backend_does_not_end_the_server(postgres: Postgres) -> None:
    """After kill -9 of a backend the same postmaster accepts connections again."""
    postgres.start()
    before = postgres.pid
    size = postgres.log_path.stat().st_size
    with servers.start_asking(postgres._sockets, "SELECT pg_sleep(600)"):
        os.kill(servers.victim(postgres._sockets), signal.SIGKILL)
        servers.until(lambda: READY in postgres.log_path.read_text()[size:], "it is back")
    assert postgres.pid == before
    assert servers.ask(postgres._sockets, "SELECT 1") == "1"


def test_a_reused_process_id_does_not_block_a_start(postgres: Postgres) -> None:
    """Lock files that name a living process which is no PostgreSQL are cleared (pid reuse)."""
    postgres.start()
    postgres.stop()
    sleeper = postgres._command(Path("/"), "postgres")[:-1]  # the launcher, without its program
    with subprocess.Popen([*sleeper, "/bin/sleep", "600"]) as innocent:
        servers.until(lambda: servers.command(innocent.pid).startswith("/bin/sleep"), "it sleeps")
        lines = f"{innocent.pid}\n{postgres.cluster}\n1\n5432\n{postgres._sockets}\n\n"
        (postgres.cluster / "postmaster.pid").write_text(lines)
        postgres.start()
        assert innocent.poll() is None
        innocent.kill()
    assert servers.ask(postgres._sockets, "SELECT 1") == "1"


def test_a_foreign_server_on_the_cluster_is_not_disturbed(postgres: Postgres) -> None:
    """A server that somebody else runs on the directory makes our start fail and keeps running."""
    postgres.start()
    postgres.stop()
    command = postgres._command(
        *(postgres.cluster, "postgres", "-D", str(postgres.cluster), "-c", "listen_addresses="),
        *("-c", f"unix_socket_directories={postgres._sockets}"),
    )
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as foreign:
        servers.until((postgres._sockets / ".s.PGSQL.5432").exists, "the foreign server listens")
        with pytest.raises(WakefulError, match="already exists") as refused:
            postgres.start()
        assert refused.value.code == "database_unavailable"
        assert foreign.poll() is None
        foreign.terminate()
