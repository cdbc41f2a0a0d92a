"""Direct writers: psql processes, that know nothing of an engine, with their transactions open.

`start` sends statements and returns at once, `finish` waits for their end, `ask` does both. Errors
are lines, too: `ERROR:  40P01`.
"""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Final, Self

import trio

from engine.storage.postgres_programs import program

_END: Final = "--- end ---"
WAIT_SECONDS: Final = 30


def psql(url: str, sql: str) -> list[str]:
    """Run statements in a session of their own and return the lines printed; errors raise."""
    command = [str(program("psql")), "-XqAt", "-v", "ON_ERROR_STOP=1", url]
    done = subprocess.run(command, input=sql, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


class PsqlSession:
    """One psql over one connection; leaving rolls back what is open."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process = subprocess.Popen(
            [str(program("psql")), "-XqAt", "-v", "VERBOSITY=sqlstate", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        (self.backend,) = (int(line) for line in self.ask("SELECT pg_backend_pid()"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()

    def start(self, sql: str) -> None:
        """Send statements without waiting for them."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{sql};\n\\echo {_END}\n")
        self._process.stdin.flush()

    def finish(self) -> list[str]:
        """Wait until what was sent has ended and return the lines that it printed."""
        assert self._process.stdout is not None
        lines = []
        while (line := self._process.stdout.readline().rstrip("\n")) != _END:
            assert line or self._process.poll() is None, "psql has left"
            lines.append(line)
        return lines

    def ask(self, sql: str) -> list[str]:
        """Run statements and return the lines that they printed; an error is an assertion."""
        self.start(sql)
        lines = self.finish()
        assert not any(line.startswith("ERROR") for line in lines), lines
        return lines

    async def wait_blocking(self) -> None:
        """Wait until somebody waits for a lock of this session."""
        question = (
            "SELECT 'yes' FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            f" AND {self.backend} = ANY (pg_blocking_pids(pid)) LIMIT 1"
        )
        with PsqlSession(self._url) as observer, trio.fail_after(WAIT_SECONDS):
            while not observer.ask(question):  # noqa: ASYNC110 - no event of the server's
                await trio.sleep(0.005)  # paced: the server announces no lock waits
