"""`wakeful serve`: start, credentials, stop, and what keeps it from starting."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
from pathlib import Path

import httpx
import pytest

from cli.serve import database_place
from client.api import Wakeful
from client.connection import Connection, Server
from tests.cli import serving
from tests.cli.serving import Site


def test_the_first_start_leaves_credentials_for_its_owner_only(site: Site) -> None:
    """The first start writes URL, workspace and two tokens, readable by nobody else."""
    path = site.cwd / "data/credentials.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {*site.credentials} == {"url", "workspace", "member_token", "daemon_token"}
    assert site.credentials["url"] == site.url
    assert site.credentials["workspace"] == "main"
    with site.api() as api:
        me = api.me()
    assert me["kind"] == "member"
    assert [workspace["slug"] for workspace in me["workspaces"]] == ["main"]


def test_a_restart_keeps_the_credentials_and_follows_the_port(place: Path) -> None:
    """With kept data the tokens stay valid, and the file names the new address."""
    with serving.site(place, "--ready-file", "ready") as first:
        assert (place / "ready").read_text() == f"{first.url}\n"
        assert first.wakeful("issue", "create", "kept").json["identifier"] == "WF-1"
        assert first.server.stop() == 0
    port = int(first.url.rpartition(":")[2])
    # Held, so that the second server cannot be given the port of the first.
    with socket.create_server(("127.0.0.1", port)), serving.site(place) as second:
        assert second.url != first.url
        assert second.credentials == {**first.credentials, "url": second.url}
        assert second.wakeful("issue", "show", "WF-1").json["title"] == "kept"
    assert "credentials_missing" not in (place / "serve.log").read_text()


def test_ctrl_c_stops_it_cleanly(place: Path) -> None:
    """SIGINT drains and stops with 0; the ready file of an earlier start does not count."""
    (place / "ready").write_text("http://127.0.0.1:1\n")
    with serving.site(place, "--ready-file", "ready") as served:
        assert (place / "ready").read_text() == f"{served.url}\n"
        assert served.server.stop(signal.SIGINT) == 0
        log = served.server.log.read_text()
    assert not (place / "ready").exists()
    assert "event=server_stopping signal=SIGINT" in log
    assert log.rstrip().endswith("event=server_stopped")


def test_logs_hold_no_token_and_no_text(site: Site) -> None:
    """Logs are event names with ids: a comment's body and a token never get there."""
    issue = site.wakeful("issue", "create", "secret-title").json["identifier"]
    site.wakeful("issue", "comment", issue, "secret-body")
    site.wakeful("issue", "list", "--token", "wkm_secret-token")
    log = site.server.log.read_text()
    assert "event=workspace_made" in log
    assert "secret" not in log
    assert site.credentials["member_token"] not in log


def test_it_serves_on_a_unix_socket(place: Path) -> None:
    """With --socket the address is the socket's, and commands find the server there."""
    log = place / "serve.log"
    with serving.running("serve", "--socket", "s", cwd=place, log=log) as server:
        address = server.wait_for_line().removeprefix("ready ")
        assert address == f"unix:{place}/s", log.read_text()
        elsewhere = ("--data-dir", f"{place}/data")
        assert serving.wakeful("issue", "list", *elsewhere, cwd=Path("/")).json["total"] == 0
        token = json.loads((place / "data/credentials.json").read_text())["member_token"]
        with Connection(Server(url=f"unix:{place}/s", token=token)) as connection:
            assert Wakeful(connection).me()["instance_admin"]
        assert server.stop() == 0
    assert not (place / "s").exists()


def test_metrics_have_a_port_of_their_own(place: Path) -> None:
    """W-256: with --metrics-port they are there for everybody, and on the other for the owner."""
    with serving.site(place, "--metrics-port", "0") as site:
        log = site.server.log.read_text()
        found = re.search(r"event=metrics_served url=(\S+)", log)
        assert found is not None, log
        metrics = httpx.get(found[1], verify=False)
        assert metrics.status_code == 200
        assert "wakeful_database_readable 1.0" in metrics.text
        assert httpx.get(f"{site.url}/metrics", verify=False).status_code == 401
        owner = {"Authorization": f"Bearer {site.credentials['member_token']}"}
        assert httpx.get(f"{site.url}/metrics", headers=owner, verify=False).status_code == 200
        assert site.server.stop() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(found[1], verify=False)


def test_a_taken_metrics_port_is_said_before_anything_is_done(place: Path) -> None:
    """A port for metrics that is taken ends the start with 1 and a line with the way out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = serving.wakeful("serve", "--port", "0", "--metrics-port", port, cwd=place)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"cannot serve metrics on 127.0.0.1:{port}: Address already in use;"
        " choose another with --metrics-port\n"
    )
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "70000"], "port"),
        (["--port", "x"], "--port"),
        (["--config", "missing.toml"], "missing.toml"),
        (["--data-dir", "file"], "file is not a directory"),
        (["--host", "nowhere.invalid"], "cannot serve on nowhere.invalid:0: "),
        (["--socket", "missing/s"], "cannot serve on missing/s: No such file or directory;"),
        (
            ["--database-url", "postgresql://sly:fox@127.0.0.1:1/none"],
            "database at 127.0.0.1:1: the server cannot be reached (database_unavailable)",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_said(place: Path, options: list[str], words: str) -> None:
    """A start that fails ends with 1 and one clear line, without a stack trace."""
    (place / "file").write_text("")
    done = serving.wakeful("serve", "--port", "0", *options, cwd=place)
    assert (done.code, done.out) == (1, "")
    assert words in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert "sly" not in done.err
    assert "fox" not in done.err


def test_a_taken_port_is_said_before_anything_is_done(place: Path) -> None:
    """A port that is taken ends the start with 1 and a line that names it and the way out.

    No data directory has been made, and the ready file of whoever serves there is left alone.
    """
    (place / "ready").write_text("theirs")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serving.wakeful("serve", "--port", str(port), "--ready-file", "ready", cwd=place)
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"cannot serve on 127.0.0.1:{port}: Address already in use; choose another with --port\n"
    )
    assert [each.name for each in place.iterdir()] == ["ready"]
    assert (place / "ready").read_text() == "theirs"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@db.example:6432/wakeful", "db.example:6432"),
        ("postgres://db.example/wakeful", "db.example:5432"),
        ("postgresql://me@[::1]:6432/x?application_name=y", "[::1]:6432"),
        ("postgresql://me@[::1]/x", "[::1]:5432"),
        ("postgresql://me:se/cret@db/x", None),
        ("postgresql://me:se#cret@db/x", None),
        ("postgresql://me:se?cret@db/x", None),
        ("postgresql://me:secret", None),
        ("postgresql:///x?host=/run/postgresql&user=me&password=secret", None),
        ("host=db user=me password=secret", None),
    ],
)
def test_a_database_is_named_without_its_login(url: str, place: str | None) -> None:
    """Of a database URL host and port are shown, and nothing that may be a user or a password."""
    assert database_place(url) == place
