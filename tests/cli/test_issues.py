"""`wakeful issue` and `wakeful run`."""

from __future__ import annotations

import subprocess

from tests.cli import serving
from tests.cli.conftest import Command
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
    assert header.split() == ["RUN", "STATUS", "CREATED", "WAKEUP", "SUMMARY"]
    assert line.split()[:2] == [run["id"], "queued"]
    assert here("run", "cancel", run["id"]).json["status"] == "cancelled"
    done = here("run", "show", "01890000-0000-7000-8000-000000000000")
    assert (done.code, done.out) == (1, "")
    assert "(not_found)" in done.err


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
