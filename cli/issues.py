"""`wakeful issue`: make, list, show and change issues, and comment on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

import click

from cli.agents import agent_id_of
from cli.catalogues import entry_id_of
from cli.comments import text_of
from cli.connection import Failure, Found, calling, server_options
from cli.keys import key_option
from cli.metadata import metadata
from cli.output import Format, field, output_option, page_options, print_json, print_page
from cli.runs import rerun_issue
from cli.wakeups import wakeup
from client.api import Json, Wakeful

_ISSUES: Final = {
    "ISSUE": field("identifier"),
    "STATUS": field("status"),
    "PRIORITY": field("priority"),
    "TITLE": field("title"),
}


@click.group()
def issue() -> None:
    """Work with issues; ISSUE is an identifier such as WF-12 or an id."""


issue.add_command(wakeup)
issue.add_command(rerun_issue)
issue.add_command(metadata)


@issue.command("create")
@click.argument("title")
@click.option("--description", help="What it is about.")
@click.option("--status", help="A status key.  [default: todo]")
@click.option("--priority", help="urgent, high, medium, low or none.")
@click.option("--agent", "assignee", help="Assign it to this agent (name or id), which runs it.")
@click.option("--parent", "parent_id", help="The id of the issue that it is part of.")
@click.option("--project", help="The project (name or id) that it is in.")
@click.option("--quiet", "-q", is_flag=True, help="Print its identifier alone.")
@key_option
@server_options
def create(
    found: Found,
    *,
    title: str,
    assignee: str | None,
    project: str | None,
    quiet: bool,
    idempotency_key: str | None,
    **fields: str | None,
) -> None:
    """Make an issue; assigned to an agent, the agent gets a run."""
    with calling(found) as api:
        body = {**_given(fields), **_assigned(api, assignee), **_placed(api, project)}
        made = api.create_issue(title, idempotency_key=idempotency_key, **body)
    if quiet:
        click.echo(made["identifier"])
    else:
        print_json(made)


@issue.command("list")
@click.option("--status", help="Only this status.")
@click.option("--category", help="backlog, todo, in_progress, done or closed.")
@click.option("--agent", "assignee", help="Only what is assigned to this agent (name or id).")
@click.option("--search", help="Only issues that contain this text.")
@click.option("--project", help="Only what is in this project (name or id).")
@click.option("--label", help="Only what has this label (name or id).")
@page_options
@output_option
@server_options
def list_issues(
    found: Found,
    *,
    output: Format,
    assignee: str | None,
    project: str | None,
    label: str | None,
    **query: Any,
) -> None:
    """List issues, newest first."""
    with calling(found) as api:
        page = api.issues(
            assignee=_assigned(api, assignee).get("assignee_id"),
            project=None if project is None else entry_id_of(api, "projects", project),
            label=None if label is None else entry_id_of(api, "labels", label),
            **query,
        )
    print_page(page, output, _ISSUES)


@issue.command("show")
@click.argument("issue", metavar="ISSUE")
@output_option
@server_options
def show(found: Found, issue: str, output: Format) -> None:
    """Show an issue with its newest comments, oldest first."""
    with calling(found) as api:
        item, comments = api.issue(issue), api.latest_comments(issue)
        is_table = output is Format.TABLE
        names = _author_names(api, comments["items"]) if is_table else {}
        failed = api.runs(issue, status="failed", limit=1)["total"] if is_table else 0
    if not is_table:
        counted = {"comments": comments["items"], "comments_total": comments["total"]}
        print_json(item | counted)
        return
    click.echo(f"{item['identifier']}  {item['title']}  ({item['status']})")
    if failed:
        click.echo(f"failed runs: {failed} (wakeful run list {item['identifier']} --output table)")
    if item["description"]:
        click.echo(f"\n{item['description']}")
    for comment in comments["items"]:
        author = _author(comment, names)
        click.echo(f"\n{author}, {comment['created_at']}:\n{comment['body']}")


@issue.command("update")
@click.argument("issue", metavar="ISSUE")
@click.option("--title", help="The new title.")
@click.option("--description", help="The new description.")
@click.option("--status", help="The new status.")
@click.option("--priority", help="The new priority.")
@click.option("--agent", "assignee", help="Assign it to this agent (name or id).")
@click.option("--project", help="Put it into this project (name or id).")
@server_options
def update(
    found: Found, issue: str, assignee: str | None, project: str | None, **fields: str | None
) -> None:
    """Change an issue; what is not given stays as it is."""
    with calling(found) as api:
        changes = {**_given(fields), **_assigned(api, assignee), **_placed(api, project)}
        if not changes:
            raise Failure("nothing to change: give at least one option")
        print_json(api.update_issue(issue, changes))


@issue.command("comment")
@click.argument("issue", metavar="ISSUE")
@click.argument("body", required=False)
@click.option("--body-file", type=click.File(encoding="utf-8"), help="Take the text from a file.")
@click.option("--parent", "parent_id", help="The comment to answer.")
@key_option
@server_options
def comment(
    found: Found, issue: str, body: str | None, body_file: TextIO | None, **more: str | None
) -> None:
    """Comment on an issue with BODY, or with what stands on standard input."""
    text = text_of(body, body_file)
    with calling(found) as api:
        print_json(api.comment(issue, text, **more))


def _author_names(api: Wakeful, comments: Iterable[Json]) -> dict[str, str]:
    """Return the names of those who wrote comments, by id; lists only the sorts that are there."""
    sorts = {comment["author_type"] for comment in comments}
    names: dict[str, str] = {}
    if "member" in sorts:
        names |= {member["user_id"]: member["name"] for member in api.members()}
    if "agent" in sorts:
        names |= {agent["id"]: agent["name"] for agent in api.agents()}
    return names


def _author(comment: Json, names: Mapping[str, str]) -> str:
    """Return who wrote a comment: a name, unless its bearer has left or is hidden, and the sort."""
    sort: str = comment["author_type"]
    name = names.get(comment["author_id"])
    return sort if name is None else f"{name} ({sort})"


def _given(fields: dict[str, str | None]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _assigned(api: Wakeful, agent: str | None) -> Json:
    if agent is None:
        return {}
    return {"assignee_type": "agent", "assignee_id": agent_id_of(api, agent)}


def _placed(api: Wakeful, project: str | None) -> Json:
    return {} if project is None else {"project_id": entry_id_of(api, "projects", project)}
