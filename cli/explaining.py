"""An explanation of a rule as a person reads it: sentences, then what they rest on (W-214)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from cli.output import Columns, field, print_items
from client.api import Json

_TIMES: Final[Columns] = {
    "UTC": field("at"),
    "LOCAL": field("local"),
    "OFFSET": field("utc_offset"),
    "DST": field("dst"),
}
_PENDING: Final[Columns] = {
    "PENDING": field("event_type"),
    "COUNT": field("count"),
    "SINCE": field("since"),
}
_RUN: Final[Columns] = {
    "WAITING RUN": field("id"),
    "STATUS": field("status"),
    "SINCE": field("created_at"),
}
_PROBLEMS: Final[Columns] = {"PROBLEM": field("code"), "WHAT": field("text")}
_FACTS: Final[Columns] = {
    "LAST FACTS": field("event_type"),
    "COUNT": field("count"),
    "AT": field("occurred_at"),
    "OUTCOME": field("outcome"),
    "RUN": field("task_id"),
    "STATUS": field("task_status"),
}
_IGNORED: Final[Columns] = {
    "IGNORED": field("reason"),
    "COUNT": field("count"),
    "LAST": field("last_at"),
    "EVENT": field("event_type"),
    "ACTOR": field("actor_type"),
    "ACTOR ID": field("actor_id"),
    "RUN": field("source_task_id"),
}
_GUARDS: Final[Columns] = {"GUARD": field("code"), "WHAT": field("text")}
_TABLES: Final[Mapping[str, Columns]] = {
    "problems": _PROBLEMS,
    "pending": _PENDING,
    "waiting_run": _RUN,
    "next_times": _TIMES,
    "last_facts": _FACTS,
    "ignored": _IGNORED,
    "guards": _GUARDS,
}


def print_explanation(explained: Json) -> None:
    """Print state and code, the sentences, and a table for each part that holds something."""
    click.echo(f"{explained['state']} ({explained['code']})")
    for sentence in explained["summary"]:
        click.echo(sentence)
    for name, columns in _TABLES.items():
        found: Any = explained[name] or []
        if items := found if isinstance(found, list) else [found]:
            click.echo()
            print_items(items, columns)
