"""The timeline of one issue as it happens: what an issue's rules, comments and runs say of it.

Times are the server's, relative to the issue's creation; nothing here reads a clock.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import attrs

from client.api import Json, Wakeful

_TEXT_CHARS_MAX: Final = 100
_TIMES_OF_RUN: Final = ("created_at", "started_at", "completed_at")


@attrs.frozen(kw_only=True)
class Entry:
    """Something that happened; `key` tells it from everything else."""

    at: datetime
    key: tuple[str, str]
    who: str
    text: str


@attrs.frozen(kw_only=True)
class State:
    """What the server says of an issue: rules and comments in order, runs oldest first."""

    issue: Json
    rules: tuple[Json, ...]
    comments: tuple[Json, ...]
    runs: tuple[Json, ...]

    def runs_of(self, rule: Json) -> tuple[Json, ...]:
        """Return the runs that a rule started."""
        return tuple(run for run in self.runs if run["wakeup_id"] == rule["id"])


def look(api: Wakeful, issue: Json) -> State:
    """Ask the server for the state of an issue."""
    runs = api.runs(issue["id"], limit=100)["items"]
    return State(
        issue=issue,
        rules=tuple(api.wakeups(issue["id"])),
        comments=tuple(api.latest_comments(issue["id"])["items"]),
        runs=tuple(sorted(runs, key=lambda run: (instant(run["created_at"]), run["id"]))),
    )


class Timeline:
    """Turns one look after the other into lines, each once and in the order of their times."""

    def __init__(self, issue: Json, names: dict[str, str]) -> None:
        self._start = instant(issue["created_at"])
        self._names = names
        self._seen: set[tuple[str, str]] = set()
        self._waiting: list[Entry] = []

    def lines(self, state: State, *, is_last: bool = False) -> Iterator[str]:
        """Yield what is new, up to the newest entry of the look before.

        What is newer waits for the next look, because a look takes several calls: something older
        may have happened after the first of them. With `is_last` nothing waits.
        """
        horizon = max((entry.at for entry in self._waiting), default=None)
        for entry in self._entries(state):
            if entry.key not in self._seen:
                self._seen.add(entry.key)
                self._waiting.append(entry)
        self._waiting.sort(key=lambda entry: entry.at)
        ready = [
            entry
            for entry in self._waiting
            if is_last or (horizon is not None and entry.at <= horizon)
        ]
        del self._waiting[: len(ready)]
        for entry in ready:
            seconds = (entry.at - self._start).total_seconds()
            yield f"{seconds:7.3f} s  {entry.who:<8}  {entry.text}"

    def _entries(self, state: State) -> Iterator[Entry]:
        issue = state.issue
        yield Entry(
            at=self._start,
            key=("issue", issue["id"]),
            who="person",
            text=f"makes {issue['identifier']} and assigns it to {self._name(issue)}",
        )
        for rule in state.rules:
            text = f"leaves a rule: {self._waits_for(rule)}"
            yield _entry(rule, "created_at", who="agent", text=text)
        for comment in state.comments:
            who = "person" if comment["author_type"] == "member" else "agent"
            yield _entry(comment, "created_at", who=who, text=f"says: {_line(comment['body'])}")
        for number, run in enumerate(state.runs, start=1):
            yield from self._entries_of_run(f"run {number}", run)

    def _entries_of_run(self, who: str, run: Json) -> Iterator[Entry]:
        for name in _TIMES_OF_RUN:
            if run[name] is None:
                continue
            match name:
                case "created_at":
                    text = f"queued{self._cause(run)}"
                case "started_at":
                    text = "started"
                case _:
                    text = run["status"]
            yield _entry(run, name, who=who, text=text)

    def _name(self, issue: Json) -> str:
        return self._names.get(issue["assignee_id"], "somebody")

    def _waits_for(self, rule: Json) -> str:
        if rule["kind"] == "event":
            actor = " by a person" if rule["filter_actor_type"] == "member" else ""
            return f"{', '.join(rule['event_types'])}{actor}"
        seconds = (instant(rule["next_fire_at"]) - instant(rule["created_at"])).total_seconds()
        return f"once, {seconds:g} seconds from now"

    def _cause(self, run: Json) -> str:
        caused = latency(run)
        if caused is None:
            return ""
        event_type, seconds = caused
        return f": woken by {event_type}, {1000 * seconds:.1f} ms after it"


def latency(run: Json) -> tuple[str, float] | None:
    """Return what woke a run, and the seconds from that fact until the run was queued.

    The instant of a timer's fact is the planned one. None for a run that no rule started.
    """
    facts = run["context"].get("wakeup_evidence", {}).get("facts", [])
    if not facts:
        return None
    event_type, payload = facts[-1]["event_type"], facts[-1]["payload"]
    happened = payload.get("planned_at") or payload.get("occurred_at")
    if happened is None:
        return None
    return event_type, (instant(run["created_at"]) - instant(happened)).total_seconds()


def instant(text: str) -> datetime:
    """Return the instant that the server wrote."""
    return datetime.fromisoformat(text)


def _line(text: str) -> str:
    """Return the beginning of a text on one line."""
    return textwrap.shorten(text, _TEXT_CHARS_MAX, placeholder=" ...")


def _entry(item: dict[str, Any], time: str, *, who: str, text: str) -> Entry:
    return Entry(at=instant(item[time]), key=(item["id"], time), who=who, text=text)
