"""How a daemon stops, against a server that a test plays, in virtual time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from client import limits
from tests.unit.played_server import AWAY, Endless, Played, badly, serving, task, until, well


async def test_an_idle_daemon_stops_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A stop ends the wait for work and waits for nothing else."""
    played = Played(claims=[])
    async with serving(played, well):
        await trio.sleep(10)  # paced: virtual time
        stopped = trio.current_time()
    assert trio.current_time() == stopped


async def test_work_that_ends_in_the_grace_is_reported_as_usual(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """After a stop nothing is claimed, and what ends within the grace is an ordinary end."""
    played, mind = Played(claims=[[task("a")]]), Endless()
    async with serving(played, mind, grace_seconds=20) as daemon:
        await mind.wait_for("a")
        daemon.stop()
        claims = played.count("claim")
        await trio.sleep(15)  # paced: virtual time
        assert mind.working, "it has five seconds left"
        mind.release.set()
    assert [body["output"] for body in played.bodies("complete")] == ["released"]
    assert played.count("claim") == claims


async def test_work_that_outlasts_the_grace_is_ended_and_retried(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-110: after the grace work is ended and its run fails with a reason that is tried again."""
    played, mind = Played(claims=[[task("a"), task("b")]]), Endless()
    async with serving(played, mind, grace_seconds=20) as daemon:
        await mind.wait_for("a", "b")
        daemon.stop()
        stopped = trio.current_time()
    assert trio.current_time() - stopped == pytest.approx(20, abs=1)
    assert sorted(mind.ended) == ["a", "b"]
    assert [body["failure_reason"] for body in played.bodies("fail")] == ["runtime_recovery"] * 2


async def test_abandoning_leaves_runs_in_flight(autojump_clock: trio.testing.MockClock) -> None:
    """W-110: abandoned work ends at once and nothing is reported: registering gives it back."""
    played, mind = Played(claims=[[task("a")]]), Endless()
    async with serving(played, mind) as daemon:
        await mind.wait_for("a")
        stopped = trio.current_time()
        daemon.stop()
        daemon.abandon()
    assert trio.current_time() == stopped
    assert (mind.ended, daemon.abandoned) == (["a"], 1)
    assert not played.ends


async def test_stopping_still_reports_what_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A run that ended before the stop is reported, for which a stop waits a bounded time."""
    played = Played(faults={"fail": [AWAY] * 3})
    async with serving(played, badly):
        await played.failing.wait()
    assert played.count("fail") == 4


@pytest.mark.parametrize("call", ["start", "fail"])
async def test_stopping_gives_up_on_an_absent_server(
    autojump_clock: trio.testing.MockClock, call: str
) -> None:
    """A stop ends although neither start nor report of a run reaches anybody."""
    played = Played(faults={call: [AWAY] * 1000})
    async with serving(played, badly):
        await until(lambda: played.count(call) > 0)
        stopped = trio.current_time()
    assert trio.current_time() - stopped <= limits.REPORT_SECONDS_MAX + 1
