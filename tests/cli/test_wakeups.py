"""`wakeful issue wakeup`, every command against a real server."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from engine.domain.events import EVENTS
from tests.cli.conftest import Command
from tests.cli.serving import Site
from tests.sql.psql_session import psql

NOWHERE = "01890000-0000-7000-8000-000000000000"


@pytest.fixture(scope="session")
def agent(site: Site) -> Any:
    """An agent that can be woken: a daemon has registered its runtime and gone again."""
    with site.daemon("--agent", "sleeper", "--exec", "true") as daemon:
        assert daemon.stop() == 0
    with site.api() as api:
        return api.find_agent("sleeper")


@pytest.fixture
def issue(site: Site, agent: Any) -> Any:
    """An open issue of its own."""
    with site.api() as api:
        return api.create_issue("Watched")


def create(here: Command, issue: Any, *options: str) -> Any:
    """Save a rule for the agent and return what is printed."""
    draft = ("--agent-id", "sleeper", "--instruction", "Look.")
    return here("issue", "wakeup", "create", issue["identifier"], *draft, *options).json


def test_the_commands_are_offered(command: Command) -> None:
    """W-197: the help of `wakeful issue wakeup` names its commands."""
    text = command("issue", "wakeup", "--help").out
    names = ("events", "create", "update", "list", "get", "runs", "trigger", "disable", "delete")
    for name in (*names, "enable", "checkin", "preview", "explain", "paused"):
        assert f"  {name} " in text


def test_the_catalogue_needs_no_server(command: Command) -> None:
    """W-205: `events` prints the catalogue with conditions and modes where there is no server."""
    catalogue = command("issue", "wakeup", "events").json
    assert len(catalogue["event_types"]) == 25
    assert {*catalogue["platform_only_event_types"]} == {"issue.created", "issue.deleted"}
    assert len(catalogue["conditions"]) == 7
    assert {*catalogue["modes"]} == {"event", "at", "every", "cron"}


@pytest.mark.parametrize("named_by", ["identifier", "id"])
def test_every_command_takes_an_identifier_and_an_id(
    here: Command, site: Site, issue: Any, named_by: str
) -> None:
    """W-197: every command works with ISSUE as an identifier and as an id."""
    name = issue[named_by]
    body = ("--agent-id", "sleeper", "--instruction", "Look.", "--event", "comment.created")
    rule = here("issue", "wakeup", "create", name, *body).json["id"]
    assert [each["id"] for each in here("issue", "wakeup", "list", name).json] == [rule]
    assert here("issue", "wakeup", "get", name, rule).json["instruction"] == "Look."
    assert here("issue", "wakeup", "disable", name, rule).json["enabled"] is False
    assert here("issue", "wakeup", "enable", name, rule).json["enabled"] is True
    assert here("issue", "wakeup", "update", name, rule, *body).json["revision"] == 3
    assert here("issue", "wakeup", "trigger", name, rule).json == {"id": rule, "triggered": True}
    site.wait_for_run(name, status="queued")
    assert [run["triggers"] for run in here("issue", "wakeup", "runs", name, rule).json] == [
        ["wakeup.manual"]
    ]
    assert here("issue", "wakeup", "delete", name, rule).json == {"id": rule, "deleted": True}
    assert here("issue", "wakeup", "list", name).json == []


@pytest.mark.parametrize(
    ("options", "stored"),
    [
        (["--event", "comment.created, task.failed"], {"kind": "event", "mode": "once"}),
        (
            ["--event", "comment.created", "--mode", "continuous"],
            {"event_types": ["comment.created"], "mode": "continuous"},
        ),
        (["--kind", "every", "--every", "10m"], {"interval_seconds": 600, "kind": "every"}),
        (["--every", "1h30m"], {"interval_seconds": 5400, "kind": "every"}),
        (
            ["--cron", "0 9 * * 1-5", "--timezone", "Europe/Berlin"],
            {"cron_expression": "0 9 * * 1-5", "timezone": "Europe/Berlin", "kind": "cron"},
        ),
        (["--at", "2099-01-01T00:00:00Z"], {"next_fire_at": "2099-01-01T00:00:00.000000Z"}),
    ],
)
def test_options_are_stored(
    here: Command, issue: Any, options: list[str], stored: dict[str, Any]
) -> None:
    """W-199: each option sets its field of the stored rule."""
    rule = create(here, issue, *options)
    assert {name: rule[name] for name in stored} == stored
    assert rule["agent_name"] == "sleeper"


def test_filters_and_thread_are_stored(here: Command, site: Site, issue: Any, agent: Any) -> None:
    """W-199: filters, the watched run and the thread set their fields."""
    with site.api() as api:
        person = api.me()["member"]["user_id"]
        comment = api.comment(issue["id"], "Here.")["id"]
        run = api.start_run(issue["id"], agent["id"])["id"]
    by_person = ("--filter-actor-type", "member", "--filter-actor-id", person)
    rule = create(here, issue, "--event", "comment.created", *by_person, "--parent", comment)
    assert rule["filter_actor_type"] == "member"
    assert rule["filter_actor_id"] == person
    assert rule["parent_comment_id"] == comment
    rule = create(here, issue, "--event", "task.completed", "--task-id", run)
    assert rule["filter_task_id"] == run
    rule = create(here, issue, "--event", "task.failed", "--filter-agent-id", agent["id"])
    assert rule["filter_agent_id"] == agent["id"]


def test_a_duration_counts_from_registration(here: Command, issue: Any) -> None:
    """W-201: `--after 10m` is a rule of kind at, 600 seconds from now."""
    rule = create(here, issue, "--after", "10m")
    assert rule["kind"] == "at"
    assert rule["next_fire_at"] > rule["created_at"]


@pytest.mark.parametrize("text", ["1.5s", "-5m", "abc", "0s"])
def test_a_bad_duration_is_refused_before_any_request(command: Command, text: str) -> None:
    """W-201: what is no duration ends with 1 where there is not even a server."""
    done = command("issue", "wakeup", "create", "WF-1", "--instruction", "x", "--after", text)
    assert (done.code, done.out) == (1, "")
    assert "no duration" in done.err


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--kind", "every"],
        ["--after", "10m", "--every", "1h"],
        ["--event", "comment.created", "--cron", "0 9 * * *"],
    ],
)
@pytest.mark.parametrize("name", [["create", "WF-1"], ["update", "WF-1", NOWHERE]])
def test_a_rule_waits_for_one_thing(command: Command, name: list[str], options: list[str]) -> None:
    """W-199: no or several schedules end with 1 and the choice, without any server."""
    draft = ("--agent-id", "sleeper", "--instruction", "x")
    done = command("issue", "wakeup", *name, *draft, *options)
    assert (done.code, done.out) == (1, "")
    assert done.err == "give one of --event, --after, --at, --every, --cron\n"


def test_a_check_in_needs_a_note_and_a_run(here: Command, issue: Any) -> None:
    """W-204: without --note and outside of a run `checkin` ends with 1 and prints no data."""
    rule = create(here, issue, "--every", "1h")["id"]
    done = here("issue", "wakeup", "checkin", issue["id"], rule)
    assert (done.code, done.out) == (1, "")
    assert "--note" in done.err
    done = here("issue", "wakeup", "checkin", issue["id"], rule, "--note", "quiet")
    assert (done.code, done.out) == (1, "")
    assert "(not_allowed)" in done.err


def test_the_command_of_the_note_checks_in(here: Command, site: Site) -> None:
    """W-155, W-203, W-204: the line of the prompt works as it stands; the run has no comment."""
    # The mind runs the very line that its prompt shows, and prints what the command says.
    mind = "sh -c \"$(grep '^wakeful issue wakeup checkin')\" 2>&1"
    issue = here("issue", "create", "Watched by itself").json
    with site.daemon("--agent", "watcher", "--exec", mind):
        body = ("--agent-id", "watcher", "--instruction", "Look.", "--every", "1h")
        rule = here("issue", "wakeup", "create", issue["id"], *body).json["id"]
        here("issue", "wakeup", "trigger", issue["id"], rule)
        run = site.wait_for_run(issue["id"])
    assert run["result"]["output"] == "checked in\n"
    assert run["context"]["wakeup_checkin"]["note"] == "..."
    assert here("issue", "show", issue["id"]).json["comments"] == []
    table = ("--output", "table")
    _, line = here("issue", "wakeup", "runs", issue["id"], rule, *table).out.splitlines()
    assert line.split()[-1] == "..."


def test_a_person_says_whom_to_wake(here: Command, issue: Any) -> None:
    """W-201: without --agent-id a person gets 1 and a hint."""
    done = here("issue", "wakeup", "create", issue["id"], "--instruction", "x", "--after", "1m")
    assert (done.code, done.out) == (1, "")
    assert "--agent-id" in done.err


def test_an_agent_in_a_run_means_itself(here: Command, site: Site) -> None:
    """W-201: in a run the calling agent is the default, and the run is the rule's source."""
    mind = 'wakeful issue wakeup create "$WAKEFUL_ISSUE" --instruction x --after 1h >/dev/null'
    issue = here("issue", "create", "Self").json["id"]
    with site.daemon("--agent", "selfish", "--exec", mind):
        here("issue", "update", issue, "--agent", "selfish")
        run = site.wait_for_run(issue)
    (rule,) = here("issue", "wakeup", "list", issue).json
    assert rule["agent_name"] == "selfish"
    assert rule["source_task_id"] == run["id"]
    assert rule["created_by_agent"] is True


def test_update_replaces_everything(here: Command, site: Site, issue: Any) -> None:
    """W-205: updating a disabled filtered rule without filters leaves it enabled, unfiltered."""
    with site.api() as api:
        person = api.me()["member"]["user_id"]
    by_person = ("--filter-actor-type", "member", "--filter-actor-id", person)
    rule = create(here, issue, "--event", "comment.created", *by_person)["id"]
    here("issue", "wakeup", "disable", issue["id"], rule)
    draft = ("--agent-id", "sleeper", "--instruction", "Look.")
    event = ("--event", "comment.created")
    updated = here("issue", "wakeup", "update", issue["id"], rule, *draft, *event).json
    assert (updated["enabled"], updated["filter_actor_id"]) == (True, None)


def test_enable_reads_the_revision_and_sets_a_new_time(here: Command, issue: Any) -> None:
    """W-198: `enable` reads the revision itself; a spent timer needs --rearm and a new time."""
    rule = create(here, issue, "--at", "2099-01-01T00:00:00Z")["id"]
    here("issue", "wakeup", "disable", issue["id"], rule)
    assert here("issue", "wakeup", "enable", issue["id"], rule).json["enabled"] is True
    here("issue", "wakeup", "disable", issue["id"], rule)
    later = ("--rearm", "--at", "2099-02-01T00:00:00Z")
    enabled = here("issue", "wakeup", "enable", issue["id"], rule, *later).json
    assert enabled["next_fire_at"] == "2099-02-01T00:00:00.000000Z"


def test_enable_sets_a_time_by_the_clock_of_the_server(
    here: Command, site: Site, issue: Any
) -> None:
    """W-198, W-201: `enable --after` plans so many seconds from now, of a rule of kind at only."""
    rule = create(here, issue, "--after", "1h")["id"]
    with site.api() as api:
        api.disable_wakeup(issue["id"], rule)
    named = ("issue", "wakeup", "enable", issue["identifier"])
    enabled = here(*named, rule, "--after", "2h").json
    assert enabled["enabled"] is True
    planned, switched = (
        datetime.fromisoformat(enabled[name]) for name in ("next_fire_at", "updated_at")
    )
    assert timedelta(0) <= switched - (planned - timedelta(hours=2)) < timedelta(seconds=30)
    every = create(here, issue, "--every", "1h")["id"]
    here("issue", "wakeup", "disable", issue["id"], every)
    done = here(*named, every, "--after", "2h")
    assert (done.code, done.out) == (1, "")
    assert "(invalid_schedule)" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--after", "10m", "--at", "2099-01-01T00:00:00Z"], "--at or --after, not both"),
        (["--after", "1.5s"], "no duration"),
        (["--after", "-5m"], "no duration"),
    ],
)
def test_an_unclear_time_is_refused_before_any_request(
    command: Command, options: list[str], words: str
) -> None:
    """W-198, W-201: `enable` takes --at or --after, and durations alone, where no server is."""
    nowhere = ("--url", "http://127.0.0.1:9", "--token", "wkm_x")
    done = command(*nowhere, "issue", "wakeup", "enable", "WF-1", NOWHERE, *options)
    assert (done.code, done.out) == (1, "")
    assert words in done.err


def test_a_repeated_command_creates_and_wakes_once(here: Command, site: Site, issue: Any) -> None:
    """W-033, W-198: create and trigger under one key: one row, one run with one fact."""
    key = ("--idempotency-key", f"once-{issue['id']}")
    first, again = [create(here, issue, "--every", "1h", *key)["id"] for _ in range(2)]
    assert first == again
    named = ("issue", "wakeup")
    assert [each["id"] for each in here(*named, "list", issue["id"]).json] == [first]
    for _ in range(2):
        woken = here(*named, "trigger", issue["id"], first, *key)
        assert woken.json == {"id": first, "triggered": True}
    site.wait_for_run(issue["id"], status="queued")
    (fact,) = here(*named, "explain", issue["id"], first, "--output", "json").json["last_facts"]
    assert (fact["event_type"], fact["count"]) == ("wakeup.manual", 1)


def test_paused_rules_are_listed(here: Command, site: Site, issue: Any) -> None:
    """W-150: `paused` prints what the server lists, as JSON or a table."""
    assert here("issue", "wakeup", "paused").json == []
    rule = create(here, issue, "--every", "1h")
    psql(
        f"postgresql://postgres@/wakeful?host={site.cwd / 'data/run'}",
        "UPDATE issue_wakeup SET enabled = false, paused_reason = 'max_fires'"
        f" WHERE id = '{rule['id']}'",
    )
    told = ("issue_id", "agent_id", "id")
    expected = {**{name: rule[name] for name in told}, "paused_reason": "max_fires"}
    assert here("issue", "wakeup", "paused").json == [expected]
    header, line = here("issue", "wakeup", "paused", "--output", "table").out.splitlines()
    assert header.split() == ["ISSUE", "ID", "AGENT", "REASON"]
    assert line.split() == [rule["issue_id"], rule["id"], rule["agent_id"], "max_fires"]
    assert here("issue", "wakeup", "enable", issue["id"], rule["id"]).json["paused_reason"] is None
    assert here("issue", "wakeup", "paused").json == []


def test_tables_have_these_columns(here: Command, issue: Any) -> None:
    """W-203: the tables of list, get and runs have the columns that people know."""
    rule = create(here, issue, "--event", "comment.created")["id"]
    table = ("--output", "table")
    one = (issue["id"], rule)
    for name, enabled in (
        (("list", issue["id"]), "yes"),
        (("get", *one), "yes"),
        (("disable", *one), "no"),
        (("enable", *one), "yes"),
    ):
        header, line = here("issue", "wakeup", *name, *table).out.splitlines()
        assert " ".join(header.split()) == "ID KIND MODE ENABLED NEXT LAST RUN"
        assert line.split() == [rule, "event", "once", enabled, "-", "-"]
    (header,) = here("issue", "wakeup", "runs", issue["id"], rule, *table).out.splitlines()
    assert header.split() == ["RUN", "STATUS", "CREATED", "CHECK-IN"]


@pytest.mark.parametrize(
    "name", ["get", "runs", "trigger", "disable", "enable", "delete", "checkin"]
)
def test_an_unknown_rule_is_not_found(here: Command, issue: Any, name: str) -> None:
    """W-203: for an unknown id standard error says "wakeup not found" and the code is 1."""
    note = ("--note", "quiet") if name == "checkin" else ()
    done = here("issue", "wakeup", name, issue["id"], NOWHERE, *note)
    assert (done.code, done.out, done.err) == (1, "", "wakeup not found\n")


def test_an_unknown_issue_is_another_matter(here: Command) -> None:
    """W-204: the server's message and code go to standard error as they are."""
    done = here("issue", "wakeup", "list", "WF-99999")
    assert (done.code, done.out) == (1, "")
    assert "issue" in done.err
    assert "(not_found)" in done.err


def test_every_refusal_ends_with_1_and_prints_no_data(
    here: Command, issue: Any, agent: Any
) -> None:
    """W-204: 400, 401, 403, 404, 409, a wrong command line, a dead server: 1 each, no data."""
    wakeup = ("issue", "wakeup")
    draft = ("--agent-id", "sleeper", "--instruction", "x")
    rule = create(here, issue, "--every", "1h")["id"]
    refused = {
        "invalid_event_type": (*wakeup, "create", issue["id"], *draft, "--event", "comment.x"),
        "no agent": (
            *(*wakeup, "create", issue["id"], "--agent-id", "nobody"),
            *(*draft[2:], "--after", "1m"),
        ),
        "not_allowed": (*wakeup, "checkin", issue["id"], rule, "--note", "quiet"),
        "not found": (*wakeup, "explain", issue["id"], NOWHERE),
        "conflict": (*wakeup, "enable", issue["id"], rule, "--rearm"),
        "not_authenticated": (*wakeup, "list", issue["id"], "--token", "wkm_wrong"),
        "unreachable": (*wakeup, "list", issue["id"], "--url", "http://127.0.0.1:1"),
        "Usage": (*wakeup, "list"),
        "No such command": (*wakeup, "explode"),
        "one of the two": (*wakeup, "create", issue["id"], *draft[:2], "--after", "1m"),
    }
    for words, arguments in refused.items():
        done = here(*arguments)
        assert (done.code, done.out) == (1, ""), arguments
        assert words in done.err


def test_an_instruction_comes_from_a_file(here: Command, site: Site, issue: Any) -> None:
    """W-199: --instruction-file stores the text of a file."""
    (site.cwd / "instruction.txt").write_text("From a file: ä.\n")
    options = ("--agent-id", "sleeper", "--instruction-file", "instruction.txt", "--after", "1h")
    rule = here("issue", "wakeup", "create", issue["id"], *options).json
    assert rule["instruction"] == "From a file: ä."


def test_printed_data_is_json(here: Command, issue: Any) -> None:
    """W-203: data is JSON unless a table is asked for, with ids as text."""
    rule = create(here, issue, "--event", ",".join(sorted(EVENTS)))
    assert json.loads(json.dumps(rule)) == rule
    assert UUID(rule["id"])
    assert {*rule["event_types"]} == EVENTS.keys()
