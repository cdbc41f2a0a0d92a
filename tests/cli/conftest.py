"""The fixtures of the command line: one server for all tests that do not stop it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.main import main
from tests.cli import serving
from tests.cli.serving import Done, Site

Command = Callable[..., Done]


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A server in a folder of its own, which all tests share."""
    with serving.folder() as cwd, serving.site(cwd) as shared:
        yield shared


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder to serve in."""
    with serving.folder() as cwd:
        yield cwd


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This process in an empty folder, with nothing that leads to a server."""
    for name in os.environ:
        if name.startswith("WAKEFUL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(
    alone: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`wakeful` in this process: faster than one of its own, otherwise the same."""

    def run(*arguments: str, text: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["wakeful", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(code=ended.value.code, out=printed.out, err=printed.err)

    return run


@pytest.fixture
def here(command: Command, site: Site, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command` in the folder of the shared server."""
    monkeypatch.chdir(site.cwd)
    return command
