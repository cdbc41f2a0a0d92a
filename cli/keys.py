"""`--idempotency-key`: a command that may be repeated without being carried out twice (W-033)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_KEY: Final = re.compile(r"[!-~]{1,255}")


def key_option(command: F) -> F:
    """Give a command the option; it receives `idempotency_key`, a text or None."""
    option = click.option(
        "--idempotency-key",
        metavar="KEY",
        callback=_checked,
        help="Any text of your own: within 24 hours the command takes effect once for each key.",
    )
    return option(command)


def _checked(_context: click.Context, _option: click.Parameter, key: str | None) -> str | None:
    """Refuse what cannot stand in a header, before any request."""
    if key is not None and not _KEY.fullmatch(key):
        raise click.BadParameter("a key has 1 to 255 printable ASCII characters and no blanks")
    return key
