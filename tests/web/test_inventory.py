"""The wakeup rules of a whole workspace, over HTTP and a real engine, as clients meet them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.web.place import Json, Place, opened

SECRET = "zanzibar"


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    """A place with an agent and the issue WF-1 in it."""
    async with opened(database_url) as ready:
        await ready.agent()
        await ready.call("POST", "/issues", {"title": "100% Ark"}, status=201)
        yield ready


async def save(place: Place, **fields: Any) -> Json:
    """Save a rule of the agent on the issue."""
    (agent,) = (await place.call("GET", "/agents"))["items"]
    body = {"agent_id": agent["id"], "instruction": SECRET, **fields}
    rule: Json = await place.call("POST", "/issues/WF-1/wakeups", body, status=201)
    return rule


async def test_the_inventory_over_http(place: Place) -> None:
    """W-206, W-207, W-211: rows, counts, agents and previews arrive, and never an instruction."""
    event = await save(place, kind="event", mode="once", event_types=["comment.created"])
    timer = await save(place, kind="every", interval_seconds=3_600)
    off = await save(place, kind="event", mode="once", event_types=["issue.updated"])
    await place.call("POST", f"/issues/WF-1/wakeups/{off['id']}/disable")
    found = await place.call("GET", "/issue-wakeups")
    assert [item["id"] for item in found["items"]] == [timer["id"], event["id"]]
    assert found["total"] == 2
    assert found["counts"] == {"all": 3, "active": 2, "paused": 0, "disabled": 1, "ended": 0}
    assert [agent["name"] for agent in found["agents"]] == ["Builder"]
    item = found["items"][0]
    assert (item["issue_title"], item["issue_identifier"]) == ("100% Ark", "WF-1")
    assert (item["can_manage"], item["source"], item["task"]) == (True, "member", None)
    assert item["next_fire_at"] == timer["next_fire_at"]
    for query, ids in (
        ("scope=disabled", [off["id"]]),
        ("kind=recurring&search=100%25%20ark", [timer["id"]]),
        ("search=10%25", []),
        ("source=agent", []),
        ("source=&limit=1&offset=1", [event["id"]]),
    ):
        narrowed = await place.call("GET", f"/issue-wakeups?{query}")
        assert [each["id"] for each in narrowed["items"]] == ids, query
    (board,) = await place.call("GET", "/issue-wakeup-summaries")
    assert (board["issue_id"], board["active_count"]) == (event["issue_id"], 2)
    assert (board["event_count"], len(board["previews"])) == (1, 2)
    for shown in (found, board):
        assert SECRET not in str(shown)
        assert "'instruction'" not in str(shown)


async def test_bounds_of_the_query(place: Place) -> None:
    """W-207: the largest values are taken; whatever else a query says is 400 for its field."""
    query = f"scope=all&kind=at&source=system&limit=100&offset=1000000&search={'x' * 256}"
    assert (await place.call("GET", f"/issue-wakeups?{query}"))["items"] == []
    for query, code in (
        ("limit=0", "invalid_input"),
        ("limit=101", "invalid_input"),
        ("offset=1000001", "invalid_input"),
        ("offset=-1", "invalid_input"),
        ("scope=none", "invalid_input"),
        ("kind=cron", "invalid_input"),
        ("source=all", "invalid_input"),
        ("agent_id=7", "invalid_input"),
        (f"search={'x' * 257}", "invalid_input"),
        ("status=todo", "unknown_field"),
    ):
        problem = await place.call("GET", f"/issue-wakeups?{query}", status=400)
        field = query.partition("=")[0]
        assert (problem["code"], problem["details"]) == (code, {"field": field}), query
