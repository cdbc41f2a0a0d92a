"""Preview and explain over HTTP, from the address to the database and back."""

from __future__ import annotations

from typing import Any

from tests.web.place import opened


async def test_a_rule_is_previewed_saved_and_explained(database_url: str) -> None:
    """W-034, W-213, W-214: both routes answer as described, and a preview leaves nothing behind."""
    async with opened(database_url) as place:
        agent = await place.agent()
        await place.call("POST", "/issues", {"title": "Watch"}, status=201)
        body: dict[str, Any] = {
            "kind": "cron",
            "cron_expression": "30 2 * * *",
            "timezone": "Europe/Berlin",
            "agent_id": agent["id"],
            "instruction": "Look.",
        }
        start = "from=2027-10-30T12:00:00Z"
        shown = await place.call("POST", f"/issues/WF-1/wakeups/preview?{start}", body)
        assert (shown["valid"], shown["warnings"]) == (True, [])
        assert shown["next_times"][0] == {
            "at": "2027-10-31T00:30:00.000000Z",
            "local": "2027-10-31T02:30:00",
            "utc_offset": "+02:00",
            "dst": "overlap_first",
        }
        unknown = {**body, "foo": 1}
        refused = await place.call("POST", "/issues/WF-1/wakeups/preview", unknown, status=400)
        assert refused["code"] == "unknown_field"
        assert await place.call("GET", "/issues/WF-1/wakeups") == []
        rule = await place.call("POST", "/issues/WF-1/wakeups", body, status=201)
        where = f"/issues/WF-1/wakeups/{rule['id']}"
        explained = await place.call("GET", f"{where}/explain")
        assert (explained["state"], explained["code"]) == ("active", "waiting_time")
        assert len(explained["next_times"]) == 5
        await place.call("POST", f"{where}/trigger", status=204)
        (task,) = await place.claim(agent, wait_seconds=10)
        explained = await place.call("GET", f"{where}/explain")
        assert explained["code"] == "own_run_claimed"
        assert explained["waiting_run"]["id"] == task["id"]
        assert explained["last_facts"][0]["outcome"] == "run"
        edited = f"/issues/WF-1/wakeups/preview?wakeup_id={rule['id']}"
        assert (await place.call("POST", edited, body))["valid"] is True
