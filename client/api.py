"""What people and agents call: one method a call of the HTTP contract, JSON in and out.

Issues are named by id or identifier (`WF-12`), everything else by id. Every method raises
`ApiError`; none but `create_wakeup` ever calls twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from client import limits
from client.connection import Connection
from client.errors import ApiError

Json: TypeAlias = dict[str, Any]
SOURCE_BUSY: Final = "wakeup_source_busy"


class Wakeful:
    """The calls of one credential. Answers are the server's JSON as it stands."""

    def __init__(self, connection: Connection) -> None:
        self._call = connection.call

    # --- Who, and for whom --------------------------------------------------------------------

    def me(self) -> Json:
        """Return who calls, with `kind`, `member`, `agent`, `run` and `workspaces`."""
        return self._object("GET", "/me")

    def tokens(self) -> Iterator[Json]:
        """Yield the caller's tokens and the daemon tokens of the workspace that they may end."""
        return self._items("/tokens")

    def create_token(self, name: str, kind: str) -> Json:
        """Make a token; its text stands in `token` this once."""
        return self._object("POST", "/tokens", body={"name": name, "kind": kind})

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._call("DELETE", _path("tokens", token_id))

    def members(self) -> Iterator[Json]:
        """Yield the members of the workspace."""
        return self._items("/members")

    def agents(self) -> Iterator[Json]:
        """Yield the agents that the caller may see, archived ones too."""
        return self._items("/agents")

    def find_agent(self, name: str) -> Json | None:
        """Return the agent in service that bears this name."""
        named = (agent for agent in self.agents() if agent["name"] == name)
        return next((agent for agent in named if agent["archived_at"] is None), None)

    def agent(self, agent_id: str) -> Json:
        """Return one agent."""
        return self._object("GET", _path("agents", agent_id))

    def create_agent(self, name: str, *, instructions: str = "") -> Json:
        """Make an agent without a runtime."""
        return self._object("POST", "/agents", body={"name": name, "instructions": instructions})

    def update_agent(self, agent_id: str, **changes: Any) -> Json:
        """Change fields of an agent."""
        return self._object("PATCH", _path("agents", agent_id), body=changes)

    def archive_agent(self, agent_id: str) -> Json:
        """Retire an agent."""
        return self._object("POST", _path("agents", agent_id, "archive"))

    # --- Issues -------------------------------------------------------------------------------

    def create_issue(self, title: str, **fields: Any) -> Json:
        """Make an issue; assigned to an agent it queues a run of that agent."""
        return self._object("POST", "/issues", body={"title": title, **fields})

    def issues(self, **query: Any) -> Json:
        """Return `items` and `total` of the issues that the query leaves."""
        return self._object("GET", "/issues", query=query)

    def issue(self, issue: str) -> Json:
        """Return one issue."""
        return self._object("GET", _path("issues", issue))

    def update_issue(self, issue: str, changes: Mapping[str, Any]) -> Json:
        """Change fields of an issue."""
        return self._object("PATCH", _path("issues", issue), body=changes)

    def comments(self, issue: str, *, limit: int, offset: int = 0) -> Json:
        """Return `items`, oldest first, and `total` of an issue's comments."""
        query = {"limit": limit, "offset": offset}
        return self._object("GET", _path("issues", issue, "comments"), query=query)

    def latest_comments(self, issue: str) -> Json:
        """Return the newest comments of an issue, as many as one list may have, oldest first."""
        page = self.comments(issue, limit=limits.PAGE_MAX)
        left_out = page["total"] - limits.PAGE_MAX
        if left_out <= 0:
            return page
        return self.comments(issue, limit=limits.PAGE_MAX, offset=left_out)

    def comment(self, issue: str, body: str, *, parent_id: str | None = None) -> Json:
        """Say something on an issue, in the thread of `parent_id` if given."""
        fields = {"body": body} if parent_id is None else {"body": body, "parent_id": parent_id}
        return self._object("POST", _path("issues", issue, "comments"), body=fields)

    # --- Runs ---------------------------------------------------------------------------------

    def runs(self, issue: str, **query: Any) -> Json:
        """Return `items` and `total` of an issue's runs, newest first."""
        return self._object("GET", _path("issues", issue, "runs"), query=query)

    def run(self, run_id: str) -> Json:
        """Return one run."""
        return self._object("GET", _path("runs", run_id))

    def start_run(self, issue: str, agent_id: str, *, note: str = "") -> Json:
        """Queue a run by hand; returns the pending run that the request joined, if there is one."""
        body = {"agent_id": agent_id, "note": note}
        return self._object("POST", _path("issues", issue, "runs"), body=body)

    def cancel_run(self, run_id: str) -> Json:
        """Stop a run."""
        return self._object("POST", _path("runs", run_id, "cancel"))

    # --- Wakeups ------------------------------------------------------------------------------

    def wakeups(self, issue: str) -> list[Json]:
        """Return every rule of an issue."""
        rules: list[Json] = self._call("GET", _path("issues", issue, "wakeups"))
        return rules

    def wakeup(self, issue: str, wakeup: str) -> Json:
        """Return one rule."""
        return self._object("GET", _path("issues", issue, "wakeups", wakeup))

    def create_wakeup(self, issue: str, body: Json) -> Json:
        """Save a new rule.

        W-202: a watched run that is busy (409 `wakeup_source_busy`) has rolled everything back, so
        the call is made a second time after 250 ms. Nothing else is ever tried again.
        """
        path = _path("issues", issue, "wakeups")
        try:
            return self._object("POST", path, body=body)
        except ApiError as error:
            if error.code != SOURCE_BUSY:
                raise
        time.sleep(limits.SOURCE_BUSY_PAUSE_SECONDS)  # noqa: TID251 - W-202 fixes this pause
        return self._object("POST", path, body=body)

    def replace_wakeup(self, issue: str, wakeup: str, body: Json) -> Json:
        """Replace the whole configuration of a rule and switch it on."""
        return self._object("PUT", _path("issues", issue, "wakeups", wakeup), body=body)

    def enable_wakeup(self, issue: str, wakeup: str, body: Json) -> Json:
        """Switch a rule on again as it is stored; `revision` says which one was read."""
        return self._object("POST", _path("issues", issue, "wakeups", wakeup, "enable"), body=body)

    def disable_wakeup(self, issue: str, wakeup: str) -> Json:
        """Switch a rule off."""
        return self._object("POST", _path("issues", issue, "wakeups", wakeup, "disable"))

    def trigger_wakeup(self, issue: str, wakeup: str) -> None:
        """Wake the rule's agent now."""
        self._call("POST", _path("issues", issue, "wakeups", wakeup, "trigger"))

    def check_in(self, issue: str, wakeup: str, note: str) -> None:
        """Say, from a run of a scheduled check, that there is nothing to report."""
        path = _path("issues", issue, "wakeups", wakeup, "checkin")
        self._call("POST", path, body={"note": note})

    def delete_wakeup(self, issue: str, wakeup: str) -> None:
        """Remove a rule; its finished runs stay."""
        self._call("DELETE", _path("issues", issue, "wakeups", wakeup))

    def wakeup_runs(self, issue: str, wakeup: str) -> list[Json]:
        """Return the latest runs of a rule."""
        runs: list[Json] = self._call("GET", _path("issues", issue, "wakeups", wakeup, "runs"))
        return runs

    def _items(self, path: str) -> Iterator[Json]:
        """Yield a list to its end, page by page."""
        for page in range(limits.PAGES_MAX):
            query = {"limit": limits.PAGE_MAX, "offset": page * limits.PAGE_MAX}
            items: list[Json] = self._call("GET", path, query=query)["items"]
            yield from items
            if len(items) < limits.PAGE_MAX:
                return

    def _object(self, method: str, path: str, **parts: Any) -> Json:
        answer: Json = self._call(method, path, **parts)
        return answer


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)
