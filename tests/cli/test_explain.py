"""Preview and explain on the command line, and the transcripts of docs/use/explain.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from client.connection import Connection, Server
from tests.cli.conftest import Command
from tests.cli.serving import Site
from tests.sql.psql_session import psql

PAGE: Final = (Path(__file__).parents[2] / "docs/use/explain.md").read_text()
TRANSCRIPT: Final = re.compile(
    r"^### (?P<title>.*?)\n.*?^```console\n\$ (?P<command>.*?)\n(?P<printed>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TRANSCRIPTS: Final = {found["title"]: found for found in TRANSCRIPT.finditer(PAGE)}
DAEMON: Final = "explained"
# What differs from one time and place to another.
MASKS: Final = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?", "TIME"),
    (r"[+-]\d\d:\d\d", "OFFSET"),
    (r"\bWF-\d+\b", "WF-N"),
)


def masked(text: str) -> list[str]:
    """Return the lines of a text without ids, times and the width of its columns."""
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


@attrs.frozen(kw_only=True)
class Stage:
    """An agent `scribe`, whose daemon this test is, and what can happen around its rules."""

    here: Command
    site: Site
    owner: Connection
    daemon: Connection
    agent: Any
    issue: Any

    def create(self, *options: str, token: str | None = None) -> str:
        """Save a rule that wakes scribe and return its id."""
        draft = ("--agent-id", self.agent["id"], "--instruction", "Look.", *options)
        caller = () if token is None else ("--token", token)
        made = self.here("issue", "wakeup", "create", self.issue["identifier"], *draft, *caller)
        rule: str = made.json["id"]
        return rule

    def listen(self, *options: str) -> str:
        """Save a rule that wakes scribe at every comment."""
        return self.create("--event", "comment.created", "--mode", "continuous", *options)

    def comment(self, token: str | None = None) -> None:
        """Comment as the owner, or in a run."""
        with Connection(
            Server(url=self.site.url, token=token or self.owner.server.token)
        ) as as_who:
            as_who.call("POST", f"/issues/{self.issue['id']}/comments", body={"body": "Hm."})

    def run(self) -> None:
        """Wait until a run is queued."""
        self.site.wait_for_run(self.issue["identifier"], status="queued")

    def claim(self) -> Any:
        """Take the queued run."""
        self.run()
        (task,) = self.daemon.call(
            "POST",
            "/daemon/tasks/claim",
            body={"daemon_id": DAEMON, "runtime_ids": [self.agent["runtime_id"]]},
        )["tasks"]
        return task

    def work(self, does: Callable[[str], None] = lambda _: None) -> None:
        """Carry out the queued run; `does` gets its token."""
        task = self.claim()
        claimed = {"dispatched_at": task["dispatched_at"]}
        self.daemon.call("POST", f"/daemon/tasks/{task['id']}/start", body=claimed)
        does(task["token"])
        self.daemon.call("POST", f"/daemon/tasks/{task['id']}/complete", body={"output": ""})

    def sql(self, text: str) -> None:
        """Change what only time changes."""
        sockets = self.site.cwd / "data/run"
        psql(f"postgresql://postgres@/wakeful?host={sockets}", text)


@pytest.fixture
def stage(here: Command, site: Site, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage with an agent and an issue of its own."""
    known = site.credentials
    with (
        Connection(Server(url=site.url, token=known["member_token"])) as owner,
        Connection(Server(url=site.url, token=known["daemon_token"])) as daemon,
    ):
        issue = owner.call("POST", "/issues", body={"title": "Explained"})
        runtimes = [{"name": issue["identifier"], "provider": "exec"}]
        registered = daemon.call(
            "POST", "/daemon/register", body={"daemon_id": DAEMON, "runtimes": runtimes}
        )
        fields = {"name": "scribe", "runtime_id": registered["runtimes"][0]["id"]}
        agent = owner.call("POST", "/agents", body=fields)
        yield Stage(here=here, site=site, owner=owner, daemon=daemon, agent=agent, issue=issue)
        owner.call("PATCH", f"/agents/{agent['id']}", body={"name": agent["id"]})


def filtered_actor(stage: Stage) -> str:
    rule = stage.listen("--filter-actor-type", "agent", "--filter-actor-id", stage.agent["id"])
    stage.comment()
    return rule


def own_run(stage: Stage) -> str:
    rule = stage.listen()
    stage.comment()
    stage.work(stage.comment)
    return rule


def runtime_offline(stage: Stage) -> str:
    rule = stage.listen()
    stage.comment()
    stage.run()
    stage.sql("UPDATE agent_runtime SET last_seen_at = now() - interval '1 hour'")
    return rule


def closed_issue(stage: Stage) -> str:
    rule = stage.listen()
    for status in ("done", "todo"):
        stage.owner.call("PATCH", f"/issues/{stage.issue['id']}", body={"status": status})
    return rule


def claimed_run(stage: Stage) -> str:
    rule = stage.listen()
    stage.comment()
    stage.claim()
    stage.comment()
    return rule


def lost_permission(stage: Stage) -> str:
    person = {"email": f"{stage.issue['identifier']}@example.com", "name": "Ann", "role": "member"}
    token = stage.owner.call("POST", "/members", body=person)["token"]
    rule = stage.create("--event", "comment.created", token=token)
    stage.owner.call("PATCH", f"/agents/{stage.agent['id']}", body={"visibility": "private"})
    return rule


def not_due_yet(stage: Stage) -> str:
    return stage.create("--cron", "0 9 * * 1-5", "--timezone", "Europe/Berlin")


def already_consumed(stage: Stage) -> str:
    rule = stage.create("--event", "comment.created")
    stage.comment()
    stage.work()
    return rule


def disabled(stage: Stage) -> str:
    rule = stage.listen()
    stage.here("issue", "wakeup", "disable", stage.issue["identifier"], rule)
    return rule


def waiting_for_an_event(stage: Stage) -> str:
    return stage.create("--event", "task.failed")


SITUATIONS: Final = (
    filtered_actor,
    own_run,
    runtime_offline,
    closed_issue,
    claimed_run,
    lost_permission,
    not_due_yet,
    already_consumed,
    disabled,
    waiting_for_an_event,
)


def title_of(situation: Callable[[Stage], str]) -> str:
    """Return the heading under which a situation is told."""
    return situation.__name__.replace("_", " ").capitalize()


@pytest.mark.parametrize("situation", SITUATIONS, ids=title_of)
def test_a_transcript_is_what_is_printed(stage: Stage, situation: Callable[[Stage], str]) -> None:
    """W-213, W-214: the page shows what explain prints, save for ids and times."""
    rule = situation(stage)
    told = TRANSCRIPTS[title_of(situation)]
    done = stage.here("issue", "wakeup", "explain", stage.issue["identifier"], rule)
    assert done.code == 0, done.err
    assert masked(told["command"]) == ["wakeful issue wakeup explain WF-N ID"]
    assert masked(done.out) == masked(told["printed"])


def test_every_transcript_is_one_of_them() -> None:
    """The page has ten transcripts, no other than those that are compared."""
    assert sorted(TRANSCRIPTS) == sorted(map(title_of, SITUATIONS))
    assert PAGE.count("```console") == len(SITUATIONS) == 10


def test_text_and_json_agree(stage: Stage) -> None:
    """W-198, W-214: --output json is the raw object, and the text holds what is in it."""
    rule = not_due_yet(stage)
    named = ("issue", "wakeup", "explain", stage.issue["id"], rule)
    explained = stage.here(*named, "--output", "json").json
    assert (explained["state"], explained["code"]) == ("active", "waiting_time")
    text = stage.here(*named).out
    assert text.startswith("active (waiting_time)\n")
    assert len(explained["next_times"]) == 5
    for time in explained["next_times"]:
        assert f"{time['at']}  {time['local']}  {time['utc_offset']}  -\n" in text
    for sentence in explained["summary"]:
        assert f"{sentence}\n" in text


def test_a_preview_shows_and_saves_nothing(stage: Stage) -> None:
    """W-034, W-198: preview takes the options of create, the start of its times and a rule."""
    draft = ("--agent-id", "scribe", "--instruction", "Look.", "--cron", "0 9 * * *")
    named = ("issue", "wakeup", "preview", stage.issue["identifier"], *draft)
    shown = stage.here(*named, "--from", "2030-01-01T00:00:00Z").json
    assert shown["valid"] is True
    assert shown["label"] == "every day at 09:00 (UTC)"
    assert shown["next_times"][0]["at"] == "2030-01-01T09:00:00.000000Z"
    never = stage.here(*named[:-1], "0 0 31 2 *").json
    assert [each["code"] for each in never["warnings"]] == ["cron_never_fires"]
    assert stage.here("issue", "wakeup", "list", stage.issue["identifier"]).json == []
    done = stage.here(*named, "--wakeup", stage.issue["id"])
    assert (done.code, done.out, done.err.strip()) == (1, "", "wakeup not found")
