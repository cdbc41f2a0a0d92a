"""Several servers and daemons on one database, as processes that are killed and started again.

The processes are `wakeful serve` and `wakeful daemon` as an operator starts them. Whoever ends is
started again, as a service manager would do it: at once after a kill, after a moment else.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.storage.database import Query
from tests.cli.serving import environment
from tests.faults.accounting import ask

SIZE: Final = 4  # of each kind
READY_SECONDS: Final = 90  # eight processes start at once, on a machine that is busy
STOP_SECONDS: Final = 60
RESTART_SECONDS: Final = 0.3
ARRIVAL_SECONDS: Final = 0.2
HANG_SECONDS: Final = 5
GRACE: Final = "5"
PLACES: Final = "16"  # more than its agents may use: a claim is always waiting

_CLAIMED: Final = Query(
    "fleet.claimed",
    "SELECT count(*) FROM agent_task_queue q JOIN agent a ON a.id = q.agent_id"
    " WHERE a.name = ANY ($1::text[]) AND q.status = 'dispatched'",
)


class Kind(StrEnum):
    """What a process is."""

    SERVER = "server"
    DAEMON = "daemon"


@attrs.define(kw_only=True, eq=False)
class Member:
    """One place in the fleet, and the process that has it at the moment."""

    kind: Kind
    number: int
    folder: Path
    command: tuple[str, ...]
    variables: dict[str, str]
    announces: str
    agents: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    kills: int = 0
    given_up: int = 0

    @property
    def name(self) -> str:
        """Its name among all."""
        return f"{self.kind}-{self.number}"

    @property
    def log(self) -> Path:
        """What its latest process writes; standard output and error together."""
        return self.folder / f"{self.name}.{self.starts}.log"

    def start(self) -> None:
        """Start its next process."""
        self.starts += 1
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["wakeful", *self.command],
                cwd=self.folder,
                env=environment(**self.variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def is_ready(self) -> bool:
        """Whether its process lives and has said that it is ready."""
        assert self.process is not None
        return self.process.poll() is None and self.announces in self.log.read_text()

    async def kill(self, hang: Callable[[], Awaitable[None]] | None = None) -> None:
        """Kill its process in the middle of whatever it does, and start the next one.

        With `hang` it stands still before, until that returns: it is given what it asked for and
        does nothing with it.
        """
        assert self.process is not None
        if self.process.poll() is not None:
            return
        if hang is not None:
            self.process.send_signal(signal.SIGSTOP)
            await hang()
        self.process.kill()
        code = await trio.to_thread.run_sync(self.process.wait)
        self.kills += code == -signal.SIGKILL
        self.start()

    async def keep_running(self) -> None:
        """Start it again whenever it ends by itself, until cancelled; a server never does."""
        while True:
            process = self.process
            assert process is not None
            code = await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            if process is not self.process or code == -signal.SIGKILL:
                await trio.sleep(0.01)  # paced: whoever killed it starts the next one
                continue
            assert self.kind is Kind.DAEMON, f"{self.name} ended with {code}: {self.log_end()}"
            self.given_up += 1
            await trio.sleep(RESTART_SECONDS)  # paced: as a service manager does
            if process is self.process:
                self.start()

    def stop(self) -> int:
        """End its process as an operator would; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(STOP_SECONDS)

    def logs(self) -> str:
        """What all its processes wrote."""
        paths = [self.folder / f"{self.name}.{start + 1}.log" for start in range(self.starts)]
        return "\n".join(path.read_text() for path in paths)

    def log_end(self) -> str:
        """The end of what its latest process wrote."""
        return self.log.read_text()[-2_000:]


@attrs.define(kw_only=True)
class Fleet:
    """All members, and what is needed to talk to the servers."""

    folder: Path
    database_url: str
    ports: tuple[int, ...]
    members: list[Member] = attrs.field(factory=list)
    credentials: dict[str, str] = attrs.field(factory=dict)

    def of(self, kind: Kind) -> list[Member]:
        """The members of a kind."""
        return [each for each in self.members if each.kind is kind]

    @property
    def urls(self) -> list[str]:
        """Where the servers serve, whether they live or not."""
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def kills(self) -> Counter[str]:
        """How often a process of each kind was killed."""
        counted: Counter[str] = Counter()
        for member in self.members:
            counted[member.kind] += member.kills
        return counted

    async def wait_until_ready(self, kind: Kind | None = None) -> None:
        """Wait until every member, or every one of a kind, is ready."""
        waiting = self.members if kind is None else self.of(kind)
        await until(
            lambda: all(each.is_ready for each in waiting),
            lambda: [(each.name, each.log_end()) for each in waiting if not each.is_ready],
            READY_SECONDS,
        )

    async def kill_now_and_then(self, kills: int, seconds: float, choice: random.Random) -> None:
        """Kill a random process every so many seconds, so often.

        The kinds take turns in a random order, so that a few kills are enough to hit both. Every
        other daemon hangs before it dies. The last server that serves is spared until another does.
        """
        turns: list[tuple[Kind, bool]] = []
        for _ in range(kills):
            await trio.sleep(seconds)  # paced: the rate of the kills is what is asked for
            if not turns:
                turns = [(kind, hangs) for kind in Kind for hangs in (False, True)]
                choice.shuffle(turns)
            kind, hangs = turns.pop()
            victim = choice.choice(self.of(kind))
            if kind is Kind.SERVER:
                await until(self._can_spare_a_server, self.kills, READY_SECONDS)
                await victim.kill()
            else:
                await victim.kill(partial(self._until_claimed, victim) if hangs else None)

    async def _until_claimed(self, daemon: Member) -> None:
        """Wait until a daemon that hangs has been given a run, which it cannot start any more."""
        await trio.sleep(ARRIVAL_SECONDS)  # paced: what it sent before arrives
        with trio.move_on_after(HANG_SECONDS):
            while not (await ask(self.database_url, _CLAIMED, list(daemon.agents)))[0]["count"]:  # noqa: ASYNC110 - see paced
                await trio.sleep(0.05)  # paced: a claim that is answered signals nothing to us

    def _can_spare_a_server(self) -> bool:
        return sum(each.is_ready for each in self.of(Kind.SERVER)) > 1

    def enlist_server(self, number: int) -> None:
        """Add a server with a data directory of its own."""
        self.members.append(
            Member(
                kind=Kind.SERVER,
                number=number,
                folder=self.folder,
                command=(
                    *("serve", "--port", str(self.ports[number])),
                    *("--data-dir", str(self.folder / f"data-{number}")),
                ),
                variables={"WAKEFUL_DATABASE_URL": self.database_url},
                announces="ready http://",
            )
        )

    def enlist_daemon(self, number: int, agents: tuple[str, ...], command: str) -> None:
        """Add a daemon of these agents, which knows one of the servers."""
        named = [part for agent in agents for part in ("--agent", agent)]
        self.members.append(
            Member(
                kind=Kind.DAEMON,
                number=number,
                folder=self.folder,
                command=(
                    *("daemon", *named, "--exec", command),
                    *("--max-concurrent", PLACES, "--grace", GRACE),
                ),
                variables={
                    "WAKEFUL_URL": self.urls[number],
                    "WAKEFUL_TOKEN": self.credentials["member_token"],
                    "WAKEFUL_DAEMON_TOKEN": self.credentials["daemon_token"],
                },
                announces=" serves ",
                agents=agents,
            )
        )

    def read_credentials(self) -> None:
        """Take the credentials that exactly one of the first starts has written."""
        (path,) = self.folder.glob("data-*/credentials.json")
        self.credentials = json.loads(path.read_text())

    def stop(self, kind: Kind) -> list[int]:
        """End all members of a kind as an operator would; their exit codes."""
        return [each.stop() for each in self.of(kind)]


@asynccontextmanager
async def fleet_of_servers(folder: Path, database_url: str) -> AsyncIterator[Fleet]:
    """Start servers at once on a database without a workspace; nobody is left afterwards."""
    fleet = Fleet(folder=folder, database_url=database_url, ports=_free_ports(SIZE))
    try:
        for number in range(SIZE):
            fleet.enlist_server(number)
        for member in fleet.members:
            member.start()
        await fleet.wait_until_ready()
        fleet.read_credentials()
        yield fleet
    finally:
        for member in fleet.members:
            if member.process is not None and member.process.poll() is None:
                member.process.kill()
                member.process.wait()


async def until(is_true: Callable[[], bool], explain: Callable[[], object], seconds: float) -> None:
    """Wait for something that other processes do and do not signal to us."""
    with trio.move_on_after(seconds):
        while not is_true():  # noqa: ASYNC110 - see paced
            await trio.sleep(0.05)  # paced: other processes signal by what they write
    assert is_true(), explain()


def _free_ports(count: int) -> tuple[int, ...]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = tuple(probe.getsockname()[1] for probe in probes)
    for probe in probes:
        probe.close()
    return ports
