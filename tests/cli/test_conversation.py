"""`wakeful comment`, `react`, `attach`, `inbox`, `issue metadata`: what is said on issues."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from client import limits
from engine import limits as server_limits
from tests.cli.conftest import Command
from tests.cli.serving import Site

NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def issue(here: Command) -> str:
    """The identifier of a new issue."""
    made: str = here("issue", "create", "Talk").json["identifier"]
    return made


def test_a_comment_is_edited_resolved_and_deleted(here: Command, issue: str) -> None:
    """A comment gets another text from an argument or the input, a mark, and goes for good."""
    comment = here("issue", "comment", issue, "frist").json["id"]
    assert here("comment", "edit", comment, "first").json["body"] == "first"
    assert here("comment", "edit", comment, text="first of all").json["body"] == "first of all"
    assert here("comment", "resolve", comment).json["resolved_at"] is not None
    assert here("comment", "unresolve", comment).json["resolved_at"] is None
    assert here("comment", "delete", comment).json == {"id": comment, "deleted": True}
    (left,) = here("issue", "show", issue).json["comments"]
    assert left["body"] == ""


@pytest.mark.parametrize("verb", ["edit", "resolve", "unresolve", "delete"])
def test_a_comment_that_is_not_there_is_said(here: Command, verb: str) -> None:
    """An unknown id, and a text that is none, end with 1 and: comment not found."""
    for name in (NOBODY, "not-a-uuid"):
        done = here("comment", verb, name, *(["x"] if verb == "edit" else []))
        assert (done.code, done.out, done.err) == (1, "", "comment not found\n")


def test_reactions_come_and_go(here: Command, site: Site, issue: str) -> None:
    """An emoji goes to an issue or to a comment, once, and is taken back; the target is named."""
    comment = here("issue", "comment", issue, "Look").json["id"]
    first = here("react", "👀", "--issue", issue).json
    assert (first["emoji"], first["target_type"], first["created"]) == ("👀", "issue", True)
    assert here("react", "👀", "--issue", issue).json["created"] is False
    assert here("react", "🎉", "--comment", comment).json["target_id"] == comment
    taken = here("react", "👀", "--issue", issue, "--remove").json
    assert taken == {"emoji": "👀", "removed": True}
    address = f"{site.url}/api/issues/{issue}/reactions"
    bearer = {"Authorization": f"Bearer {site.credentials['member_token']}"}
    left = httpx.get(address, headers=bearer, trust_env=False).json()["items"]
    assert [each["emoji"] for each in left] == ["🎉"]
    for target in ((), ("--issue", issue, "--comment", comment)):
        done = here("react", "👀", *target)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("name ")


def test_a_file_is_attached(here: Command, issue: str, tmp_path: Path) -> None:
    """A file goes up under its name or another, and hangs on an issue, a comment or nothing."""
    file = tmp_path / "chart.bin"
    file.write_bytes(bytes(range(256)))
    comment = here("issue", "comment", issue, "See").json["id"]
    on_issue = here("attach", str(file), "--issue", issue).json
    assert (on_issue["filename"], on_issue["size_bytes"]) == ("chart.bin", 256)
    assert on_issue["issue_id"] == here("issue", "show", issue).json["id"]
    on_comment = here("attach", str(file), "--comment", comment, "--name", "carte é.bin").json
    assert (on_comment["filename"], on_comment["comment_id"]) == ("carte é.bin", comment)
    loose = here("attach", str(file)).json
    assert (loose["issue_id"], loose["comment_id"]) == (None, None)


def test_a_file_that_cannot_go_up_is_said(here: Command, issue: str, tmp_path: Path) -> None:
    """The largest file goes up; what is larger, absent or for an unknown issue is refused first."""
    assert limits.FILE_BYTES_MAX < server_limits.BODY_BYTES_MAX
    file = tmp_path / "large.bin"
    file.write_bytes(b"x" * limits.FILE_BYTES_MAX)
    assert here("attach", str(file), "--issue", issue).json["size_bytes"] == limits.FILE_BYTES_MAX
    file.write_bytes(b"x" * (limits.FILE_BYTES_MAX + 1))
    done = here("attach", str(file))
    assert (done.code, done.out) == (1, "")
    assert f"has more than {limits.FILE_BYTES_MAX} bytes" in done.err
    file.write_bytes(b"x")
    for arguments in (
        (str(tmp_path / "absent"),),
        (str(file), "--issue", "WF-999999"),
        (str(file), "--issue", issue, "--comment", NOBODY),
    ):
        done = here("attach", *arguments)
        assert (done.code, done.out) == (1, "")


def test_the_inbox_is_listed_and_read(here: Command, site: Site, issue: str) -> None:
    """A mention of a person is in that person's inbox until it is marked as read."""
    with site.api() as api:
        user_id = api.me()["member"]["user_id"]
        made = api.add_member("mate@example.com", "Mate", "member")
    here("--token", made["token"], "issue", "comment", issue, f"[@O](mention://member/{user_id})")
    listed = here("inbox", "--unread").json
    (item,) = listed["items"]
    assert (item["title"], item["read_at"]) == ("Talk", None)
    table = here("inbox", "--output", "table").out.splitlines()
    assert table[0].split() == ["ITEM", "TYPE", "CREATED", "READ", "TITLE"]
    assert here("inbox", "read", item["id"]).json["read_at"] is not None
    assert here("inbox", "--unread").json["total"] == 0
    assert here("inbox").json["total"] == 1
    assert here("inbox", "read", "not-a-uuid").err == "inbox item not found\n"


def test_metadata_is_merged(here: Command, issue: str) -> None:
    """Keys are set to JSON or texts and removed; without any the metadata is printed as it is."""
    assert here("issue", "metadata", issue).json == {}
    values = ("depth=3", "name=three", 'tags=["a"]', "odd=a=b", "far=1e999")
    kept = {"depth": 3, "name": "three", "tags": ["a"], "odd": "a=b", "far": "1e999"}
    assert here("issue", "metadata", issue, *values).json == kept
    left = here("issue", "metadata", issue, "--remove", "tags", "--remove", "far", "depth=4").json
    assert left == {"depth": 4, "name": "three", "odd": "a=b"}
    assert here("issue", "metadata", issue).json == left
    for wrong in ("depth", "depth=null"):
        done = here("issue", "metadata", issue, wrong)
        assert (done.code, done.out) == (1, "")
