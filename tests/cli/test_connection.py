"""How a command finds its server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.connection import Failure, Found, find
from client.connection import Server
from tests.cli import serving
from tests.cli.conftest import Command
from tests.cli.serving import Site

SAVED = {"url": "http://saved", "workspace": "ws", "member_token": "wkm_s", "daemon_token": "wkd_s"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with credentials."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "credentials.json").write_text(json.dumps(SAVED))
    return folder


def test_the_sources_have_an_order(tmp_path: Path, data: Path) -> None:
    """Options come before the environment, then the config file, then the saved credentials."""
    options = {"data_dir": str(data)}
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert find(options, environment).server() == Server(
        url="http://saved", token="wkm_s", workspace="ws"
    )
    (tmp_path / "wakeful").mkdir()
    (tmp_path / "wakeful/config.toml").write_text('url = "http://config"\n')
    assert find(options, environment).server().url == "http://config"
    environment["WAKEFUL_URL"] = "http://environment"
    assert find(options, environment).server().url == "http://environment"
    options["url"] = "http://option"
    assert find(options, environment).server() == Server(
        url="http://option", token="wkm_s", workspace="ws"
    )


def test_a_data_directory_is_named_or_here(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data directory is the option's, else that of WAKEFUL_DATA_DIR, else ./data."""
    nowhere = {"XDG_CONFIG_HOME": "/nowhere"}
    assert find({}, nowhere | {"WAKEFUL_DATA_DIR": str(data)}).url == "http://saved"
    monkeypatch.chdir(data.parent)
    assert find({}, nowhere).url == "http://saved"
    monkeypatch.chdir(data)
    with pytest.raises(Failure, match="WAKEFUL_URL"):
        _ = find({}, nowhere).url


def test_what_was_saved_beside_a_token_goes_with_it(data: Path) -> None:
    """Another person's token gets neither this machine's workspace nor its daemon token."""
    environment = {"XDG_CONFIG_HOME": "/nowhere", "WAKEFUL_DATA_DIR": str(data)}
    assert find({}, environment).daemon_token == "wkd_s"
    other = find({"token": "wkm_other"}, environment)
    assert (other.url, other.workspace, other.daemon_token) == ("http://saved", None, None)
    environment |= {"WAKEFUL_DAEMON_TOKEN": "wkd_other", "WAKEFUL_WORKSPACE": "elsewhere"}
    other = find({"token": "wkm_other"}, environment)
    assert (other.workspace, other.daemon_token) == ("elsewhere", "wkd_other")


@pytest.mark.parametrize(("token", "is_in_run"), [("wkr_x", True), ("wkm_x", False), (None, False)])
def test_a_run_token_tells_a_run(token: str | None, is_in_run: bool) -> None:
    """W-201: whether the caller is an agent in a run shows in the kind of its token."""
    environment = {} if token is None else {"WAKEFUL_TOKEN": token}
    found = Found(options={}, environment=environment, config={}, credentials={})
    assert found.is_in_run is is_in_run


@pytest.mark.parametrize("text", ["{", "[]", '{"url": 1}'])
def test_a_broken_file_is_named(command: Command, text: str) -> None:
    """Credentials that cannot be understood end a command with 1 and the file's name."""
    Path("data").mkdir()
    Path("data/credentials.json").write_text(text)
    done = command("issue", "list")
    assert (done.code, done.out) == (1, "")
    assert "data/credentials.json" in done.err


def test_an_unknown_key_of_the_config_file_is_named(tmp_path: Path) -> None:
    """A key that means nothing is an error: a misspelt one would be passed over in silence."""
    path = tmp_path / "mine.toml"
    path.write_text('url = "http://config"\nworkpsace = "main"\n')
    with pytest.raises(Failure, match=r"mine\.toml: unknown key workpsace; known are url, "):
        find({}, {"WAKEFUL_CONFIG": str(path)})


def test_options_stand_before_or_behind_the_command(command: Command, site: Site) -> None:
    """--data-dir works in front of the subcommand and behind it, and the latter wins."""
    data = str(site.cwd / "data")
    assert command("--data-dir", data, "issue", "list").code == 0
    assert command("issue", "list", "--data-dir", data).code == 0
    assert command("--data-dir", "/nowhere", "issue", "list", "--data-dir", data).code == 0
    done = command("issue", "list")
    assert (done.code, done.out) == (1, "")
    assert "--url" in done.err


@pytest.mark.parametrize(
    "url", ["nonsense", "http://", "http://127.0.0.1:1", "unix:/nowhere", "http://[::1"]
)
def test_what_is_no_server_is_said(tmp_path: Path, url: str) -> None:
    """An address that is none ends a command with 1 and a line, whatever is wrong with it."""
    options = ("--url", url, "--token", "wkm_x")
    done = serving.wakeful("issue", "list", *options, cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
