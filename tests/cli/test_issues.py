"""`wakeful issue` and `wakeful run`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import trio

from tests.cli import serving
from tests.cli.conftest import Command
from tests.cli.scripted_server import Answer, scripted
from tests.cli.serving import Site


def test_an_issue_is_made_listed_changed_and_shown(here: Command) -> None:
    """Issues are made and changed by options, and found again by identifier, status and text."""
    fields = ("--description", "Why", "--priority", "high")
    made = here("issue", "create", "Find the needle", *fields).json
    assert (made["status"], made["priority"], made["description"]) == ("todo", "high", "Why")
    changed = here("issue", "update", made["identifier"], "--status", "in_review").json
    assert (changed["status"], changed["title"]) == ("in_review", "Find the needle")
    found = here("issue", "list", "--search", "needle", "--status", "in_review").json
    assert [each["id"] for each in found["items"]] == [made["id"]]
    shown = here("issue", "show", made["id"], "--output", "table").out
    assert shown == f"{made['identifier']}  Find the needle  (in_review)\n\nWhy\n"


def test_a_table_says_how_much_more_there_is(here: Command) -> None:
    """A table has a header line; what does not fit is counted on standard error."""
    for number in range(2):
        here("issue", "create", f"Paged {number}")
    done = here("issue", "list", "--search", "Paged", "--limit", "1", "--output", "table")
    header, line = done.out.splitlines()
    assert header.split() == ["ISSUE", "STATUS", "PRIORITY", "TITLE"]
    assert line.endswith("Paged 1")
    assert done.err == "1 of 2\n"


def test_a_comment_comes_from_three_places(here: Command, site: Site) -> None:
    """The text of a comment is an argument, a file, or standard input; it can answer another."""
    issue = here("issue", "create", "Talk").json["identifier"]
    (site.cwd / "body.txt").write_text("from a file")
    first = here("issue", "comment", issue, "from an argument").json
    here("issue", "comment", issue, "--body-file", "body.txt")
    answer = here("issue", "comment", issue, "--parent", first["id"], text="from the input").json
    assert (answer["parent_id"], answer["thread_id"]) == (first["id"], first["id"])
    shown = here("issue", "show", issue).json
    assert [each["body"] for each in shown["comments"]] == [
        "from an argument",
        "from a file",
        "from the input",
    ]
    assert shown["comments_total"] == 3
    done = here("issue", "comment", issue, "twice", "--body-file", "body.txt")
    assert (done.code, done.out) == (1, "")


def test_comments_are_shown_with_who_wrote_them(here: Command, site: Site) -> None:
    """A table names the author of each comment; who is not listed any more is a member or agent."""
    issue = here("issue", "create", "Names").json["identifier"]
    here("issue", "comment", issue, "from a person")
    with site.daemon("--agent", "poet", "--exec", "echo from an agent"):
        here("issue", "update", issue, "--agent", "poet")
        site.wait_for_run(issue)
    first, second = here("issue", "show", issue).json["comments"]
    _, person, agent = here("issue", "show", issue, "--output", "table").out.split("\n\n")
    assert person == f"Owner (member), {first['created_at']}:\nfrom a person"
    assert agent == f"poet (agent), {second['created_at']}:\nfrom an agent\n"


async def test_a_comment_costs_at_most_two_lists(tmp_path: Path) -> None:
    """Names are looked up once for each sort of author, and one who is not listed has none."""
    head = {"identifier": "WF-1", "title": "T", "status": "todo", "description": ""}
    written = [
        {"author_type": sort, "author_id": "gone", "created_at": "now", "body": "b"}
        for sort in ("member", "agent", "member")
    ]
    empty = Answer(status=200, body={"items": [], "total": 0})
    async with scripted(
        Answer(status=200, body=head),
        Answer(status=200, body={"items": written, "total": 3}),
        empty,
        empty,
        empty,
    ) as server:
        done = await trio.run_process(
            ["wakeful", "issue", "show", "WF-1", "--output", "table"],
            cwd=tmp_path,
            env=serving.environment(WAKEFUL_URL=server.url, WAKEFUL_TOKEN="wkm_x"),
            capture_stdout=True,
        )
    assert done.stdout.decode().splitlines()[2::3] == [
        "member, now:",
        "agent, now:",
        "member, now:",
    ]
    asked = [each.path.partition("?")[0].removeprefix("/api") for each in server.asked]
    issue = "/issues/WF-1"
    assert asked == [issue, f"{issue}/comments", "/members", "/agents", f"{issue}/runs"]


def test_an_unknown_agent_is_said(here: Command) -> None:
    """Assigning to a name that no agent bears ends with 1 before anything is made."""
    done = here("issue", "create", "Lost", "--agent", "nobody")
    assert (done.code, done.out, done.err) == (1, "", "there is no agent 'nobody'\n")
    assert here("issue", "list", "--search", "Lost").json["total"] == 0


def test_runs_are_listed_shown_and_stopped(here: Command, site: Site) -> None:
    """Runs of an issue are listed, each can be shown, and one that has not ended cancelled."""
    with site.daemon("--agent", "walker", "--exec", "true") as daemon:
        assert daemon.stop() == 0
    issue = here("issue", "create", "Run", "--agent", "walker").json["identifier"]
    (run,) = here("run", "list", issue, "--status", "queued").json["items"]
    assert here("run", "show", run["id"]).json == run
    header, line = here("run", "list", issue, "--output", "table").out.splitlines()
    assert header.split() == ["RUN", "STATUS", "CREATED", "WAKEUP", "SUMMARY", "ERROR"]
    assert line.split()[:2] == [run["id"], "queued"]
    assert here("run", "cancel", run["id"]).json["status"] == "cancelled"
    for name in ("01890000-0000-7000-8000-000000000000", "not-a-uuid"):
        for verb in ("show", "cancel"):
            done = here("run", verb, name)
            assert (done.code, done.out, done.err) == (1, "", "run not found\n")


def test_what_has_ended_is_run_once_more(here: Command, site: Site) -> None:
    """W-111: a run that has ended is run again by its id, or as the latest of its issue."""
    with site.daemon("--agent", "again", "--exec", "true") as daemon:
        assert daemon.stop() == 0
    issue = here("issue", "create", "Again", "--agent", "again").json["identifier"]
    done = here("issue", "rerun", issue)
    assert (done.code, done.out) == (1, "")
    assert done.err == "no run of this issue has ended yet (invalid_transition)\n"
    (first,) = here("run", "list", issue).json["items"]
    here("run", "cancel", first["id"])
    second = here("run", "rerun", first["id"]).json
    assert (second["rerun_of_task_id"], second["status"]) == (first["id"], "queued")
    third = here("issue", "rerun", issue).json
    assert third["rerun_of_task_id"] == first["id"], "the latest that has ended"
    assert here("run", "show", second["id"]).json["status"] == "cancelled"
    assert here("run", "rerun", "not-a-uuid").err == "run not found\n"


def test_a_failed_run_is_seen_in_the_tables(here: Command, site: Site) -> None:
    """The table of runs shows the beginning of an error, that of an issue counts failed runs."""
    words = "no luck " * 20
    with site.daemon("--agent", "stumbler", "--exec", f"echo {words} >&2; exit 1"):
        issue = here("issue", "create", "Stumble", "--agent", "stumbler").json["identifier"]
        site.wait_for_run(issue, status="failed")
    _, line = here("run", "list", issue, "--output", "table").out.splitlines()
    assert line.endswith("  no luck no luck no luck no luck no luck no luck no luck ...")
    second = here("issue", "show", issue, "--output", "table").out.splitlines()[1]
    assert second == f"failed runs: 1 (wakeful run list {issue} --output table)"


def test_a_reader_may_leave(site: Site) -> None:
    """A reader that closes the pipe early ends the command without a stack trace."""
    script = "wakeful issue wakeup events | head -1; wakeful --version"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=site.cwd,
        env=serving.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("{\nwakeful ")
    assert "Traceback" not in done.stderr
