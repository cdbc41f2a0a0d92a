"""`wakeful demo`: the main job, played against a running server.

An agent whose mind is a small script gets an issue, leaves a reply rule and a timer of five
seconds, and ends; a person comments. The agent must be woken twice.
"""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final, NoReturn

import attrs
import click

from cli.connection import Failure, Found, calling, server_options
from cli.timeline import State, Timeline, latency, look
from client.api import Json, Wakeful
from client.connection import Server
from client.errors import ApiError

_SECONDS_MAX: Final = 30  # the whole takes about seven
_LOOK_SECONDS: Final = 0.1  # how live the timeline is
_STOP_SECONDS_MAX: Final = 10  # the daemon ends its command, reports and goes
_COMPLETED: Final = "completed"
_ENDED: Final = frozenset((_COMPLETED, "failed", "cancelled"))
_COMMENT: Final = "Are you still there?"
_MIND: Final = shlex.join((sys.executable, "-P", "-m", "cli.demo_agent"))


@click.command()
@server_options
def demo(found: Found) -> None:
    """Show an agent being woken by a comment and by a timer.

    Plays against the server that the other commands talk to and prints what happens, with the time
    from each cause to the run that it queued. Ends with 0 only if both wakes happened. The issue
    stays to be looked at; the agent is retired.
    """
    signal.signal(signal.SIGTERM, _leave)  # so that what is cleaned up on Ctrl-C is so then, too
    with calling(found) as api:
        if api.me()["kind"] != "member":
            raise Failure("the demo plays a person's part: it needs a member token")
        name = f"demo-{secrets.token_hex(3)}"
        agent = api.create_agent(name, instructions="Answer comments, and come back in time.")
        try:
            with _daemon(found.server(), found, name) as process:
                missing = _Play(api=api, agent=agent, daemon=process).run()
        finally:
            with suppress(ApiError):
                api.archive_agent(agent["id"])
    if missing:
        raise Failure(f"missing: {missing}")


@attrs.define(kw_only=True)
class _Daemon:
    """The process of the daemon, and where it writes what goes wrong."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def pause(self) -> None:
        """Let a little time pass. Raises `Failure` with its last words if the daemon ends."""
        try:
            self.process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            return
        self.log.seek(0)
        words = self.log.read().decode(errors="replace").strip()
        raise Failure(f"the demo's daemon has ended:\n{words}")


@contextmanager
def _daemon(server: Server, found: Found, agent: str) -> Iterator[_Daemon]:
    """Run `wakeful daemon` for an agent; the process is gone afterwards."""
    where = {"WAKEFUL_URL": server.url, "WAKEFUL_TOKEN": server.token}
    if server.workspace is not None:
        where["WAKEFUL_WORKSPACE"] = server.workspace
    if (data_dir := found.given("data_dir")) is not None:
        where["WAKEFUL_DATA_DIR"] = data_dir
    command = [sys.executable, "-P", "-m", "cli", "daemon", "--agent", agent, "--grace", "1"]
    command += ["--exec", _MIND]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter with arguments of our own
            command,
            env=os.environ | where,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield _Daemon(process=process, log=log)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@attrs.define(kw_only=True)
class _Play:
    """One performance."""

    api: Wakeful
    agent: Json
    daemon: _Daemon
    has_commented: bool = attrs.field(default=False, init=False)

    def run(self) -> str | None:
        """Play to the end and print the timeline; returns what did not happen."""
        deadline = time.monotonic() + _SECONDS_MAX
        if not self._wait_for_runtime(deadline):
            return "the daemon did not register"
        issue = self.api.create_issue(
            "Wake me when I am needed",
            description="Played by `wakeful demo`.",
            assignee_type="agent",
            assignee_id=self.agent["id"],
        )
        timeline = Timeline(issue, {self.agent["id"]: self.agent["name"]})
        while True:
            state = look(self.api, issue)
            is_over = _is_over(state) or time.monotonic() > deadline
            for line in timeline.lines(state, is_last=is_over):
                click.echo(line)
            if is_over:
                break
            self._comment_when_alone(state)
            self.daemon.pause()
        missing = _missing(state)
        if missing is None:
            click.echo(_summary(state))
        return missing

    def _wait_for_runtime(self, deadline: float) -> bool:
        """Wait until the agent can be given work: its daemon has registered."""
        while time.monotonic() < deadline:
            if self.api.agent(self.agent["id"])["runtime_id"] is not None:
                return True
            self.daemon.pause()
        return False

    def _comment_when_alone(self, state: State) -> None:
        """Comment once the agent's first run has ended: nobody waits for us but the rule."""
        if self.has_commented or not state.runs or state.runs[0]["status"] != _COMPLETED:
            return
        self.api.comment(state.issue["id"], _COMMENT)
        self.has_commented = True


def _is_over(state: State) -> bool:
    """Tell whether both rules have woken, or nothing more can come."""
    if any(run["status"] in _ENDED and run["status"] != _COMPLETED for run in state.runs):
        return True
    return _missing(state) is None


def _missing(state: State) -> str | None:
    """Return what of the play has not happened, None if all has."""
    if not state.runs or state.runs[0]["status"] != _COMPLETED:
        return _how("the first run", state.runs[:1])
    for kind, cause in (("event", "the comment"), ("at", "the timer")):
        rules = [rule for rule in state.rules if rule["kind"] == kind]
        if not rules:
            return f"the agent left no rule for {cause}"
        runs = state.runs_of(rules[0])
        if not any(run["status"] == _COMPLETED for run in runs):
            return _how(f"the wake by {cause}", runs)
    return None


def _how(what: str, runs: tuple[Json, ...]) -> str:
    """Say of a run that should have completed how far it came."""
    if not runs:
        return f"{what} was not queued"
    run = runs[-1]
    error = f": {run['error']}" if run["error"] else ""
    return f"{what} is {run['status']}{error}"


def _summary(state: State) -> str:
    caused = (latency(run) for run in state.runs)
    wakes = [f"{event} after {1000 * seconds:.1f} ms" for event, seconds in filter(None, caused)]
    issue = state.issue["identifier"]
    return f"Both wakes happened: {', '.join(wakes)}. See it with: wakeful issue show {issue}"


def _leave(_signal: int, _frame: object) -> NoReturn:
    sys.exit(1)
