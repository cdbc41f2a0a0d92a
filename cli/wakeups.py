"""`wakeful issue wakeup`: rules on an issue (W-197 to W-205)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO, TypeVar

import click

from cli.agents import agent_id_of
from cli.connection import Failure, Found, calling, server_options
from cli.durations import DURATION
from cli.events import events
from cli.explaining import print_explanation
from cli.keys import key_option
from cli.output import Format, field, note, output_option, print_items, print_json
from client.api import Json, Wakeful
from client.errors import ApiError

F = TypeVar("F", bound=Callable[..., Any])

_RULES: Final = {
    "ID": field("id"),
    "KIND": field("kind"),
    "MODE": field("mode"),
    "ENABLED": field("enabled"),
    "NEXT": field("next_fire_at"),
    "LAST RUN": field("last_task_id"),
}
_RUNS: Final = {
    "RUN": field("id"),
    "STATUS": field("status"),
    "CREATED": field("created_at"),
    "CHECK-IN": field("checkin_note"),
}
_PAUSED: Final = {
    "ISSUE": field("issue_id"),
    "ID": field("id"),
    "AGENT": field("agent_id"),
    "REASON": field("paused_reason"),
}
# Which kind the options for what a rule waits for belong to, where --kind does not say it.
_KIND_OF: Final = {
    "event_types": "event",
    "after_seconds": "at",
    "at": "at",
    "interval_seconds": "every",
    "cron_expression": "cron",
}


@click.group()
def wakeup() -> None:
    """Leave rules that wake an agent on an issue, and look after them."""


wakeup.add_command(events)


def _configuration(command: F) -> F:
    """Give a command the options of a complete configuration (W-199)."""
    for option in reversed(
        (
            click.option("--agent-id", help="Whom it wakes; in a run, the agent itself."),
            click.option("--instruction", help="What the agent is to do when it is woken."),
            click.option("--instruction-file", type=click.File(encoding="utf-8")),
            click.option(
                "--kind",
                type=click.Choice(["event", "at", "every", "cron"]),
                help="What it waits for.  [default: what the schedule says, else event]",
            ),
            click.option("--mode", type=click.Choice(["once", "continuous"])),
            click.option("--event", "event_types", help="Event types, separated by commas."),
            click.option("--filter-actor-type", help="member or agent: who made the change."),
            click.option("--filter-actor-id", help="The id of that user or agent."),
            click.option("--filter-agent-id", help="The agent whose run it is."),
            click.option("--task-id", "filter_task_id", help="Only this run."),
            click.option(
                "--parent", "parent_comment_id", help="The comment in whose thread to answer."
            ),
            click.option("--after", "after_seconds", type=DURATION, help="Once, so long from now."),
            click.option("--at", help="Once, at this time: RFC 3339 with an offset."),
            click.option("--every", "interval_seconds", type=DURATION, help="Again and again."),
            click.option("--cron", "cron_expression", help="Five fields, in --timezone."),
            click.option("--timezone", default="UTC", show_default=True),
        )
    ):
        command = option(command)
    return command


@wakeup.command("create")
@click.argument("issue", metavar="ISSUE")
@_configuration
@key_option
@server_options
def create(found: Found, issue: str, idempotency_key: str | None, **options: Any) -> None:
    """Save a new rule.

    A watched run that is busy is tried once more after 250 ms; nothing else is repeated, since a
    call without an answer may have saved the rule.
    """
    body = _body(found, **options)
    with calling(found) as api:
        _name_agent(api, body)
        print_json(api.create_wakeup(issue, body, idempotency_key=idempotency_key))


@wakeup.command("update")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@_configuration
@server_options
def update(found: Found, issue: str, wakeup: str, **options: Any) -> None:
    """Replace the whole configuration of a rule, which also enables it."""
    body = _body(found, **options)
    with calling(found) as api, _known():
        _name_agent(api, body)
        print_json(api.replace_wakeup(issue, wakeup, body))


@wakeup.command("preview")
@click.argument("issue", metavar="ISSUE")
@_configuration
@click.option("--from", "start", help="Where the times begin, else now: RFC 3339 with an offset.")
@click.option("--wakeup", "wakeup_id", help="The rule that would be replaced.")
@server_options
def preview(
    found: Found, issue: str, start: str | None, wakeup_id: str | None, **options: Any
) -> None:
    """Show what would become of a rule, and save nothing."""
    body = _body(found, **options)
    with calling(found) as api, _known():
        _name_agent(api, body)
        print_json(api.preview_wakeup(issue, body, {"from": start, "wakeup_id": wakeup_id}))


@wakeup.command("explain")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@click.option(
    "--output",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    show_default=True,
    help="How to print the explanation.",
)
@server_options
def explain(found: Found, issue: str, wakeup: str, output: str) -> None:
    """Say why a rule did not fire, and what it will do."""
    with calling(found) as api, _known():
        explained = api.explain_wakeup(issue, wakeup)
    if output == "json":
        print_json(explained)
    else:
        print_explanation(explained)


@wakeup.command("list")
@click.argument("issue", metavar="ISSUE")
@output_option
@server_options
def list_rules(found: Found, issue: str, output: Format) -> None:
    """List the rules of an issue."""
    with calling(found) as api:
        rules = api.wakeups(issue)
    if output is Format.JSON:
        print_json(rules)
    else:
        print_items(rules, _RULES)


@wakeup.command("get")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@output_option
@server_options
def get(found: Found, issue: str, wakeup: str, output: Format) -> None:
    """Show one rule."""
    with calling(found) as api, _known():
        _print_rule(api.wakeup(issue, wakeup), output)


@wakeup.command("runs")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@output_option
@server_options
def runs(found: Found, issue: str, wakeup: str, output: Format) -> None:
    """List the latest runs of a rule."""
    with calling(found) as api, _known():
        latest = api.wakeup_runs(issue, wakeup)
    if output is Format.JSON:
        print_json(latest)
    else:
        print_items(latest, _RUNS)


@wakeup.command("paused")
@output_option
@server_options
def paused(found: Found, output: Format) -> None:
    """List the rules that were stopped from running away, on open issues."""
    with calling(found) as api:
        rules = api.paused_wakeups()
    if output is Format.JSON:
        print_json(rules)
    else:
        print_items(rules, _PAUSED)


@wakeup.command("trigger")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@key_option
@server_options
def trigger(found: Found, issue: str, wakeup: str, idempotency_key: str | None) -> None:
    """Wake the agent now."""
    with calling(found) as api, _known():
        api.trigger_wakeup(issue, wakeup, idempotency_key=idempotency_key)
    print_json({"id": wakeup, "triggered": True})


@wakeup.command("enable")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@click.option("--rearm", is_flag=True, help="Let a rule that has fired once fire again.")
@click.option("--at", help="The new time of a rule of kind at: RFC 3339 with an offset.")
@click.option("--after", "after_seconds", type=DURATION, help="The same, so long from now.")
@output_option
@server_options
def enable(
    found: Found,
    *,
    issue: str,
    wakeup: str,
    rearm: bool,
    at: str | None,
    after_seconds: int | None,
    output: Format,
) -> None:
    """Switch a rule on again as it is stored."""
    if at is not None and after_seconds is not None:
        raise Failure("give --at or --after, not both")
    with calling(found) as api, _known():
        rule = api.wakeup(issue, wakeup)
        body: Json = {"revision": rule["revision"]}
        if rearm:
            body["rearm"] = True
        if after_seconds is not None:
            at = _time_after(api, rule, after_seconds)
        if at is not None:
            body["at"] = at
        _print_rule(api.enable_wakeup(issue, wakeup, body), output)


@wakeup.command("disable")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@output_option
@server_options
def disable(found: Found, issue: str, wakeup: str, output: Format) -> None:
    """Switch a rule off."""
    with calling(found) as api, _known():
        _print_rule(api.disable_wakeup(issue, wakeup), output)


@wakeup.command("checkin")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@click.option("--note", "text", required=True, help="What was looked at, in 1 to 500 characters.")
@server_options
def check_in(found: Found, issue: str, wakeup: str, text: str) -> None:
    """Say, as a scheduled check in its run, that there is nothing to report."""
    with calling(found) as api, _known():
        api.check_in(issue, wakeup, text)
    note("checked in")


@wakeup.command("delete")
@click.argument("issue", metavar="ISSUE")
@click.argument("wakeup", metavar="WAKEUP")
@server_options
def delete(found: Found, issue: str, wakeup: str) -> None:
    """Remove a rule; its finished runs stay."""
    with calling(found) as api, _known():
        api.delete_wakeup(issue, wakeup)
    print_json({"id": wakeup, "deleted": True})


def _body(
    found: Found,
    *,
    agent_id: str | None,
    instruction: str | None,
    instruction_file: TextIO | None,
    event_types: str | None,
    **rest: Any,
) -> Json:
    """Return the configuration that the options describe; nothing is sent yet.

    It always has `instruction`, `timezone` and `kind`, the rest only where given. Raises `Failure`
    for an instruction, an agent or something to wait for that is missing or ambiguous.
    """
    if (instruction is None) == (instruction_file is None):
        raise Failure("give --instruction or --instruction-file, one of the two")
    if agent_id is None and not found.is_in_run:
        raise Failure(
            "whom shall it wake? Pass --agent-id with an agent's name or id; only an agent in a"
            " run may leave it out and means itself"
        )
    body = {name: value for name, value in rest.items() if value is not None}
    body["instruction"] = instruction or (instruction_file.read() if instruction_file else "")
    if agent_id is not None:
        body["agent_id"] = agent_id
    if event_types is not None:
        names = (name.strip() for name in event_types.split(","))
        body["event_types"] = [name for name in names if name]
    kinds = [kind for name, kind in _KIND_OF.items() if name in body]
    if len(kinds) != 1:
        raise Failure("give one of --event, --after, --at, --every, --cron")
    body.setdefault("kind", kinds[0])
    return body


def _print_rule(rule: Json, output: Format) -> None:
    if output is Format.JSON:
        print_json(rule)
    else:
        print_items([rule], _RULES)


def _time_after(api: Wakeful, rule: Json, seconds: int) -> str:
    """Return the time so long from now, by the server's clock: this machine's may be wrong."""
    draft = {
        "kind": "at",
        "after_seconds": seconds,
        "agent_id": rule["agent_id"],
        "instruction": rule["instruction"],
    }
    query = {"wakeup_id": rule["id"]}
    (planned,) = api.preview_wakeup(rule["issue_id"], draft, query)["next_times"]
    at: str = planned["at"]
    return at


def _name_agent(api: Wakeful, body: Json) -> None:
    """Put the agent's id in place of its name."""
    if "agent_id" in body:
        body["agent_id"] = agent_id_of(api, body["agent_id"])


@contextmanager
def _known() -> Iterator[None]:
    """Say of a rule that is not there: wakeup not found (W-203)."""
    try:
        yield
    except ApiError as error:
        if error.code == "not_found" and not error.message.startswith("issue"):
            raise Failure("wakeup not found") from error
        raise
