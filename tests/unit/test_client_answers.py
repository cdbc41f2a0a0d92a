"""The daemon where somebody answers in the server's place, and where the server makes mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
import structlog
import trio
import trio.testing

from client import limits
from client.claimed_run import Mind
from client.daemon_api import Claim
from client.errors import ApiError
from client.execution import Outcome
from client.transcript import Transcript
from tests.unit.played_server import (
    Endless,
    Played,
    badly,
    daemon_of,
    problem,
    serve,
    serving,
    task,
    well,
)

FOREIGN: Final = {
    "a page": lambda: httpx.Response(200, text="<h1>Maintenance</h1>"),
    "other JSON": lambda: httpx.Response(200, json={"message": "temporarily unavailable"}),
    "a health check": lambda: httpx.Response(200, json={"status": "ok", "tasks": None}),
    "half a run": lambda: httpx.Response(200, json={"tasks": [{"id": "run", "prompt": None}]}),
    "a list": lambda: httpx.Response(200, json=[]),
    "a sign-in": lambda: httpx.Response(302, headers={"Location": "/login"}),
    "a foreign 401": lambda: httpx.Response(401, json={"code": "expired", "detail": "Sign in."}),
    "a foreign 403": lambda: httpx.Response(403, text="<h1>Forbidden</h1>"),
    "a foreign 409": lambda: httpx.Response(409, json={"detail": "refused"}),
}
CALLS: Final = ("claim", "register", "heartbeat", "start", "status", "messages", "complete")
TIMES: Final = 5
MISTAKE: Final = "internal_error"


async def talkative(claim: Claim, transcript: Transcript) -> Outcome:
    """Say something, and succeed after five minutes."""
    transcript.say("hello")
    await trio.sleep(300)  # paced: virtual time
    return Outcome(exit_code=0, output="fine", errors="")


@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
async def test_a_proxy_that_answers_for_the_server_is_waited_out(
    autojump_clock: trio.testing.MockClock, foreign: Callable[[], httpx.Response]
) -> None:
    """Whatever a proxy answers to any call, again and again, no work ends and no report is lost."""
    played = Played(faults={name: [foreign() for _ in range(TIMES)] for name in CALLS})
    await serve(played, talkative)
    assert not any(played.faults.values()), "the faults did not happen"
    assert played.ends == {"run": TIMES + 1}
    assert played.count("fail") == 0
    lines = [line["text"] for body in played.bodies("messages") for line in body["lines"]]
    assert set(lines) == {"hello"}


async def test_a_foreign_claim_leaves_what_runs_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A gateway's own JSON in place of a claim delays the next run, and nothing that runs."""
    foreign: list[httpx.Response | Exception] = [FOREIGN["other JSON"]() for _ in range(20)]
    played, mind = Played(claims=[[task("a")]]), Endless()
    async with serving(played, mind):
        await mind.wait_for("a")
        played.faults["claim"] = foreign
        played.claims.append([task("b")])
        await mind.wait_for("b")
        assert not foreign, "the faults did not happen"
        assert [each.run_id for each in mind.working] == ["a", "b"]
        mind.release.set()
    assert played.ends == {"a": 1, "b": 1}


# --- Where the server itself refuses -------------------------------------------------------------


async def test_a_run_that_cannot_be_watched_is_given_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-110: refused the status of a run, a daemon ends its work, and it is to be tried again."""
    played, mind = Played(), Endless()
    played.faults["status"] = [problem(403, "not_allowed")]
    await serve(played, mind)
    assert mind.ended == ["run"]
    (report,) = played.bodies("fail")
    assert report["failure_reason"] == "runtime_recovery"
    assert "refused the status" in report["error"]


async def test_a_daemon_that_is_refused_gives_its_runs_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-110: a claim that is refused for good ends the daemon; its runs are to be tried again."""
    played, mind = Played(claims=[[task("a"), task("b")]]), Endless()
    async with daemon_of(played, mind) as daemon, trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(ApiError) as refused:
                await daemon.run()
            assert refused.value.code == "daemon_mismatch"

        nursery.start_soon(run)
        await mind.wait_for("a", "b")
        played.faults["claim"] = [problem(403, "daemon_mismatch")]
    assert sorted(mind.ended) == ["a", "b"]
    assert played.ends == {"a": 1, "b": 1}
    assert {body["failure_reason"] for body in played.bodies("fail")} == {"runtime_recovery"}


# --- Where the server makes the same mistake again and again -------------------------------------


def mistakes(count: int) -> list[httpx.Response | Exception]:
    """Return as many answers of a server that has failed."""
    return [problem(500, MISTAKE) for _ in range(count)]


@pytest.mark.parametrize(("mind", "first"), [(talkative, "complete"), (badly, "fail")])
async def test_a_report_that_the_server_cannot_take_fails_the_run(
    autojump_clock: trio.testing.MockClock, mind: Mind, first: str
) -> None:
    """A report that fails in the server too often becomes a plain failure; the log says so."""
    most = limits.INTERNAL_ERRORS_MAX
    played = Played(faults={first: mistakes(most)})
    with structlog.testing.capture_logs() as logs:
        async with daemon_of(played, mind) as daemon:
            await daemon.run(once=True)
    assert not played.faults[first], "the faults did not happen"
    assert played.count(first) == most + (first == "fail")
    report = played.bodies("fail")[-1]
    assert "could not be delivered" in report["error"]
    assert report["failure_reason"] == "agent_error"
    assert {"event": "report_undeliverable", "code": MISTAKE} in _told(logs)
    assert daemon.failed_run == "run", "the exit code of --once says it"


async def test_mistakes_that_pass_lose_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """A server that fails for a minute and a half gets every report as it was."""
    faults = {name: mistakes(limits.INTERNAL_ERRORS_MAX - 1) for name in ("start", "complete")}
    played = Played(faults=faults)
    await serve(played, well)
    assert not any(faults.values()), "the faults did not happen"
    assert played.bodies("complete")[-1]["output"] == "fine"
    assert played.count("fail") == 0


@pytest.mark.parametrize("names", [("complete", "fail"), ("start",)])
async def test_a_run_that_no_report_reaches_gives_its_place_up(
    autojump_clock: trio.testing.MockClock, names: tuple[str, ...]
) -> None:
    """W-110: after its bound a run holds no place, and the idle daemon's registration ends it."""
    played = Played(faults={name: mistakes(1_000) for name in names})
    with structlog.testing.capture_logs() as logs:
        async with serving(played, well, max_concurrent=1) as daemon:
            await trio.sleep(600)  # paced: virtual time
            assert (daemon.in_hand, played.count("register")) == (0, 1)
    for name in names:
        assert played.count(name) == limits.INTERNAL_ERRORS_MAX
    assert {"event": "run_dropped", "code": MISTAKE} in _told(logs)


def _told(logs: list[Any]) -> list[dict[str, Any]]:
    return [{name: line.get(name) for name in ("event", "code")} for line in logs]
