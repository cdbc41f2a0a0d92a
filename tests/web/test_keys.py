"""Idempotency keys: a request that arrives again is answered over the whole stack, not repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import attrs
import httpx
import pytest
import trio

from engine.app import Engine
from engine.storage import queries
from engine.storage.database import Database, Lane
from engine.storage.queries import Query
from tests.engine.world import running
from tests.web.conftest import Server, serving

HEADER: Final = "Idempotency-Key"
ISSUE: Final = {"title": "Build an ark"}
TWINS: Final = 10


@attrs.frozen(kw_only=True)
class Place:
    """A server over a real engine, its owner's client, and its daemon's."""

    engine: Engine
    server: Server
    owner: httpx.AsyncClient
    daemon: httpx.AsyncClient
    url: str

    async def post(self, path: str, body: Any, key: str) -> httpx.Response:
        """Post as the owner under a key."""
        return await self.owner.post(path, json=body, headers={HEADER: key})

    async def rows(self, text: str) -> list[Any]:
        """Return the rows of a statement of a direct writer."""
        statement = Query("test.sql", text)
        async with Database.open(self.url) as database:
            return list(
                await database.read(Lane.BACKGROUND, lambda session: session.fetch(statement))
            )


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    async with running(database_url) as engine:
        made = await engine.bootstrap()
        async with (
            serving(engine) as server,
            server.client(made.member_token) as owner,
            server.client(made.daemon_token) as daemon,
        ):
            yield Place(engine=engine, server=server, owner=owner, daemon=daemon, url=database_url)


async def rule_of(place: Place) -> tuple[str, dict[str, Any]]:
    """Return the address of the rules of a new issue, and a body for one."""
    runtimes = [{"name": "laptop", "provider": "exec"}]
    body = {"daemon_id": "d1", "runtimes": runtimes}
    registered = (await place.daemon.post("/daemon/register", json=body)).json()
    agent = {"name": "Builder", "runtime_id": registered["runtimes"][0]["id"]}
    agent_id = (await place.owner.post("/agents", json=agent)).json()["id"]
    issue = (await place.owner.post("/issues", json=ISSUE)).json()
    rule = {"kind": "every", "interval_seconds": 60, "agent_id": agent_id, "instruction": "Look."}
    return f"/issues/{issue['identifier']}/wakeups", rule


async def test_a_rule_is_created_once(place: Place) -> None:
    """W-033: create and trigger twice under one key: equal answers, one row, one receipt."""
    rules, body = await rule_of(place)
    first, again = [await place.post(rules, body, "k1") for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert len(await place.rows("SELECT FROM issue_wakeup")) == 1
    trigger = f"{rules}/{first.json()['id']}/trigger"
    assert [(await place.post(trigger, {}, "k1")).status_code for _ in range(2)] == [204, 204]
    assert len(await place.rows("SELECT FROM issue_wakeup_receipt")) == 1


async def test_another_request_under_the_key_is_refused(place: Place) -> None:
    """W-033: same key, other body or other address: 409 idempotency_key_reused, nothing stored."""
    assert (await place.post("/issues", ISSUE, "k1")).status_code == 201
    other = await place.post("/issues", {"title": "Sink it"}, "k1")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert other.json()["details"] == {"field": HEADER}
    assert len(await place.rows("SELECT FROM issue")) == 1
    assert (await place.post("/issues/WF-1/comments", {"body": "a"}, "k1")).status_code == 201
    second = (await place.post("/issues", ISSUE, "k2")).json()
    elsewhere = f"/issues/{second['identifier']}/comments"
    assert (await place.post(elsewhere, {"body": "a"}, "k1")).status_code == 409


async def test_parallel_twins_share_one_result(place: Place) -> None:
    """W-033: ten parallel twins make one row and get one answer."""
    answers: list[httpx.Response] = []

    async def ask() -> None:
        answers.append(await place.post("/issues", ISSUE, "twins"))

    async with trio.open_nursery() as nursery:
        for _ in range(TWINS):
            nursery.start_soon(ask)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len(await place.rows("SELECT FROM issue")) == 1


async def test_a_failure_leaves_the_key_free(place: Place) -> None:
    """W-033: failed attempts are not remembered: after a 400 the key is free."""
    assert (await place.post("/issues", {"title": " "}, "k1")).status_code == 400
    assert (await place.post("/issues", ISSUE, "k1")).status_code == 201


async def test_a_key_is_its_callers(place: Place) -> None:
    """W-033: the same key of another caller is another key."""
    member = {"email": "m@example.com", "name": "M", "role": "member"}
    token = (await place.owner.post("/members", json=member)).json()["token"]
    async with place.server.client(token) as other:
        for client in (place.owner, other):
            made = await client.post("/issues", json=ISSUE, headers={HEADER: "k1"})
            assert made.status_code == 201
    assert len(await place.rows("SELECT FROM issue")) == 2


async def test_a_key_lives_a_day(place: Place) -> None:
    """W-033: after 24 hours a key is as good as new, and the old one can be forgotten."""
    await place.post("/issues", ISSUE, "k1")
    older = "UPDATE idempotency_key SET created_at = created_at - interval '24 hours 1 second'"
    await place.rows(older)
    assert (await place.post("/issues", ISSUE, "k1")).json()["number"] == 2
    await place.rows(older)
    forget = queries.load("once").forget
    async with Database.open(place.url) as database:
        gone = await database.write(
            Lane.BACKGROUND, lambda session: session.execute(forget, 86_400, 10)
        )
    assert gone.result == 1


async def test_a_token_is_shown_once(place: Place) -> None:
    """W-033: the answer that is kept of a new token does not hold it: it is shown only once."""
    body = {"name": "laptop", "kind": "member"}
    first, again = [(await place.post("/tokens", body, "k1")).json() for _ in range(2)]
    assert first.pop("token").startswith("wkm_")
    assert again.pop("token") is None
    assert first == again
    kept = await place.rows("SELECT body FROM idempotency_key")
    assert "wkm_" not in kept[0]["body"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "\xe9"])
async def test_an_odd_key_is_refused(place: Place, key: str) -> None:
    """W-033: a key has 1 to 255 printable ASCII characters, else 400 names the header."""
    answer = await place.owner.post(
        "/issues", json=ISSUE, headers={HEADER.encode(): key.encode("latin-1")}
    )
    assert answer.status_code == 400
    assert answer.json()["details"] == {"field": HEADER}
    assert await place.rows("SELECT FROM issue") == []
