"""`wakeful daemon`: carries out agents' runs with a command (api.md, Starting it)."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sysconfig
from collections.abc import AsyncIterator
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import attrs
import click
import trio

from cli.connection import Failure, Found, calling, server_options
from cli.logs import log_to_stderr
from cli.output import note
from client import limits
from client.api import Json, Wakeful
from client.connection import AsyncConnection, Server
from client.daemon import CommandMind, Daemon
from client.daemon_api import DaemonApi
from client.errors import ApiError

_PROVIDER: Final = "exec"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@attrs.frozen(kw_only=True)
class _Plan:
    """What a daemon is asked to do, and under which names it does it."""

    agents: tuple[str, ...]
    daemon_id: str
    runtime_name: str
    once: bool
    max_concurrent: int
    grace_seconds: float

    def whom(self, runtime_id: str) -> str:
        """Return whom it serves, in words."""
        return ", ".join(self.agents) or f"the agents of {self.runtime_name} ({runtime_id})"


@click.command()
@click.option(
    "--agent",
    "agents",
    metavar="NAME",
    multiple=True,
    help="An agent to serve, made if there is none; may be repeated.",
)
@click.option("--runtime", metavar="NAME", help="Serve every agent of the runtime HOST/NAME.")
@click.option("--exec", "command", required=True, help="The shell command that gets each prompt.")
@click.option("--once", is_flag=True, help="End after one run, with 1 if it failed.")
@click.option("--daemon-id", help="The name of this daemon.  [default: HOST/NAME]")
@click.option(
    "--max-concurrent",
    type=click.IntRange(1, limits.CONCURRENT_RUNS_MAX),
    default=limits.CONCURRENT_RUNS,
    show_default=True,
    help="How many runs at a time; those of one agent are of different issues.",
)
@click.option(
    "--grace",
    "grace_seconds",
    type=click.FloatRange(0),
    default=limits.GRACE_SECONDS,
    show_default=True,
    help="Seconds that commands may go on after SIGTERM or Ctrl-C.",
)
@server_options
def daemon(
    found: Found,
    *,
    agents: tuple[str, ...],
    runtime: str | None,
    command: str,
    daemon_id: str | None,
    **how: Any,
) -> None:
    """Claim agents' runs and hand each prompt to a command.

    The command reads the prompt on standard input and acts as the agent: WAKEFUL_TOKEN is the
    credential of the run; WAKEFUL_URL, WAKEFUL_ISSUE, WAKEFUL_RUN and WAKEFUL_AGENT say where and
    as whom. What it prints becomes the run's transcript, and standard output the run's output;
    another exit code than 0 is a failure. When the run is cancelled, the command and what it
    started get SIGTERM, then SIGKILL.

    SIGTERM or Ctrl-C lets commands go on for the grace, then ends them, and their runs are tried
    again; a second one ends everything at once.
    """
    log_to_stderr()
    names = tuple(dict.fromkeys(agents))
    if not names and runtime is None:
        raise Failure("whose runs? Name agents with --agent, or a runtime with --runtime")
    runtime_name = f"{_host()}/{runtime or names[0]}"
    plan = _Plan(
        agents=names,
        daemon_id=daemon_id or runtime_name,
        runtime_name=runtime_name,
        **how,
    )
    server, runtime_id = _enlist(found, plan)
    trio.run(_serve, server, plan, runtime_id, CommandMind(command, _environment(found)))


def _host() -> str:
    return platform.node() or "localhost"


def _enlist(found: Found, plan: _Plan) -> tuple[Server, str]:
    """Register the daemon and give its runtime the named agents; return the server as the daemon.

    Without agents to bind, a daemon token is all that it needs.
    """
    if not plan.agents and found.daemon_token is not None:
        server = Server(url=found.url, token=found.daemon_token, workspace=found.workspace)
        return server, trio.run(_register_once, server, plan)
    with calling(found) as api:
        serving = [_find_agent(api, name) for name in plan.agents]
        server = _daemon_server(found, api, plan.daemon_id)
        runtime_id = trio.run(_register_once, server, plan)
        for agent in serving:
            _bind(api, agent, runtime_id)
    return server, runtime_id


def _find_agent(api: Wakeful, name: str) -> Json:
    found = api.find_agent(name)
    if found is None:
        found = api.create_agent(name)
        note(f"there was no agent {name}: it has been made")
    return found


def _daemon_server(found: Found, api: Wakeful, daemon_id: str) -> Server:
    """Return the server as this daemon.

    Without a daemon token one is made for it, in place of the one that an earlier process of this
    daemon made: its name then belongs to the new one (W-102).
    """
    server = found.server()
    if found.daemon_token is not None:
        return attrs.evolve(server, token=found.daemon_token)
    name = f"daemon {daemon_id}"
    for token in list(api.tokens()):
        if token["kind"] == "daemon" and token["name"] == name:
            api.revoke_token(token["id"])
    return attrs.evolve(server, token=api.create_token(name, "daemon")["token"])


async def _register_once(server: Server, plan: _Plan) -> str:
    async with AsyncConnection(server) as connection:
        return await _register(DaemonApi(connection, plan.daemon_id), plan)


async def _register(api: DaemonApi, plan: _Plan) -> str:
    return await api.register(
        runtime_name=plan.runtime_name,
        provider=_PROVIDER,
        device_name=_host(),
        version=version("wakeful"),
    )


def _bind(api: Wakeful, agent: Json, runtime_id: str) -> None:
    """Make this daemon's runtime the agent's, unless another one is at work elsewhere."""
    bound = agent["runtime"]
    if bound is not None and bound["id"] == runtime_id:
        return
    is_elsewhere = bound is not None and not bound["name"].startswith(f"{platform.node()}/")
    if is_elsewhere and bound["status"] == "online":
        raise Failure(f"{agent['name']} is served by {bound['name']}, which is online")
    api.update_agent(agent["id"], runtime_id=runtime_id)


def _environment(found: Found) -> dict[str, str]:
    """Return what every command gets: our environment, and how to find the server and us.

    The credential of a person or a daemon is not the agent's to use.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "WAKEFUL_DAEMON_TOKEN"
    }
    environment["WAKEFUL_URL"] = found.url
    if found.workspace is not None:
        environment["WAKEFUL_WORKSPACE"] = found.workspace
    if shutil.which("wakeful") is None:
        path = environment.get("PATH", os.defpath)
        environment["PATH"] = os.pathsep.join((path, sysconfig.get_path("scripts")))
    return environment


async def _serve(server: Server, plan: _Plan, runtime_id: str, mind: CommandMind) -> None:
    """Carry out runs until a signal comes; says whom it serves once a signal would be obeyed.

    Raises the `ApiError` that ends the daemon, and `Failure` when the only run has failed or work
    was abandoned.
    """
    async with AsyncConnection(server) as connection:
        api = DaemonApi(connection, plan.daemon_id)
        serving = Daemon(
            api,
            partial(_register, api, plan),
            mind,
            runtime_id=runtime_id,
            max_concurrent=plan.max_concurrent,
            grace_seconds=plan.grace_seconds,
        )
        refusal = None
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_on, signals, serving, mind)
                note(f"wakeful daemon: {plan.daemon_id} serves {plan.whom(runtime_id)}")
                try:
                    await serving.run(once=plan.once)
                except ApiError as error:
                    refusal = error
                nursery.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    if serving.abandoned:
        raise Failure(f"ended at once: {serving.abandoned} runs are left to the next start")
    if plan.once and serving.failed_run is not None:
        failed = serving.failed_run
        raise Failure(f"the run failed: `wakeful run show {failed}` says why")


async def _stop_on(signals: AsyncIterator[int], serving: Daemon, mind: CommandMind) -> None:
    """Stop at the first signal, and at the second one at once."""
    async for _ in signals:
        if serving.is_stopping:
            mind.hurry()
            serving.abandon()
        else:
            if serving.in_hand:
                note(f"wakeful daemon: {serving.in_hand} runs go on; a second signal ends them now")
            serving.stop()
