"""`--issue` and `--comment`: what a reaction or a file goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli.connection import Failure

F = TypeVar("F", bound=Callable[..., Any])


def target_options(command: F) -> F:
    """Give a command the two options; it receives `issue` and `comment`."""
    command = click.option("--comment", metavar="COMMENT", help="The id of the comment.")(command)
    return click.option("--issue", metavar="ISSUE", help="The issue.")(command)


def only_one(issue: str | None, comment: str | None) -> None:
    """Raise `Failure` where both are named."""
    if issue is not None and comment is not None:
        raise Failure("name either an issue or a comment")
