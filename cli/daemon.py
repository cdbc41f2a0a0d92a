"""`wakeful daemon`: carries out an agent's runs with a command (api.md, Starting it)."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sysconfig
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Final

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


@click.command()
@click.option("--agent", required=True, help="The name of the agent; it is made if there is none.")
@click.option("--exec", "command", required=True, help="The shell command that gets each prompt.")
@click.option("--once", is_flag=True, help="End after one run, with 1 if it failed.")
@click.option("--daemon-id", help="The name of this daemon.  [default: from host and agent]")
@click.option(
    "--max-concurrent",
    type=click.IntRange(1, limits.CONCURRENT_RUNS_MAX),
    default=1,
    show_default=True,
    help="How many runs at a time, each of another issue.",
)
@server_options
def daemon(
    found: Found,
    *,
    agent: str,
    command: str,
    once: bool,
    daemon_id: str | None,
    max_concurrent: int,
) -> None:
    """Claim an agent's runs and hand each prompt to a command.

    The command reads the prompt on standard input and acts as the agent: WAKEFUL_TOKEN is the
    credential of the run, and WAKEFUL_URL and WAKEFUL_ISSUE say where. What it prints on standard
    output becomes the run's output; another exit code than 0 is a failure. When the run is
    cancelled, or the daemon stopped, the command and what it started get SIGTERM, then SIGKILL.
    """
    log_to_stderr()
    host = platform.node() or "localhost"
    daemon_id = daemon_id or f"{host}/{agent}"
    with calling(found) as api:
        serving = _find_agent(api, agent)
        server = _daemon_server(found, api, daemon_id)
        runtime = trio.run(_register, server, daemon_id, f"{host}/{agent}", host)
        _bind(api, serving, runtime)
    mind = CommandMind(command, _environment(found))
    ready = f"wakeful daemon: {daemon_id} serves {agent}"
    trio.run(_serve, server, daemon_id, runtime, mind, max_concurrent, once, ready)


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


async def _register(server: Server, daemon_id: str, runtime_name: str, host: str) -> str:
    async with AsyncConnection(server) as connection:
        return await DaemonApi(connection, daemon_id).register(
            runtime_name=runtime_name,
            provider=_PROVIDER,
            device_name=host,
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


async def _serve(
    server: Server,
    daemon_id: str,
    runtime_id: str,
    mind: CommandMind,
    max_concurrent: int,
    once: bool,  # noqa: FBT001 - trio.run passes arguments by position
    ready: str,
) -> None:
    """Carry out runs until a signal comes; says `ready` once a signal would be obeyed.

    Raises the `ApiError` that ends the daemon, and `Failure` when the only run has failed.
    """
    async with AsyncConnection(server) as connection:
        serving = Daemon(
            DaemonApi(connection, daemon_id), runtime_id, mind, max_concurrent=max_concurrent
        )
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_on, signals, serving)
                note(ready)
                refusal = None
                try:
                    await serving.run(once=once)
                except ApiError as error:
                    refusal = error
                nursery.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    if once and serving.failed_run is not None:
        failed = serving.failed_run
        raise Failure(f"the run failed: `wakeful run show {failed}` says why")


async def _stop_on(signals: AsyncIterator[int], serving: Daemon) -> None:
    async for _ in signals:
        serving.stop()
