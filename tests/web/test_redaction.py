"""What a member learns of another's private agent through rules, over HTTP: nothing, anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import attrs
import httpx
import pytest

from engine.domain.records import PauseReason
from tests.sql.psql_session import psql
from tests.web.place import Json, Place, opened

NAME: Final = "Zanzibar"
INSTRUCTION: Final = "Read what quokka wrote."
SECRET: Final = "quokka"
RULES: Final = "/issues/WF-1/wakeups"
COMMENTS: Final = {"kind": "event", "mode": "continuous", "event_types": ["comment.created"]}
ENDS: Final = {"kind": "event", "mode": "continuous", "event_types": ["task.completed"]}


@attrs.frozen(kw_only=True)
class Secret:
    """A private agent of the owner, a run of it, and rules about it that wake another agent."""

    place: Place
    other: httpx.AsyncClient  # a plain member, who may not see the agent
    agent: Json
    run_id: str
    rules: dict[str, str]

    def is_in(self, text: str) -> bool:
        """Whether a text names the agent or its run."""
        return any(word in text for word in (NAME, self.agent["id"], self.run_id))


async def claimed(place: Place, agent: Json) -> Json:
    """Start the run of an agent that is queued, and return it with its token."""
    (task,) = await place.claim(agent, wait_seconds=10)
    started = {"dispatched_at": task["dispatched_at"]}
    await place.call("POST", f"/daemon/tasks/{task['id']}/start", started)
    return task


async def made(client: httpx.AsyncClient, path: str, body: Json) -> Json:
    """Make something and return it."""
    answer = await client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.fixture
async def secret(database_url: str) -> AsyncIterator[Secret]:
    """Every way in which a rule can be about the agent, with facts that its run has caused."""
    async with opened(database_url) as place:
        woken = await place.agent()
        hidden = {"name": NAME, "visibility": "private", "runtime_id": woken["runtime_id"]}
        agent = await place.call("POST", "/agents", hidden, status=201)
        await place.call("POST", "/issues", {"title": "Watched"}, status=201)
        await place.call("POST", "/issues/WF-1/runs", {"agent_id": agent["id"]}, status=201)
        task = await claimed(place, agent)
        person = {"email": "n@example.com", "name": "N", "role": "member"}
        token = (await place.call("POST", "/members", person, status=201))["token"]
        draft = {"agent_id": woken["id"], "instruction": INSTRUCTION}
        drafts: dict[str, Json] = {
            "actor": {
                **COMMENTS,
                "filter_actor_type": "agent",
                "filter_actor_id": agent["id"],
            },
            "agent": {**ENDS, "filter_agent_id": agent["id"]},
            "run": {**ENDS, "filter_task_id": task["id"]},
        }
        rules = {}
        async with place.server.client(token) as other, place.server.client(task["token"]) as run:
            for name, about in drafts.items():
                rules[name] = (await made(place.member, RULES, {**draft, **about}))["id"]
            rules["source"] = (await made(run, RULES, {**draft, **COMMENTS}))["id"]
            await made(run, "/issues/WF-1/comments", {"body": f"It is {SECRET}."})
            await claimed(place, woken)  # the actor rule has fired
            psql(
                database_url,
                "UPDATE issue_wakeup SET enabled = false, disabled_at = now(),"
                f" paused_reason = '{PauseReason.LOOP}' WHERE id = '{rules['run']}'",
            )
            yield Secret(place=place, other=other, agent=agent, run_id=task["id"], rules=rules)


def about_wakeups(timeline: Json) -> list[Any]:
    """Return the entries that hold a copy of a rule."""
    return [entry for entry in timeline["items"] if "wakeup" in entry["details"]]


async def views(secret: Secret, client: httpx.AsyncClient) -> dict[str, str]:
    """Return every view of rules, by its name, as somebody gets it."""
    paths = {
        "list": RULES,
        "inventory": "/issue-wakeups?scope=all",
        "summaries": "/issue-wakeup-summaries",
        "paused": "/issue-wakeup-paused",
        "timeline": "/issues/WF-1/timeline?limit=100",
    }
    for name, rule in secret.rules.items():
        paths |= {
            f"rule {name}": f"{RULES}/{rule}",
            f"explain {name}": f"{RULES}/{rule}/explain",
            f"runs {name}": f"{RULES}/{rule}/runs",
        }
    found = {}
    for name, path in paths.items():
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        found[name] = answer.text if name != "timeline" else str(about_wakeups(answer.json()))
    return found


async def seen(secret: Secret, client: httpx.AsyncClient) -> set[str]:
    """Return in which of the views somebody finds the agent or its run."""
    return {name for name, text in (await views(secret, client)).items() if secret.is_in(text)}


async def test_a_private_agent_is_nowhere_to_be_seen(secret: Secret) -> None:
    """W-194, W-259: who may not see an agent finds no id or name of it in any view of rules."""
    about = {f"{view} {rule}" for view in ("rule", "explain") for rule in secret.rules}
    about.remove("explain run")  # its words name a run, not an agent
    assert await seen(secret, secret.place.member) >= {
        *("list", "inventory", "summaries", "timeline"),
        *about,
    }
    assert await seen(secret, secret.other) == set()


async def test_texts_are_on_the_issue_alone(secret: Secret) -> None:
    """W-195, W-044, W-045: instructions stand in the rules of the issue, comments in no view."""
    found = await views(secret, secret.other)
    with_text = {name for name, text in found.items() if SECRET in text}
    assert with_text == {"list", *(f"rule {name}" for name in secret.rules)}
    paused = (await secret.other.get("/issue-wakeup-paused")).json()
    assert paused == await secret.place.call("GET", "/issue-wakeup-paused")
    assert [each["paused_reason"] for each in paused] == [PauseReason.LOOP]


async def test_what_may_be_seen_may_not_be_done(secret: Secret) -> None:
    """W-191, W-195: the rule that wakes the agent is named with it, and cannot be woken by N."""
    body = {**COMMENTS, "agent_id": secret.agent["id"], "instruction": "Look."}
    rule = await secret.place.call("POST", RULES, body, status=201)
    shown = (await secret.other.get(f"{RULES}/{rule['id']}")).json()
    assert (shown["agent_id"], shown["agent_name"]) == (secret.agent["id"], NAME)
    at = f"{RULES}/{rule['id']}"
    for method, path, sent in (
        ("POST", f"{at}/trigger", None),
        ("POST", f"{at}/disable", None),
        ("DELETE", at, None),
        ("POST", RULES, body),
        ("POST", f"{RULES}/preview", body),
    ):
        answer = await secret.other.request(method, path, json=sent)
        assert answer.status_code == 403, (path, answer.text)
        assert not secret.is_in(answer.text)


async def test_who_is_admitted_sees_the_agent(secret: Secret) -> None:
    """W-194, W-196: who may see an agent is judged with each question, in every view alike."""
    me = (await secret.other.get("/me")).json()["member"]["user_id"]
    await secret.place.call("PATCH", f"/agents/{secret.agent['id']}", {"invokers": [me]})
    assert await seen(secret, secret.other) == await seen(secret, secret.place.member)
