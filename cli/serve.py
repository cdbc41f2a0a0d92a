"""`wakeful serve`: engine, database and HTTP API in one process (api.md, Starting it)."""

from __future__ import annotations

import errno
import re
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import structlog
import trio

from cli.connection import CREDENTIALS, Failure
from cli.credentials import update_url, write_credentials, write_whole
from cli.logs import log_to_stderr
from engine.app import Engine
from engine.errors import WakefulError
from engine.settings import SettingError, Settings, load
from web.app import serve as serve_http
from web.listening import address, listening

_log = structlog.get_logger(__name__)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_UNIX: Final = "unix:"
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - seen, not chosen
_PLACE: Final = re.compile(r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?", re.ASCII)
_DATABASE_PORT: Final = 5432
_PATH: Final = click.Path(path_type=Path)


@click.command()
@click.option("--host", help="The address to serve on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port; 0 takes a free one.  [default: 8765]")
@click.option("--metrics-port", type=int, help="Serve /metrics on this port, to everybody.")
@click.option("--socket", type=_PATH, help="Serve on this Unix socket instead.")
@click.option("--data-dir", type=_PATH, help="Where everything is kept.  [default: data]")
@click.option("--database-url", help="A PostgreSQL of your own instead of the embedded one.")
@click.option("--ready-file", type=_PATH, help="Gets the URL once the server is ready.")
@click.option("--config", type=_PATH, help="A TOML file with settings.")
def serve(config: Path | None, **arguments: Any) -> None:
    """Start a server; Ctrl-C or SIGTERM drains and stops it.

    The first start makes a workspace, its owner, and DATA_DIR/credentials.json for the other
    commands on this machine. Settings come from the options, then WAKEFUL_* of the environment,
    then the file. The line `ready URL` says that it serves.
    """
    log_to_stderr()
    outer = click.get_current_context().find_root().params
    arguments["data_dir"] = arguments["data_dir"] or outer.get("data_dir")
    try:
        settings = load(arguments, file=config)
    except SettingError as error:
        raise Failure(str(error)) from error
    try:
        with _listening(settings) as (listener, scrapes):
            trio.run(_serve, settings, listener, scrapes)
    except (WakefulError, OSError, ExceptionGroup) as error:
        raise Failure(_reason(error, settings)) from error


@contextmanager
def _listening(settings: Settings) -> Iterator[tuple[socket.socket, socket.socket | None]]:
    """Take the addresses before anything is started or written. Raises `Failure`."""
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(listening(settings.host, settings.port, settings.socket))
        except OSError as error:
            raise Failure(_taken(settings, error)) from error
        scrapes, port = None, settings.metrics_port
        try:
            if port is not None:
                scrapes = stack.enter_context(listening(settings.host, port, None))
        except OSError as error:
            why = f"cannot serve metrics on {_place(settings.host, port)}: {error.strerror}"
            raise Failure(f"{why}; choose another with --metrics-port") from error
        yield listener, scrapes


async def _serve(
    settings: Settings, listener: socket.socket, scrapes: socket.socket | None
) -> None:
    """Serve until a signal comes; one that comes during the start is obeyed right after it."""
    _prepare(settings)
    shutdown = trio.Event()
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as watch:
            watch.start_soon(_stop_on, signals, shutdown)
            async with Engine.open(settings) as engine:
                url = _reachable(address(listener))
                await _bootstrap(engine, settings, url)
                async with trio.open_nursery() as server:
                    serving = partial(
                        serve_http, engine, listener, shutdown=shutdown, scrapes=scrapes
                    )
                    await server.start(serving)
                    _announce(settings, url)
            watch.cancel_scope.cancel()
    if settings.ready_file is not None:
        settings.ready_file.unlink(missing_ok=True)
    _log.info("server_stopped")


def _prepare(settings: Settings) -> None:
    """Make the data directory, and take back what an earlier start said about being ready."""
    if settings.data_dir.exists() and not settings.data_dir.is_dir():
        raise Failure(f"cannot serve: {settings.data_dir} is not a directory")
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    if settings.ready_file is not None:
        settings.ready_file.unlink(missing_ok=True)


async def _bootstrap(engine: Engine, settings: Settings, url: str) -> None:
    """Keep the credentials of a first start at once: nobody can tell them a second time."""
    made = await engine.bootstrap()
    if made is None:
        return
    write_credentials(
        settings.data_dir,
        {
            "url": url,
            "workspace": made.workspace,
            "member_token": made.member_token,
            "daemon_token": made.daemon_token,
        },
    )
    _log.info("workspace_made", workspace=made.workspace)


def _announce(settings: Settings, url: str) -> None:
    """Tell everybody who waits for it where the server is."""
    if not update_url(settings.data_dir, url):
        _log.warning("credentials_missing", path=str(settings.data_dir / CREDENTIALS))
    if settings.ready_file is not None:
        write_whole(settings.ready_file, f"{url}\n")
    click.echo(f"ready {url}")


def _reachable(where: str) -> str:
    """Return an address for clients on this machine, whatever folder they are in."""
    if where.startswith(_UNIX):
        return f"{_UNIX}{Path(where.removeprefix(_UNIX)).absolute()}"
    for any_address, loopback in _ANY_ADDRESS.items():
        where = where.replace(f"//{any_address}:", f"//{loopback}:")
    return where


async def _stop_on(signals: AsyncIterator[int], shutdown: trio.Event) -> None:
    async for number in signals:
        _log.info("server_stopping", signal=signal.Signals(number).name)
        shutdown.set()


def _taken(settings: Settings, error: OSError) -> str:
    """Say which address cannot be had, why, and which option names another."""
    why = error.strerror or error
    if settings.socket is not None:
        return f"cannot serve on {settings.socket}: {why}; choose another with --socket"
    option = "--host" if isinstance(error, socket.gaierror) else "--port"
    place = _place(settings.host, settings.port)
    return f"cannot serve on {place}: {why}; choose another with {option}"


def _place(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def database_place(url: str) -> str | None:
    """Return host and port of a database URL, None where they cannot be told from a password.

    A password may hold any character, and a URL with one that should have been escaped has parts
    of it in unexpected places: only what can be nothing but a host and a port is returned.
    """
    _, _, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    place = authority.rpartition("@")[2]
    if "@" in rest[len(authority) :] or not _PLACE.fullmatch(place):
        return None
    return place if place.rpartition("]")[2].count(":") else f"{place}:{_DATABASE_PORT}"


def _reason(error: BaseException, settings: Settings) -> str:
    """Return in one line why the server does not run; a defect is raised on as it is."""
    causes = list(_causes(error))
    for cause in causes:
        if not isinstance(cause, WakefulError | OSError):
            raise error
    first = causes[0]
    if isinstance(first, OSError) and first.errno == errno.EADDRINUSE:
        return _taken(settings, first)  # another process began to listen there at the same time
    if not isinstance(first, WakefulError):
        return f"cannot serve: {first}"
    url = settings.database_url
    place = database_place(url) if url and first.code == "database_unavailable" else None
    where = f"database at {place}: " if place else ""
    return f"{where}{first.message} ({first.code})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error
