"""The daemon against a server that a test plays, in virtual time."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Awaitable, Callable

import attrs
import httpx
import pytest
import trio
import trio.testing

from client import limits
from client.connection import AsyncConnection, Server
from client.daemon import CommandMind, Daemon
from client.daemon_api import Claim, DaemonApi
from client.errors import ApiError
from client.execution import Outcome

SERVER = Server(url="http://127.0.0.1:1", token="wkd_x")
GENERATION = "2026-01-01T00:00:00.000001Z"
TASK = {
    "id": "run",
    "dispatched_at": GENERATION,
    "prompt": "Go.",
    "token": "wkr_x",
    "issue": {"id": "issue", "identifier": "WF-1"},
    "wakeup_id": None,
}
AWAY = httpx.ConnectError("refused")


def problem(status: int, code: str) -> httpx.Response:
    """Return a refusal as the product writes it."""
    return httpx.Response(status, json={"code": code, "detail": "refused"})


@attrs.define
class Played:
    """A server of one run: `faults` go first, one a call of that name; then all goes well.

    A claim finds the run once; later ones wait until they are cancelled.
    """

    faults: dict[str, list[httpx.Response | Exception]] = attrs.field(factory=dict)
    status: str = "running"
    calls: list[tuple[str, str]] = attrs.field(factory=list)
    failing: trio.Event = attrs.field(factory=trio.Event)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one call."""
        await trio.lowlevel.checkpoint()
        name = request.url.path.rpartition("/")[2]
        self.calls.append((name, request.content.decode()))
        if name == "fail":
            self.failing.set()
        if self.faults.get(name):
            fault = self.faults[name].pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault
        match name:
            case "claim" if self.count("claimed") == 0:
                self.calls.append(("claimed", ""))
                return httpx.Response(200, json={"tasks": [TASK]})
            case "claim":
                await trio.sleep(limits.CLAIM_WAIT_SECONDS)  # paced: virtual time
                return httpx.Response(200, json={"tasks": []})
            case "status":
                return httpx.Response(200, json={"status": self.status})
            case "heartbeat":
                return httpx.Response(204)
            case _:
                return httpx.Response(200, json={})

    def count(self, name: str) -> int:
        """Return how often something was called."""
        return Counter(each for each, _ in self.calls)[name]

    def body(self, name: str) -> str:
        """Return what the last call of this name said."""
        return [body for each, body in self.calls if each == name][-1]


async def well(_: Claim) -> Outcome:
    """Succeed after a minute."""
    await trio.sleep(60)  # paced: virtual time
    return Outcome(exit_code=0, output="fine", errors="")


async def badly(_: Claim) -> Outcome:
    """Fail with many words."""
    return Outcome(exit_code=2, output="half", errors="no luck\n")


async def serve(
    played: Played, mind: Callable[[Claim], Awaitable[Outcome]], *, once: bool = True
) -> None:
    """Run a daemon against the played server."""
    transport = httpx.MockTransport(played)
    async with AsyncConnection(SERVER, transport=transport) as connection:
        await Daemon(DaemonApi(connection, "d"), "runtime", mind).run(once=once)


async def test_a_run_is_claimed_started_and_reported(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A claim is started by its generation and completed with the output; then `once` ends."""
    played = Played()
    await serve(played, well)
    assert GENERATION in played.body("start")
    assert '"output":"fine"' in played.body("complete")
    assert GENERATION in played.body("complete")
    assert played.count("heartbeat") == 2, "a minute holds two of 30 seconds, the last as it ends"
    assert played.count("fail") == 0


async def test_a_failing_command_fails_the_run(autojump_clock: trio.testing.MockClock) -> None:
    """W-104: another exit code than 0 fails this very claim, with the end of standard error."""
    played = Played()
    await serve(played, badly)
    assert GENERATION in played.body("fail")
    assert '"error":"no luck"' in played.body("fail")
    assert '"failure_reason":"agent_error"' in played.body("fail")
    assert played.count("complete") == 0


async def test_an_absent_server_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    """A server that is away or stopping at any call delays the daemon and loses nothing."""
    away: list[httpx.Response | Exception] = [AWAY, problem(503, "stopping"), AWAY]
    played = Played(faults={name: [*away] for name in ("claim", "start", "status", "complete")})
    await serve(played, well)
    assert not any(played.faults.values()), "the faults did not happen"
    assert (played.count("claimed"), played.count("start"), played.count("complete")) == (1, 4, 4)


async def test_the_lease_is_renewed_while_a_start_takes_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-105: while a claimed run cannot be started its prepare lease is renewed."""
    played = Played(faults={"start": [AWAY] * 20})
    await serve(played, well)
    assert played.count("prepare-lease") >= 3
    assert played.count("complete") == 1


@pytest.mark.parametrize("fault", [problem(409, "stale_claim"), problem(404, "not_found")])
async def test_a_lost_claim_is_dropped(
    autojump_clock: trio.testing.MockClock, fault: httpx.Response
) -> None:
    """W-104: a run that was handed out again is neither carried out nor reported."""
    played = Played(faults={"start": [fault]})
    await serve(played, badly)
    assert (played.count("start"), played.count("fail"), played.count("complete")) == (1, 0, 0)


@pytest.mark.parametrize("status", ["cancelled", "failed", "queued"])
async def test_a_cancelled_run_stops_its_command(
    autojump_clock: trio.testing.MockClock, status: str
) -> None:
    """A run that runs no more ends its command within a second or two, without a report."""
    ended = trio.Event()

    async def forever(_: Claim) -> Outcome:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError("it never ends by itself")

    played = Played(status=status)
    began = trio.current_time()
    await serve(played, forever)
    assert ended.is_set()
    assert trio.current_time() - began <= 2 * limits.STATUS_SECONDS
    assert (played.count("complete"), played.count("fail")) == (0, 0)


async def test_a_revoked_token_ends_the_daemon(autojump_clock: trio.testing.MockClock) -> None:
    """What no waiting can mend is raised to whoever runs the daemon."""
    played = Played(faults={"claim": [problem(401, "not_authenticated")]})
    with pytest.raises(ApiError) as refused:
        await serve(played, well, once=False)
    assert refused.value.code == "not_authenticated"


async def test_stopping_leaves_a_run_in_flight(autojump_clock: trio.testing.MockClock) -> None:
    """W-110: a stopped daemon ends its command and reports nothing: registering gives it back."""
    played = Played()
    began = trio.Event()

    async def forever(_: Claim) -> Outcome:
        began.set()
        await trio.sleep_forever()
        raise AssertionError("it never ends by itself")

    async with AsyncConnection(SERVER, transport=httpx.MockTransport(played)) as connection:
        daemon = Daemon(DaemonApi(connection, "d"), "runtime", forever)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.run)
            await began.wait()
            daemon.stop()
    assert (played.count("start"), played.count("complete"), played.count("fail")) == (1, 0, 0)


async def test_stopping_still_reports_what_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run that ended before the stop is reported, for which a stop waits a bounded time."""
    played = Played(faults={"fail": [AWAY] * 3})
    async with AsyncConnection(SERVER, transport=httpx.MockTransport(played)) as connection:
        daemon = Daemon(DaemonApi(connection, "d"), "runtime", badly)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.run)
            await played.failing.wait()
            daemon.stop()
    assert played.count("fail") == 4


async def test_stopping_gives_up_on_an_absent_server(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A stop ends although the report of an ended run reaches nobody."""
    played = Played(faults={"fail": [AWAY] * 1000})
    async with AsyncConnection(SERVER, transport=httpx.MockTransport(played)) as connection:
        daemon = Daemon(DaemonApi(connection, "d"), "runtime", badly)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.run)
            await played.failing.wait()
            stopped = trio.current_time()
            daemon.stop()
    assert trio.current_time() - stopped <= limits.REPORT_SECONDS_MAX + 1


async def test_a_command_acts_by_its_environment() -> None:
    """The command of a run gets the prompt, the run's credential and its issue."""
    mind = CommandMind('cat; echo "$WAKEFUL_TOKEN $WAKEFUL_ISSUE $OWN"', {"OWN": "own"})
    outcome = await mind(Claim.read(TASK))
    assert outcome.output == "Go.wkr_x issue own\n"


async def test_a_command_that_a_signal_ends_has_failed() -> None:
    """The exit code of a command that was killed tells the signal."""
    outcome = await CommandMind("kill -KILL $$", {})(Claim.read(TASK))
    assert outcome.exit_code == -signal.SIGKILL


def test_a_claims_token_is_not_shown() -> None:
    """The credential of a run is in no representation."""
    assert "wkr_x" not in repr(Claim.read(TASK))
