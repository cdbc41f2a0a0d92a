"""A server that a test plays, and a daemon on it, in virtual time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import trio

from client.claimed_run import Mind
from client.connection import AsyncConnection, Server
from client.daemon import Daemon
from client.daemon_api import Claim, DaemonApi
from client.execution import Outcome
from client.transcript import Transcript

SERVER = Server(url="http://127.0.0.1:1", token="wkd_x")
GENERATION = "2026-01-01T00:00:00.000001Z"
LATER = "2026-01-01T00:02:00.000001Z"
AWAY = httpx.ConnectError("refused")


def task(run_id: str = "run", generation: str = GENERATION) -> dict[str, Any]:
    """Return a claimed run as the product hands it out."""
    return {
        "id": run_id,
        "dispatched_at": generation,
        "prompt": "Go.",
        "token": "wkr_x",
        "agent": {"id": "agent", "name": "scribe"},
        "issue": {"id": "issue", "identifier": "WF-1"},
        "wakeup_id": None,
    }


def problem(status: int, code: str) -> httpx.Response:
    """Return a refusal as the product writes it."""
    kind = f"urn:wakeful:problem:{code}"
    return httpx.Response(status, json={"type": kind, "code": code, "detail": "refused"})


@attrs.define
class Played:
    """A server that hands out `claims`, one list a call, and nothing more after them.

    `faults` go first, one a call of that name; then all goes well. A claim without anything to hand
    out waits as long as it may. `gone` runs are not running; a server that `is_away` never answers.
    """

    claims: list[list[dict[str, Any]]] = attrs.field(factory=lambda: [[task()]])
    faults: dict[str, list[httpx.Response | Exception]] = attrs.field(factory=dict)
    gone: dict[str, str] = attrs.field(factory=dict)
    is_away: bool = False
    calls: list[tuple[str, str, Any]] = attrs.field(factory=list)
    failing: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one call."""
        await trio.lowlevel.checkpoint()
        *_, run_id, name = request.url.path.split("/")
        body = json.loads(request.content) if request.content else {}
        self.calls.append((name, run_id, body))
        if name == "fail":
            self.failing.set()
        fault: httpx.Response | Exception | None = AWAY if self.is_away else None
        if self.faults.get(name):
            fault = self.faults[name].pop(0)
        if isinstance(fault, Exception):
            raise fault
        return fault or await self._answer(name, run_id, body)

    async def _answer(self, name: str, run_id: str, body: Any) -> httpx.Response:
        match name:
            case "claim" if self.claims:
                return httpx.Response(200, json={"tasks": self.claims.pop(0)})
            case "claim":
                await trio.sleep(body["wait_seconds"])  # paced: virtual time
                return httpx.Response(200, json={"tasks": []})
            case "status":
                return httpx.Response(200, json={"status": self.gone.get(run_id, "running")})
            case "register":
                return httpx.Response(200, json={"runtimes": [{"id": "runtime"}]})
            case "heartbeat" | "messages":
                return httpx.Response(204)
            case _:
                return httpx.Response(200, json={"id": run_id})

    def count(self, name: str) -> int:
        """Return how often something was called."""
        return Counter(each for each, _, _ in self.calls)[name]

    def bodies(self, name: str, run_id: str | None = None) -> list[Any]:
        """Return what the calls of this name said, about one run or all."""
        return [
            body for each, about, body in self.calls if each == name and run_id in (None, about)
        ]

    @property
    def ends(self) -> dict[str, int]:
        """How many ends of each run were reported."""
        return Counter(about for each, about, _ in self.calls if each in ("complete", "fail"))


async def until(is_true: Callable[[], bool]) -> None:
    """Let virtual time pass until it is true."""
    with trio.fail_after(1_000):
        while not is_true():  # noqa: ASYNC110 - see paced
            await trio.sleep(0.01)  # paced: virtual time


async def well(_: Claim, __: Transcript) -> Outcome:
    """Succeed after a minute."""
    await trio.sleep(60)  # paced: virtual time
    return Outcome(exit_code=0, output="fine", errors="")


async def badly(_: Claim, __: Transcript) -> Outcome:
    """Fail with many words."""
    return Outcome(exit_code=2, output="half", errors="no luck\n")


@attrs.define
class Endless:
    """A mind that works until it is ended; it knows which claims it works on."""

    begun: dict[str, trio.Event] = attrs.field(factory=dict)
    working: list[Claim] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)
    release: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self, claim: Claim, _: Transcript) -> Outcome:
        """Work."""
        assert claim.run_id not in [each.run_id for each in self.working], "one run twice"
        self.working.append(claim)
        self.begun.setdefault(claim.run_id, trio.Event()).set()
        try:
            await self.release.wait()
        finally:
            self.working.remove(claim)
            self.ended.append(claim.run_id)
        return Outcome(exit_code=0, output="released", errors="")

    async def wait_for(self, *run_ids: str) -> None:
        """Wait until the work on these runs has begun."""
        for run_id in run_ids:
            await self.begun.setdefault(run_id, trio.Event()).wait()


@asynccontextmanager
async def daemon_of(played: Played, mind: Mind, **options: Any) -> AsyncIterator[Daemon]:
    """Open a registered daemon on the played server."""
    transport = httpx.MockTransport(played)
    async with AsyncConnection(SERVER, transport=transport) as connection:
        api = DaemonApi(connection, "d")

        async def register() -> str:
            return await api.register(
                runtime_name="r", provider="p", device_name="here", version="1"
            )

        yield Daemon(api, register, mind, **{"runtime_id": "runtime", **options})


async def serve(played: Played, mind: Mind, *, once: bool = True) -> None:
    """Run a daemon against the played server to its end."""
    async with daemon_of(played, mind) as daemon:
        await daemon.run(once=once)


@asynccontextmanager
async def serving(played: Played, mind: Mind, **options: Any) -> AsyncIterator[Daemon]:
    """Run a daemon in the background; it has stopped by itself or is stopped afterwards."""
    async with daemon_of(played, mind, **options) as daemon, trio.open_nursery() as nursery:
        nursery.start_soon(daemon.run)
        yield daemon
        daemon.stop()
