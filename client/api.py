"""What people and agents call: one method a call of the HTTP contract, JSON in and out.

Issues are named by id or identifier (`WF-12`), everything else by id. Every method raises
`ApiError`; none but `create_wakeup` ever calls twice. A caller who may have to repeat what creates
something gives it an `idempotency_key`, 1 to 255 printable ASCII characters: for 24 hours the same
call under the same key is answered as the first one was, and not carried out again. Keys are those
of a person or an agent: another run of the same agent has the same ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from client import limits
from client.connection import Connection
from client.errors import ApiError

Json: TypeAlias = dict[str, Any]
Catalogue: TypeAlias = Literal["labels", "projects", "properties", "squads", "statuses"]
Target: TypeAlias = Literal["issues", "comments"]
SOURCE_BUSY: Final = "wakeup_source_busy"
_KEY: Final = "Idempotency-Key"


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

    def create_token(self, name: str, kind: str, *, idempotency_key: str | None = None) -> Json:
        """Make a token; its text stands in `token` this once."""
        body = {"name": name, "kind": kind}
        return self._create("/tokens", body, idempotency_key)

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._call("DELETE", _path("tokens", token_id))

    def members(self) -> Iterator[Json]:
        """Yield the members of the workspace."""
        return self._items("/members")

    def add_member(
        self, email: str, name: str, role: str, *, idempotency_key: str | None = None
    ) -> Json:
        """Make a person a member; the token of a new person stands in `token` this once."""
        body = {"email": email, "name": name, "role": role}
        return self._create("/members", body, idempotency_key)

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

    def create_agent(
        self, name: str, *, instructions: str = "", idempotency_key: str | None = None
    ) -> Json:
        """Make an agent without a runtime."""
        body = {"name": name, "instructions": instructions}
        return self._create("/agents", body, idempotency_key)

    def update_agent(self, agent_id: str, **changes: Any) -> Json:
        """Change fields of an agent."""
        return self._object("PATCH", _path("agents", agent_id), body=changes)

    def archive_agent(self, agent_id: str) -> Json:
        """Retire an agent."""
        return self._object("POST", _path("agents", agent_id, "archive"))

    # --- Labels, projects, properties, squads, statuses ---------------------------------------

    def entries(self, catalogue: Catalogue, **query: Any) -> Json:
        """Return `items` and `total` of a catalogue of the workspace."""
        return self._object("GET", _path(catalogue), query=query)

    def all_entries(self, catalogue: Catalogue) -> Iterator[Json]:
        """Yield a catalogue of the workspace to its end."""
        return self._items(_path(catalogue))

    def create_entry(
        self, catalogue: Catalogue, *, idempotency_key: str | None = None, **fields: Any
    ) -> Json:
        """Make an entry of a catalogue."""
        return self._create(_path(catalogue), fields, idempotency_key)

    # --- Issues -------------------------------------------------------------------------------

    def create_issue(
        self, title: str, *, idempotency_key: str | None = None, **fields: Any
    ) -> Json:
        """Make an issue; assigned to an agent it queues a run of that agent."""
        return self._create("/issues", {"title": title, **fields}, idempotency_key)

    def issues(self, **query: Any) -> Json:
        """Return `items` and `total` of the issues that the query leaves."""
        return self._object("GET", "/issues", query=query)

    def issue(self, issue: str) -> Json:
        """Return one issue."""
        return self._object("GET", _path("issues", issue))

    def update_issue(self, issue: str, changes: Mapping[str, Any]) -> Json:
        """Change fields of an issue."""
        return self._object("PATCH", _path("issues", issue), body=changes)

    def attach_label(self, issue: str, label_id: str) -> None:
        """Give an issue a label."""
        self._call("PUT", _path("issues", issue, "labels", label_id))

    def detach_label(self, issue: str, label_id: str) -> None:
        """Take a label from an issue."""
        self._call("DELETE", _path("issues", issue, "labels", label_id))

    def set_property(self, issue: str, property_id: str, value: Any) -> None:
        """Give an issue a value of a property, of the property's type."""
        path = _path("issues", issue, "properties", property_id)
        self._call("PUT", path, body={"value": value})

    def clear_property(self, issue: str, property_id: str) -> None:
        """Take the value of a property from an issue."""
        self._call("DELETE", _path("issues", issue, "properties", property_id))

    def patch_metadata(self, issue: str, patch: Mapping[str, Any]) -> Json:
        """Merge a patch (RFC 7396) into the metadata of an issue; returns what it is then."""
        return self._object("PATCH", _path("issues", issue, "metadata"), body=patch)

    # --- Comments, reactions, files, the inbox ------------------------------------------------

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

    def comment(
        self,
        issue: str,
        body: str,
        *,
        parent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Say something on an issue, in the thread of `parent_id` if given."""
        fields = {"body": body} if parent_id is None else {"body": body, "parent_id": parent_id}
        return self._create(_path("issues", issue, "comments"), fields, idempotency_key)

    def edit_comment(self, comment_id: str, body: str) -> Json:
        """Change what a comment says."""
        return self._object("PATCH", _path("comments", comment_id), body={"body": body})

    def delete_comment(self, comment_id: str) -> None:
        """Take a comment back; its replies stay."""
        self._call("DELETE", _path("comments", comment_id))

    def resolve_comment(self, comment_id: str) -> Json:
        """Mark a comment as dealt with."""
        return self._object("POST", _path("comments", comment_id, "resolve"))

    def unresolve_comment(self, comment_id: str) -> Json:
        """Take that mark away."""
        return self._object("POST", _path("comments", comment_id, "unresolve"))

    def react(self, target: Target, name: str, emoji: str) -> Json:
        """React to an issue or a comment; `created` is false where the reaction stood already."""
        return self._object("POST", _path(target, name, "reactions"), body={"emoji": emoji})

    def take_reaction_back(self, target: Target, name: str, emoji: str) -> None:
        """Take one's own reaction back, if there is one."""
        self._call("DELETE", _path(target, name, "reactions", emoji))

    def upload(self, filename: str, content: bytes, *, idempotency_key: str | None = None) -> Json:
        """Upload a file, which hangs on nothing yet."""
        headers = _keyed(idempotency_key)
        return self._object("POST", "/attachments", file=(filename, content), headers=headers)

    def bind_attachment(self, attachment_id: str, **target: str) -> Json:
        """Hang a file on an issue (`issue_id`) or a comment (`comment_id`), else take it off."""
        return self._object("PUT", _path("attachments", attachment_id, "binding"), body=target)

    def inbox(self, **query: Any) -> Json:
        """Return `items`, newest first, and `total` of what asks for the caller's attention."""
        return self._object("GET", "/inbox", query=query)

    def read_inbox_item(self, item_id: str) -> Json:
        """Mark an item of the inbox as read."""
        return self._object("POST", _path("inbox", item_id, "read"))

    # --- Runs ---------------------------------------------------------------------------------

    def runs(self, issue: str, **query: Any) -> Json:
        """Return `items` and `total` of an issue's runs, newest first."""
        return self._object("GET", _path("issues", issue, "runs"), query=query)

    def run(self, run_id: str) -> Json:
        """Return one run."""
        return self._object("GET", _path("runs", run_id))

    def run_messages(self, run_id: str, **query: Any) -> Json:
        """Return `items`, oldest first, and `total` of the lines of a run's transcript."""
        return self._object("GET", _path("runs", run_id, "messages"), query=query)

    def start_run(
        self, issue: str, agent_id: str, *, note: str = "", idempotency_key: str | None = None
    ) -> Json:
        """Queue a run by hand; returns the pending run that the request joined, if there is one."""
        body = {"agent_id": agent_id, "note": note}
        return self._create(_path("issues", issue, "runs"), body, idempotency_key)

    def rerun(
        self, issue: str, run_id: str | None = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Run once more what has ended: a named run, else the issue's latest."""
        body = {} if run_id is None else {"task_id": run_id}
        return self._create(_path("issues", issue, "rerun"), body, idempotency_key)

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

    def create_wakeup(self, issue: str, body: Json, *, idempotency_key: str | None = None) -> Json:
        """Save a new rule.

        W-202: a watched run that is busy (409 `wakeup_source_busy`) has rolled everything back, so
        the call is made a second time after 250 ms. Nothing else is ever tried again.
        """
        path = _path("issues", issue, "wakeups")
        try:
            return self._create(path, body, idempotency_key)
        except ApiError as error:
            if error.code != SOURCE_BUSY:
                raise
        time.sleep(limits.SOURCE_BUSY_PAUSE_SECONDS)  # noqa: TID251 - W-202 fixes this pause
        return self._create(path, body, idempotency_key)

    def paused_wakeups(self) -> list[Json]:
        """Return the paused rules of open issues, at most 200."""
        rules: list[Json] = self._call("GET", "/issue-wakeup-paused")
        return rules

    def preview_wakeup(self, issue: str, body: Json, query: Json) -> Json:
        """Return what would become of a rule; `query` may have `from` and `wakeup_id`."""
        path = _path("issues", issue, "wakeups", "preview")
        return self._object("POST", path, query=query, body=body)

    def explain_wakeup(self, issue: str, wakeup: str) -> Json:
        """Return why a rule did not fire, and what it will do."""
        return self._object("GET", _path("issues", issue, "wakeups", wakeup, "explain"))

    def replace_wakeup(self, issue: str, wakeup: str, body: Json) -> Json:
        """Replace the whole configuration of a rule and switch it on."""
        return self._object("PUT", _path("issues", issue, "wakeups", wakeup), body=body)

    def enable_wakeup(self, issue: str, wakeup: str, body: Json) -> Json:
        """Switch a rule on again as it is stored; `revision` says which one was read."""
        return self._object("POST", _path("issues", issue, "wakeups", wakeup, "enable"), body=body)

    def disable_wakeup(self, issue: str, wakeup: str) -> Json:
        """Switch a rule off."""
        return self._object("POST", _path("issues", issue, "wakeups", wakeup, "disable"))

    def trigger_wakeup(
        self, issue: str, wakeup: str, *, idempotency_key: str | None = None
    ) -> None:
        """Wake the rule's agent now."""
        path = _path("issues", issue, "wakeups", wakeup, "trigger")
        self._call("POST", path, headers=_keyed(idempotency_key))

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
            items: list[Json] = self._call("GET", path, query=query, read=itemgetter("items"))
            yield from items
            if len(items) < limits.PAGE_MAX:
                return

    def _create(self, path: str, body: Mapping[str, Any], key: str | None) -> Json:
        return self._object("POST", path, body=body, headers=_keyed(key))

    def _object(self, method: str, path: str, **parts: Any) -> Json:
        answer: Json = self._call(method, path, **parts, read=_an_object)
        return answer


def _an_object(answered: Any) -> Json:
    if not isinstance(answered, dict):
        raise TypeError
    return answered


def _keyed(key: str | None) -> dict[str, str] | None:
    return None if key is None else {_KEY: key}


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)
