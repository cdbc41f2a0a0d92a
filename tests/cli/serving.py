"""Real processes of the command `wakeful`: a server with its data, and what is run against it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from client.api import Wakeful
from client.connection import Connection, Server

T = TypeVar("T")

PROGRAMS: Final = Path(sys.executable).parent
SECONDS_MAX: Final = 30  # far above what anything here takes, far below a test run's patience


@attrs.frozen(kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The data on standard output of a command that succeeded."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder that the database server's account reaches, too."""
    with tempfile.TemporaryDirectory(prefix="wakeful-cli-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def environment(**more: str) -> dict[str, str]:
    """Return an environment with `wakeful` on its path and none of its variables but these."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("WAKEFUL_")}
    path = os.pathsep.join((str(PROGRAMS), kept.get("PATH", os.defpath)))
    return {**kept, "PATH": path, "XDG_CONFIG_HOME": os.devnull, **more}


def wakeful(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, text: str = ""
) -> Done:
    """Run a command to its end in a folder, with `text` on standard input."""
    done = subprocess.run(
        ["wakeful", *arguments],
        cwd=cwd,
        env=environment(**(env or {})),
        input=text,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS_MAX,
        check=False,
    )
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


@attrs.frozen(kw_only=True)
class Running:
    """A command that runs; its standard error goes to a file."""

    process: subprocess.Popen[str]
    log: Path

    def wait_for_line(self) -> str:
        """Wait for the next line on standard output; an empty text means that it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def wait_for_log(self, words: str) -> None:
        """Wait until these words stand on standard error."""
        wait_until(lambda: words in self.log.read_text(), self.log.read_text)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS_MAX)


@contextmanager
def running(
    *arguments: str, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Start a command in a folder; it is gone afterwards."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            ["wakeful", *arguments],
            cwd=cwd,
            env=environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield Running(process=process, log=log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(SECONDS_MAX)


def wait_until(is_true: Callable[[], bool], explain: Callable[[], object]) -> None:
    """Look again and again until it is true, which no process here could signal to us."""
    deadline = time.monotonic() + SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)  # noqa: TID251 - see # paced: other processes signal nothing


@attrs.frozen(kw_only=True)
class Site:
    """A folder with a server that runs on its `data`."""

    cwd: Path
    url: str
    server: Running
    credentials: Mapping[str, str]

    def wakeful(
        self, *arguments: str, env: Mapping[str, str] | None = None, text: str = ""
    ) -> Done:
        """Run a command that finds the server by the folder."""
        return wakeful(*arguments, cwd=self.cwd, env=env, text=text)

    @contextmanager
    def api(self) -> Iterator[Wakeful]:
        """Open the API as the owner."""
        server = Server(url=self.url, token=self.credentials["member_token"])
        with Connection(server) as connection:
            yield Wakeful(connection)

    @contextmanager
    def daemon(self, *options: str) -> Iterator[Running]:
        """Run a daemon and wait until it serves."""
        log = self.cwd / f"daemon-{len(list(self.cwd.glob('daemon-*')))}.log"
        with running("daemon", *options, cwd=self.cwd, log=log) as daemon:
            daemon.wait_for_log(" serves ")
            yield daemon

    def wait_for_run(self, issue: str, *, number: int = 1, status: str = "completed") -> Any:
        """Wait until the issue's run with this number, from 1, has this status; return it."""
        seen: list[Any] = []
        with self.api() as api:

            def is_there() -> bool:
                seen[:] = reversed(api.runs(issue)["items"])
                return len(seen) >= number and seen[number - 1]["status"] == status

            wait_until(is_there, lambda: [(run["status"], run["error"]) for run in seen])
        return seen[number - 1]


@contextmanager
def site(cwd: Path, *options: str) -> Iterator[Site]:
    """Serve on the `data` of a folder and wait until it is ready."""
    with running("serve", "--port", "0", *options, cwd=cwd, log=cwd / "serve.log") as server:
        line = server.wait_for_line()
        assert line.startswith("ready http://"), server.log.read_text()
        credentials = json.loads((cwd / "data/credentials.json").read_text())
        yield Site(cwd=cwd, url=line.removeprefix("ready "), server=server, credentials=credentials)
