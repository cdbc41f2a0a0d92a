"""`wakeful demo`: it ends with 0 only if both wakes happened."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from tests.cli import serving
from tests.cli.serving import Site

LINE = re.compile(r" *(\d+\.\d{3}) s  (\w+(?: \d)?) +(\S.*)")


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_demo_shows_both_wakes(site: Site) -> None:
    """The demo ends with 0 after a timeline in order, with the latency of each of the two wakes."""
    done = site.wakeful("demo")
    assert done.code == 0, done.out + done.err
    *lines, summary = done.out.splitlines()
    entries = [match.groups() for match in map(LINE.fullmatch, lines) if match]
    assert len(entries) == len(lines)
    times = [float(time) for time, _, _ in entries]
    assert times == sorted(times)
    assert times[-1] < 30
    wakes = [text for _, _, text in entries if "woken by" in text]
    assert [re.sub(r"[\d.]+ ms", "N ms", text) for text in wakes] == [
        "queued: woken by comment.created, N ms after it",
        "queued: woken by time.due, N ms after it",
    ]
    assert summary.startswith("Both wakes happened: ")
    timer = next(time for time, _, text in entries if "once, 5 seconds" in text)
    due = next(time for time, _, text in entries if "time.due" in text)
    assert 5 <= float(due) - float(timer) < 7


def test_the_demo_leaves_nothing_running(site: Site) -> None:
    """Afterwards the issue is there to look at, the agent is retired, its daemon is gone."""
    log = site.cwd / "demo.log"
    with serving.running("demo", cwd=site.cwd, log=log) as demo:
        first = demo.wait_for_line()
        daemons = children_of(demo.process.pid)
        assert len(daemons) == 1
        assert demo.process.stdout is not None
        assert "Both wakes happened" in demo.process.stdout.read()
        assert demo.process.wait(serving.SECONDS_MAX) == 0
    assert not Path(f"/proc/{daemons[0]}").exists()
    match = re.search(r"makes (WF-\d+) and assigns it to (demo-\w+)", first)
    assert match is not None, first
    assert len(site.wakeful("run", "list", match[1]).json["items"]) == 3
    with site.api() as api:
        assert api.find_agent(match[2]) is None


def test_a_lost_daemon_fails_the_demo(site: Site) -> None:
    """A wake that does not happen ends the demo with 1 and says what is wrong."""
    log = site.cwd / "failing-demo.log"
    with serving.running("demo", cwd=site.cwd, log=log) as demo:
        assert "makes WF-" in demo.wait_for_line()
        (daemon,) = children_of(demo.process.pid)
        os.kill(daemon, signal.SIGKILL)
        assert demo.process.wait(serving.SECONDS_MAX) == 1
    assert "daemon has ended" in log.read_text()


def test_a_demo_that_is_stopped_cleans_up(site: Site) -> None:
    """SIGTERM ends the demo with 1 and its daemon with it."""
    with serving.running("demo", cwd=site.cwd, log=site.cwd / "stopped-demo.log") as demo:
        assert "makes WF-" in demo.wait_for_line()
        (daemon,) = children_of(demo.process.pid)
        assert demo.stop() == 1
    assert not Path(f"/proc/{daemon}").exists()


def test_the_demo_needs_a_person(site: Site) -> None:
    """With a daemon's token the demo says what it needs, and changes nothing."""
    done = site.wakeful("demo", "--token", site.credentials["daemon_token"])
    assert (done.code, done.out) == (1, "")
    assert "member token" in done.err or "(not_allowed)" in done.err
