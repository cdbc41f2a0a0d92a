"""What is said on issues, over HTTP and a real engine, as clients meet it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.engine.foreign import until
from tests.web.place import Json, Place, opened

WHERE = "/issues/WF-1"
EVENTS = (
    "comment.updated",
    "comment.deleted",
    "comment.resolved",
    "comment.unresolved",
    "reaction.added",
    "reaction.removed",
    "attachment.attached",
    "attachment.detached",
)


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    """A place with the issue WF-1 in it."""
    async with opened(database_url) as ready:
        await ready.call("POST", "/issues", {"title": "Build an ark"}, status=201)
        yield ready


@asynccontextmanager
async def another(
    place: Place, name: str, role: str = "member", **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Add a person to a workspace, and yield a client that shows their token."""
    body = {"email": f"{name}@example.com", "name": name, "role": role}
    made = await place.member.post("/members", json=body, headers=headers)
    assert made.status_code == 201
    async with place.server.client(made.json()["token"]) as client:
        yield client


async def say(place: Place, body: str, **fields: object) -> Json:
    """Comment on the issue as the owner."""
    said: Json = await place.call("POST", f"{WHERE}/comments", {"body": body, **fields}, status=201)
    return said


async def upload(client: httpx.AsyncClient, name: str = "plan.txt") -> Json:
    """Upload a file."""
    response = await client.post("/attachments", files={"file": (name, b"a plan", "text/plain")})
    assert response.status_code == 201, response.text
    made: Json = response.json()
    return made


async def test_a_comment_is_edited(place: Place) -> None:
    """PATCH gives a comment another text, as its author or an admin; others are 403."""
    comment = await say(place, "frist")
    one = f"/comments/{comment['id']}"
    edited = await place.call("PATCH", one, {"body": "first"})
    assert (edited["body"], edited["id"]) == ("first", comment["id"])
    assert await place.call("GET", one) == edited
    async with another(place, "Noah") as noah:
        refused = await noah.patch(one, json={"body": "x"})
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    async with another(place, "Ada", "admin") as ada:
        assert (await ada.patch(one, json={"body": "1st"})).json()["body"] == "1st"


async def test_an_edit_summons(place: Place) -> None:
    """An agent that only the edited text mentions gets its run, with the comment as its cause."""
    agent = await place.agent()
    comment = await say(place, "look")
    await place.call("PATCH", f"/comments/{comment['id']}", {"body": "look, @builder"})
    (task,) = await place.claim(agent, wait_seconds=10)
    assert task["trigger_comment_id"] == comment["id"]


async def test_a_comment_is_deleted(place: Place) -> None:
    """DELETE is 204 as often as one likes; the thread keeps its shape, the id leads nowhere."""
    comment = await say(place, "secret")
    reply = await say(place, "reply", parent_id=comment["id"])
    one = f"/comments/{comment['id']}"
    async with another(place, "Noah") as noah:
        assert (await noah.delete(one)).status_code == 403
    for _ in range(2):
        await place.call("DELETE", one, status=204)
    tombstone, kept = (await place.call("GET", f"{WHERE}/comments"))["items"]
    assert (tombstone["id"], tombstone["body"]) == (comment["id"], "")
    assert tombstone["deleted_at"] is not None
    assert kept == reply
    assert (kept["thread_id"], kept["deleted_at"]) == (comment["id"], None)
    for method, path, body in (
        ("GET", one, None),
        ("PATCH", one, {"body": "x"}),
        ("POST", f"{one}/resolve", None),
        ("POST", f"{one}/unresolve", None),
        ("POST", f"{one}/reactions", {"emoji": "+1"}),
    ):
        assert (await place.call(method, path, body, status=404))["code"] == "not_found"
    refused = {"body": "x", "parent_id": comment["id"]}
    problem = await place.call("POST", f"{WHERE}/comments", refused, status=400)
    assert problem["details"] == {"field": "parent_id"}
    timeline = await place.call("GET", f"{WHERE}/timeline")
    assert timeline["items"][0]["action"] == "comment_deleted"
    assert "secret" not in str(timeline)


async def test_a_comment_is_resolved(place: Place) -> None:
    """POST resolve and unresolve answer the comment, for every member, twice the same."""
    comment = await say(place, "why?")
    one = f"/comments/{comment['id']}"
    async with another(place, "Noah") as noah:
        resolved = (await noah.post(f"{one}/resolve")).json()
    assert resolved["resolved_at"] is not None
    assert resolved["resolved_by_type"] == "member"
    assert await place.call("POST", f"{one}/resolve") == resolved
    opened_again = await place.call("POST", f"{one}/unresolve")
    assert (opened_again["resolved_at"], opened_again["resolved_by_id"]) == (None, None)
    assert await place.call("POST", f"{one}/unresolve") == opened_again


@pytest.mark.parametrize(
    "emoji", ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "?", "a b%20", "#"]
)
async def test_reactions_come_and_go(place: Place, emoji: str) -> None:
    """POST is 201, then 200 with the same reaction; DELETE with the emoji in the path is 204."""
    comment = await say(place, "done")
    for target in (WHERE, f"/comments/{comment['id']}"):
        path = f"{target}/reactions"
        made = await place.call("POST", path, {"emoji": emoji}, status=201)
        stood = await place.call("POST", path, {"emoji": emoji})
        assert (made["created"], stood) == (True, {**made, "created": False})
        assert made["emoji"] == emoji
    assert (await place.call("GET", f"{WHERE}/reactions"))["total"] == 2
    for target in (WHERE, f"/comments/{comment['id']}"):
        for _ in range(2):
            one = f"{target}/reactions/{quote(emoji, safe='')}"
            await place.call("DELETE", one, status=204)
        assert (await place.call("GET", f"{target}/reactions"))["total"] == int(target == WHERE)


async def test_a_bad_emoji_is_refused_everywhere(place: Place) -> None:
    """In the body and in the path a bad emoji is 400 with its field."""
    for emoji in ("", "x" * 65, "a\nb", " "):
        problem = await place.call("POST", f"{WHERE}/reactions", {"emoji": emoji}, status=400)
        assert problem["details"] == {"field": "emoji"}
    for emoji in ("x" * 65, "a%0Ab", "%20"):
        problem = await place.call("DELETE", f"{WHERE}/reactions/{emoji}", status=400)
        assert problem["details"] == {"field": "emoji"}


async def test_a_file_is_uploaded_bound_and_downloaded(place: Place) -> None:
    """A file hangs on nothing, then on the issue, then on a comment, then on nothing, then goes."""
    file = await upload(place.member)
    assert (file["issue_id"], file["comment_id"], file["size_bytes"]) == (None, None, 6)
    one = f"/attachments/{file['id']}"
    issue = await place.call("GET", WHERE)
    comment = await say(place, "see the file")
    async with another(place, "Noah") as noah:
        assert (await noah.get(f"{one}/content")).status_code == 404
        bound = await place.call("PUT", f"{one}/binding", {"issue_id": issue["id"]})
        assert bound == {**file, "issue_id": issue["id"]}
        content = await noah.get(f"{one}/content")
        assert (content.status_code, content.content) == (200, b"a plan")
        assert content.headers["content-disposition"] == "attachment; filename=plan.txt"
        assert (await noah.put(f"{one}/binding", json={})).status_code == 403
        assert (await noah.delete(one)).status_code == 403
    bound = await place.call("PUT", f"{one}/binding", {"comment_id": comment["id"]})
    assert (bound["issue_id"], bound["comment_id"]) == (None, comment["id"])
    assert (await place.call("GET", f"{WHERE}/attachments"))["items"] == [bound]
    assert await place.call("GET", one) == bound
    assert await place.call("PUT", f"{one}/binding", {}) == file
    await place.call("DELETE", one, status=204)
    await place.call("DELETE", one, status=404)
    assert (await place.member.get(f"{one}/content")).status_code == 404


async def test_a_link_is_an_attachment(place: Place) -> None:
    """A file that lies elsewhere is kept by its http address; nothing else is an address."""
    link = {"filename": "plan.pdf", "url": "https://example.com/plan.pdf"}
    made = await place.call("POST", "/attachments", link, status=201)
    assert (made["url"], made["size_bytes"]) == (link["url"], 0)
    assert (await place.member.get(f"/attachments/{made['id']}/content")).status_code == 404
    for url in ("javascript:alert(1)", "ftp://example.com/a", "plan.pdf", ""):
        problem = await place.call("POST", "/attachments", {**link, "url": url}, status=400)
        assert problem["details"] == {"field": "url"}


async def test_the_inbox_tells_and_is_read(place: Place) -> None:
    """Items come for a mention and an assignment, newest first, and are read one by one."""
    async with another(place, "Noah") as noah:
        me = (await noah.get("/me")).json()["member"]["user_id"]
        comment = await say(place, "@noah, secret")
        change = {"assignee_type": "member", "assignee_id": me}
        await place.call("PATCH", WHERE, change)
        listed = (await noah.get("/inbox")).json()
        assert listed["total"] == 2
        assigned, mentioned = listed["items"]
        assert (assigned["type"], mentioned["type"]) == ("issue_assigned", "mentioned")
        assert mentioned["details"] == {"comment_id": comment["id"]}
        assert (mentioned["title"], mentioned["body"]) == ("Build an ark", "")
        read = [(await noah.post(f"/inbox/{mentioned['id']}/read")).json() for _ in range(2)]
        assert read[0] == read[1] == {**mentioned, "read_at": read[0]["read_at"]}
        assert read[0]["read_at"] is not None
        assert (await noah.get("/inbox?unread=true")).json()["items"] == [assigned]
        assert (await noah.get("/inbox?unread=false")).json()["total"] == 2
        problem = (await noah.get("/inbox?unread=1")).json()
        assert (problem["status"], problem["details"]) == (400, {"field": "unread"})
    await place.call("POST", f"/inbox/{mentioned['id']}/read", status=404)
    assert (await place.call("GET", "/inbox")) == {"items": [], "total": 0}


async def test_every_change_wakes_who_waits_for_it(place: Place) -> None:
    """W-046, W-047, W-048: over HTTP each change is a fact of the caller, and a repetition none.

    The evidence of the run that waits for all of them has each once, and no text or name in it.
    """
    agent = await place.agent()
    issue = await place.call("GET", WHERE)
    comment = await say(place, "secret")
    file = await upload(place.member, "secret.txt")
    await place.call("POST", f"{WHERE}/wakeups", rule(agent), status=201)
    one, attachment = f"/comments/{comment['id']}", f"/attachments/{file['id']}"
    for method, path, body, status, again in (
        ("PATCH", one, {"body": "secret!"}, 200, 200),
        ("POST", f"{one}/resolve", None, 200, 200),
        ("POST", f"{one}/unresolve", None, 200, 200),
        ("POST", f"{one}/reactions", {"emoji": "+1"}, 201, 200),
        ("DELETE", f"{one}/reactions/+1", None, 204, 204),
        ("PUT", f"{attachment}/binding", {"issue_id": issue["id"]}, 200, 200),
        ("DELETE", attachment, None, 204, 404),
        ("DELETE", one, None, 204, 204),
    ):
        await place.call(method, path, body, status=status)
        await place.call(method, path, body, status=again)
    evidence = await evidence_of(place)
    assert set(evidence) == set(EVENTS)
    me = (await place.call("GET", "/me"))["member"]["user_id"]
    for fact in evidence.values():
        assert (fact["actor_type"], fact["actor_id"]) == ("member", me)
        assert fact["coalesced_count"] == 1
        assert "secret" not in str(fact)


def rule(agent: Json) -> Json:
    """Return the configuration of a rule for all that can happen to what is said."""
    return {
        "kind": "event",
        "mode": "continuous",
        "event_types": list(EVENTS),
        "agent_id": agent["id"],
        "instruction": "Look.",
    }


async def evidence_of(place: Place) -> dict[str, Any]:
    """Return the newest fact of each type of the one run that was queued for all of them."""

    async def probe() -> dict[str, Any] | None:
        items = (await place.call("GET", f"{WHERE}/runs"))["items"]
        facts = {
            fact["event_type"]: fact["payload"]
            for run in items
            for fact in run["context"]["wakeup_evidence"]["facts"]
        }
        return facts if len(items) == 1 and len(facts) == len(EVENTS) else None

    return await until(probe, "a run with a fact of each type")


async def test_a_stranger_sees_no_conversation(place: Place) -> None:
    """W-191: comments, reactions, files and items of a workspace are 404 for who is not in it."""
    comment, file = await say(place, "here"), await upload(place.member)
    issue = await place.call("GET", WHERE)
    await place.call("PUT", f"/attachments/{file['id']}/binding", {"issue_id": issue["id"]})
    body = {"name": "Elsewhere", "slug": "elsewhere", "issue_prefix": "E"}
    await place.call("POST", "/workspaces", body, status=201)
    one, attachment = f"/comments/{comment['id']}", f"/attachments/{file['id']}"
    on_issue = f"/issues/{issue['id']}"
    async with another(place, "Eve", "owner", **{"X-Workspace-ID": "elsewhere"}) as eve:
        for method, path, sent in (
            ("GET", one, None),
            ("PATCH", one, {"body": "x"}),
            ("DELETE", one, None),
            ("POST", f"{one}/resolve", None),
            ("POST", f"{one}/unresolve", None),
            ("GET", f"{one}/reactions", None),
            ("POST", f"{one}/reactions", {"emoji": "+1"}),
            ("DELETE", f"{one}/reactions/+1", None),
            ("GET", f"{on_issue}/reactions", None),
            ("POST", f"{on_issue}/reactions", {"emoji": "+1"}),
            ("DELETE", f"{on_issue}/reactions/+1", None),
            ("GET", f"{on_issue}/attachments", None),
            ("GET", attachment, None),
            ("GET", f"{attachment}/content", None),
            ("PUT", f"{attachment}/binding", {}),
            ("DELETE", attachment, None),
        ):
            response = await eve.request(method, path, json=sent)
            assert response.status_code == 404, (method, path, response.text)


async def test_no_log_repeats_what_was_said(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """W-257: no text of a comment and no file name is in a log line or in an error."""
    marker = "xyzzy-marker"
    comment = await say(place, f"{marker} @nobody")
    one = f"/comments/{comment['id']}"
    answers = [
        await place.member.patch(one, json={"body": marker, marker: 1}),
        await place.member.patch(one, json={"body": f"{marker}\x00"}),
        await place.member.patch(one, json={"body": marker * 30_000}),
        await place.member.post("/attachments", files={"file": (f"{marker}/", b"x")}),
        await place.member.post("/attachments", json={"filename": "a", "url": marker}),
        await place.member.post(f"{one}/reactions", json={"emoji": f"{marker}/"}),
    ]
    assert [each.status_code for each in answers] == [400] * len(answers)
    assert not any(marker in each.text for each in answers[1:])
    await upload(place.member, f"{marker}.txt")
    printed = "".join(capsys.readouterr())
    assert marker not in printed
