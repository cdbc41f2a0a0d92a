"""The daemon against a server that a test plays, in virtual time."""

from __future__ import annotations

import signal

import httpx
import pytest
import trio
import trio.testing

from client import limits
from client.daemon import CommandMind
from client.daemon_api import Claim
from client.errors import ApiError
from client.execution import Outcome
from client.transcript import Transcript
from tests.unit.played_server import (
    AWAY,
    GENERATION,
    LATER,
    Endless,
    Played,
    badly,
    daemon_of,
    problem,
    serve,
    serving,
    task,
    until,
    well,
)


async def test_a_run_is_claimed_started_and_reported(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A claim is started by its generation and completed with the output; then `once` ends."""
    played = Played()
    await serve(played, well)
    assert played.bodies("start") == [{"dispatched_at": GENERATION}]
    assert played.bodies("complete") == [{"output": "fine", "dispatched_at": GENERATION}]
    assert played.count("heartbeat") == 2, "a minute holds two of 30 seconds, the last as it ends"
    assert played.count("fail") == 0


async def test_a_failing_command_fails_the_run(autojump_clock: trio.testing.MockClock) -> None:
    """W-104: another exit code than 0 fails this very claim, with the end of standard error."""
    played = Played()
    await serve(played, badly)
    (report,) = played.bodies("fail")
    assert report["dispatched_at"] == GENERATION
    assert (report["error"], report["failure_reason"]) == ("no luck", "agent_error")
    assert played.count("complete") == 0


@pytest.mark.parametrize("code", ["payload_too_large", "invalid_input"])
async def test_an_output_that_is_refused_fails_the_run(
    autojump_clock: trio.testing.MockClock, code: str
) -> None:
    """A run whose output the server cannot take ends as failed, and does not stay running."""
    played = Played(faults={"complete": [problem(400, code)]})
    await serve(played, well)
    (report,) = played.bodies("fail")
    assert "could not be delivered" in report["error"]


# --- Several at a time -------------------------------------------------------------------------


async def test_one_claim_asks_for_all_free_slots(autojump_clock: trio.testing.MockClock) -> None:
    """W-102: one waiting claim at a time asks for as many runs as there are free slots."""
    played = Played(claims=[[task("a"), task("b")], [task("c")]])
    mind = Endless()
    async with serving(played, mind, max_concurrent=4) as daemon:
        await mind.wait_for("a", "b", "c")
        assert daemon.in_hand == 3
        mind.release.set()
    assert [body["max_tasks"] for body in played.bodies("claim")][:3] == [4, 2, 1]
    assert {body["wait_seconds"] for body in played.bodies("claim")} == {30}
    assert played.ends == {"a": 1, "b": 1, "c": 1}


async def test_no_slot_no_claim(autojump_clock: trio.testing.MockClock) -> None:
    """A daemon with no free slot claims nothing, and claims again as soon as one is free."""
    played = Played(claims=[[task("a"), task("b")]])
    mind = Endless()
    async with serving(played, mind, max_concurrent=2):
        await mind.wait_for("a", "b")
        await trio.sleep(100)  # paced: virtual time
        assert played.count("claim") == 1
        played.gone["a"] = "cancelled"
        await until(lambda: played.count("claim") != 1)
        assert played.bodies("claim")[1]["max_tasks"] == 1


async def test_many_runs_ask_for_their_status_at_a_bounded_rate(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """All runs of a daemon together ask eight times a second whether they still run, not more."""
    claims = [[task(f"run {number}") for number in range(64)]]
    played, mind = Played(claims=claims), Endless()
    async with serving(played, mind, max_concurrent=64):
        await mind.wait_for("run 63")
        await trio.sleep(100)  # paced: virtual time
        asked = played.count("status")
        mind.release.set()
    assert 0.5 < asked / (100 * limits.STATUS_CALLS_PER_SECOND_MAX) < 1.2


# --- A server that is away ---------------------------------------------------------------------


async def test_an_absent_server_is_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    """A server that is away or stopping at any call delays the daemon and loses nothing."""
    away: list[httpx.Response | Exception] = [AWAY, problem(503, "stopping"), AWAY]
    played = Played(faults={name: [*away] for name in ("claim", "start", "status", "complete")})
    await serve(played, well)
    assert not any(played.faults.values()), "the faults did not happen"
    assert (played.count("claim"), played.count("start"), played.count("complete")) == (4, 4, 4)


async def test_minutes_without_a_server(autojump_clock: trio.testing.MockClock) -> None:
    """W-113: over ten minutes without a server work goes on, and each end is reported after it."""
    played, mind = Played(claims=[[task("a"), task("b")]]), Endless()
    async with serving(played, mind):
        await mind.wait_for("a", "b")
        played.is_away = True
        await trio.sleep(300)  # paced: virtual time
        assert len(mind.working) == 2, "the commands live on"
        mind.release.set()
        await trio.sleep(300)  # paced: virtual time
        attempts = played.count("complete")
        assert attempts > 2
        played.is_away = False
        await until(lambda: played.count("register") != 0)
    assert played.count("complete") == attempts + 2
    # Two runs and one claim loop, at most every 2.5 s each: no storm.
    assert len(played.calls) < 3 * 600 / 2.5


async def test_a_lost_claim_is_asked_for_by_registering(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-105: after a claim without an answer an idle daemon registers, which gives the run back."""
    played = Played(faults={"claim": [httpx.ReadError("reset")]})
    await serve(played, well)
    names = [name for name, _, _ in played.calls]
    assert names[:3] == ["claim", "register", "claim"]


async def test_runs_in_hand_are_not_registered_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-110: with runs in hand a daemon says that it is back, and registers only when idle."""
    played, mind = Played(claims=[[task("a")]]), Endless()
    async with serving(played, mind):
        await mind.wait_for("a")
        played.is_away = True
        await trio.sleep(120)  # paced: virtual time
        played.is_away = False
        beats = played.count("heartbeat")
        await trio.sleep(29)  # paced: virtual time
        assert played.count("heartbeat") > beats + 1, "not only the one of every 30 s"
        assert played.count("register") == 0
        mind.release.set()
        await until(lambda: played.count("register") != 0)
    names = [name for name, _, _ in played.calls]
    assert names.index("complete") < names.index("register")
    assert played.ends["a"] == 1


async def test_the_lease_is_renewed_while_a_start_takes_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-105: while a claimed run cannot be started its prepare lease is renewed."""
    played = Played(faults={"start": [AWAY] * 20})
    await serve(played, well)
    assert played.count("prepare-lease") >= 3
    assert played.count("complete") == 1


# --- Claims that are lost ----------------------------------------------------------------------


@pytest.mark.parametrize("fault", [problem(409, "stale_claim"), problem(404, "not_found")])
async def test_a_lost_claim_is_dropped(
    autojump_clock: trio.testing.MockClock, fault: httpx.Response
) -> None:
    """W-104: a run that was handed out again is neither carried out nor reported."""
    played = Played(faults={"start": [fault]})
    await serve(played, badly)
    assert (played.count("start"), played.count("fail"), played.count("complete")) == (1, 0, 0)


async def test_a_run_handed_out_again_replaces_its_older_claim(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-104: claimed anew by the same daemon, the older claim's work ends before the new begins."""
    played = Played(claims=[[task("a")], [task("a", LATER)]])
    mind = Endless()
    async with serving(played, mind):
        await until(lambda: [each.generation for each in mind.working] == [LATER])
        mind.release.set()
    assert mind.ended == ["a", "a"]
    assert [body["dispatched_at"] for body in played.bodies("complete")] == [LATER]


@pytest.mark.parametrize("status", ["cancelled", "failed", "queued"])
async def test_a_cancelled_run_stops_its_command(
    autojump_clock: trio.testing.MockClock, status: str
) -> None:
    """A run that runs no more ends its command within a second or two, without a report."""
    played, mind = Played(gone={"run": status}), Endless()
    began = trio.current_time()
    await serve(played, mind)
    assert mind.ended == ["run"]
    assert trio.current_time() - began <= 2 * limits.STATUS_SECONDS
    assert not played.ends


async def test_a_revoked_token_ends_the_daemon(autojump_clock: trio.testing.MockClock) -> None:
    """What no waiting can mend is raised to whoever runs the daemon, and all work is ended."""
    played = Played(claims=[[task("a")]], faults={})
    mind = Endless()
    async with daemon_of(played, mind) as daemon, trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(ApiError) as refused:
                await daemon.run()
            assert refused.value.code == "not_authenticated"

        nursery.start_soon(run)
        await mind.wait_for("a")
        played.faults["claim"] = [problem(401, "not_authenticated")]
    assert mind.ended == ["a"]


# --- What a command gets and gives -------------------------------------------------------------


async def test_a_command_acts_by_its_environment() -> None:
    """The command of a run gets the prompt, the run's credential, its issue, its id and agent."""
    command = 'cat; echo "$WAKEFUL_TOKEN $WAKEFUL_ISSUE $WAKEFUL_RUN $WAKEFUL_AGENT $OWN"'
    outcome = await CommandMind(command, {"OWN": "own"})(Claim.read(task()), Transcript())
    assert outcome.output == "Go.wkr_x issue run scribe own\n"


async def test_a_command_that_a_signal_ends_has_failed() -> None:
    """The exit code of a command that was killed tells the signal."""
    outcome = await CommandMind("kill -KILL $$", {})(Claim.read(task()), Transcript())
    assert outcome.exit_code == -signal.SIGKILL


async def test_the_last_lines_come_before_the_report(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A transcript is whole when the end of its run is seen."""

    async def talkative(_: Claim, transcript: Transcript) -> Outcome:
        transcript.say("first")
        await trio.sleep(10)  # paced: virtual time
        transcript.say("last")
        return Outcome(exit_code=0, output="", errors="")

    played = Played()
    await serve(played, talkative)
    lines = [line["text"] for body in played.bodies("messages") for line in body["lines"]]
    assert lines == ["first", "last"]
    names = [name for name, _, _ in played.calls]
    assert names[-2:] == ["messages", "complete"]


async def test_a_transcript_never_delays_a_report_for_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A server that takes no lines gets the report within seconds all the same, and just once."""

    async def talkative(_: Claim, transcript: Transcript) -> Outcome:
        transcript.say("hello")
        return Outcome(exit_code=0, output="", errors="")

    played = Played(faults={"messages": [problem(503, "overloaded")] * 1000})
    began = trio.current_time()
    await serve(played, talkative)
    assert trio.current_time() - began <= 2 * limits.FLUSH_SECONDS_MAX + 1
    assert played.ends == {"run": 1}


def test_a_claims_token_is_not_shown() -> None:
    """The credential of a run is in no representation."""
    assert "wkr_x" not in repr(Claim.read(task()))
