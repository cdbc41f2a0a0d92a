"""`wakeful run`: list, show, stop and repeat runs."""

from __future__ import annotations

import textwrap
from typing import Final

import click

from cli.connection import Found, calling, known, server_options
from cli.output import Format, field, output_option, page_options, print_json, print_page

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
    """Look at runs, stop and repeat them."""


@run.command("list")
@click.argument("issue", metavar="ISSUE")
@click.option("--status", help="Only this status.")
@page_options
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
    with calling(found) as api, known("run"):
        print_json(api.run(run))


@run.command("cancel")
@click.argument("run", metavar="RUN")
@server_options
def cancel(found: Found, run: str) -> None:
    """Stop a run that has not ended."""
    with calling(found) as api, known("run"):
        print_json(api.cancel_run(run))


@run.command("rerun")
@click.argument("run", metavar="RUN")
@server_options
def rerun(found: Found, run: str) -> None:
    """Run once more what has ended, with your authority; cancels what waits in its scope."""
    with calling(found) as api:
        with known("run"):
            issue = api.run(run)["issue_id"]
        print_json(api.rerun(issue, run))


@click.command("rerun")
@click.argument("issue", metavar="ISSUE")
@server_options
def rerun_issue(found: Found, issue: str) -> None:
    """Run once more what ended last on an issue, with your authority."""
    with calling(found) as api:
        print_json(api.rerun(issue))
