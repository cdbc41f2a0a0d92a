"""Finds the server of a command: options, environment, config file, data directory.

Each of `url`, `token` and `workspace` is looked for on its own, in that order (api.md, Starting
it); saved workspace and daemon token go with the saved member token only. The data directory is
that of `--data-dir`, else `WAKEFUL_DATA_DIR`, else `./data`; its `credentials.json` is what
`wakeful serve` wrote at its first start.
"""

from __future__ import annotations

import functools
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

from client.api import Wakeful
from client.connection import Connection, Server
from client.errors import ApiError

T = TypeVar("T")

CREDENTIALS: Final = "credentials.json"
RUN_TOKEN: Final = "wkr_"  # noqa: S105 - the prefix tells the kind (api.md, credentials)
_OPTIONS: Final = ("url", "token", "workspace", "data_dir")
_CONFIG_KEYS: Final = ("url", "token", "daemon_token", "workspace", "data_dir")


class Failure(click.ClickException):
    """Ends a command with a message on standard error and exit code 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the message alone."""
        click.echo(self.message, file=file, err=file is None)


@attrs.frozen(kw_only=True)
class Found:
    """What a command was given and what lies around; nothing is complete or checked yet."""

    options: Mapping[str, str]
    environment: Mapping[str, str]
    config: Mapping[str, str]
    credentials: Mapping[str, str]

    def given(self, name: str) -> str | None:
        """Return what option, environment or config file say, in this order."""
        return (
            self.options.get(name)
            or self.environment.get(f"WAKEFUL_{name.upper()}")
            or self.config.get(name)
        )

    @property
    def token(self) -> str | None:
        """The credential of the caller."""
        return self.given("token") or self.credentials.get("member_token")

    @property
    def workspace(self) -> str | None:
        """The workspace, where one is named."""
        return self.given("workspace") or self._saved("workspace")

    @property
    def daemon_token(self) -> str | None:
        """The credential of daemons."""
        return self.given("daemon_token") or self._saved("daemon_token")

    def _saved(self, name: str) -> str | None:
        """Return what was saved beside the caller's token; it means nothing beside another one."""
        if self.credentials.get("member_token") != self.token:
            return None
        return self.credentials.get(name)

    @property
    def url(self) -> str:
        """Where the server is."""
        return _required("url", self.given("url") or self.credentials.get("url"))

    @property
    def is_in_run(self) -> bool:
        """Tell whether the caller is an agent in a run (W-201)."""
        return (self.token or "").startswith(RUN_TOKEN)

    def server(self) -> Server:
        """Return the server as the caller; raises `Failure` with what is missing."""
        return Server(url=self.url, token=_required("token", self.token), workspace=self.workspace)


def _required(name: str, value: str | None) -> str:
    if value is None:
        raise Failure(
            f"no {name}: pass --{name} or set WAKEFUL_{name.upper()}; where `wakeful serve` keeps"
            " its data on this machine, --data-dir is enough"
        )
    return value


def find(options: Mapping[str, str], environment: Mapping[str, str]) -> Found:
    """Read what there is. Raises `Failure` for a file that cannot be understood."""
    config = _read_config(environment)
    found = Found(options=options, environment=environment, config=config, credentials={})
    folder = Path(found.given("data_dir") or "data")
    return attrs.evolve(found, credentials=_read_credentials(folder / CREDENTIALS))


def server_options(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command `--url`, `--token`, `--workspace` and `--data-dir`; it receives a `Found`.

    The same options in front of the subcommand work too; those behind it win.
    """

    @functools.wraps(command)
    def connected(**arguments: Any) -> T:
        outer = click.get_current_context().find_root().params
        own = {name: arguments.pop(name) for name in _OPTIONS}
        options = {name: own[name] or outer.get(name) for name in _OPTIONS}
        given = {name: value for name, value in options.items() if value is not None}
        return command(find(given, os.environ), **arguments)

    return location_options(connected)


def location_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options alone; a value that is not given is None."""
    for name, text in (
        ("--data-dir", "Where the server keeps its data, if it is on this machine."),
        ("--workspace", "The workspace, by id or slug."),
        ("--token", "Who calls."),
        ("--url", "Where the server is."),
    ):
        command = click.option(name, metavar="TEXT", help=text)(command)
    return command


@contextmanager
def calling(found: Found) -> Iterator[Wakeful]:
    """Open the API as the caller."""
    with Connection(found.server()) as connection:
        yield Wakeful(connection)


@contextmanager
def known(what: str) -> Iterator[None]:
    """Say of something that is not there, or of a text that names none: WHAT not found."""
    try:
        yield
    except ApiError as error:
        if error.code == "not_found":
            raise Failure(f"{what} not found") from error
        raise


def _read_config(environment: Mapping[str, str]) -> Mapping[str, str]:
    named = environment.get("WAKEFUL_CONFIG")
    home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '')}/.config"
    path = Path(named or f"{home}/wakeful/config.toml")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if named:
            raise Failure(f"WAKEFUL_CONFIG names {path}, which does not exist") from None
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {error}") from None
    if unknown := sorted(values.keys() - set(_CONFIG_KEYS)):
        known = ", ".join(_CONFIG_KEYS)
        raise Failure(f"{path}: unknown key {unknown[0]}; known are {known}")
    return _texts(path, values)


def _read_credentials(path: Path) -> Mapping[str, str]:
    """Read the file that belongs to whoever started the server; for others it is not there."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {error}") from None
    return _texts(path, values)


def _texts(path: Path, values: Any) -> Mapping[str, str]:
    if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
        raise Failure(f"{path} holds something other than texts")
    return values
