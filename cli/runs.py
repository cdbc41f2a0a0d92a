"""`wakeful run`: list, show and stop runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from cli.connection import Failure, Found, calling, server_options
from cli.output import Format, field, output_option, print_json, print_page
from client import limits
from client.errors import ApiError

_ERROR_CHARS: Final = 60  # of an error in a table; `run show` has all of it
_RUNS: Final = {
    "RUN": field("id"),
    "STATUS": field("status"),
    "CREATED": field("created_at"),
    "WAKEUP": field("wakeup_id"),
    "SUMMARY": field("trigger_summary"),
    "ERROR": lambda run: textwrap.shorten(run["error"] or "", _ERROR_CHARS, placeholder=" ..."),
}


@click.group()
def run() -> None:
    """Look at runs and stop them."""


@run.command("list")
@click.argument("issue", metavar="ISSUE")
@click.option("--status", help="Only this status.")
@click.option("--limit", type=click.IntRange(1, limits.PAGE_MAX), default=50, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0)
@output_option
@server_options
def list_runs(
    found: Found, issue: str, output: Format, status: str | None, limit: int, offset: int
) -> None:
    """List the runs of an issue, newest first."""
    with calling(found) as api:
        page = api.runs(issue, status=status, limit=limit, offset=offset)
    print_page(page, output, _RUNS)


@run.command("show")
@click.argument("run", metavar="RUN")
@server_options
def show(found: Found, run: str) -> None:
    """Show a run."""
    with calling(found) as api, _known():
        print_json(api.run(run))


@run.command("cancel")
@click.argument("run", metavar="RUN")
@server_options
def cancel(found: Found, run: str) -> None:
    """Stop a run that has not ended."""
    with calling(found) as api, _known():
        print_json(api.cancel_run(run))


@contextmanager
def _known() -> Iterator[None]:
    """Say of a run that is not there, or of a text that names none: run not found."""
    try:
        yield
    except ApiError as error:
        if error.code == "not_found":
            raise Failure("run not found") from error
        raise
