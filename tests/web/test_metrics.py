"""`GET /metrics`: who gets it, on which port, what it counts of the web, and the page about it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import cast

import httpx
import pytest
import trio

from engine.app import Engine
from engine.metrics import CONTENT_TYPE, Metrics
from tests.engine.scraping import Samples, samples
from tests.tidy import sources
from tests.web.conftest import Server
from tests.web.place import Place, opened
from tests.web.stand_in import ADMINISTRATOR, DAEMON, MEMBER, RUN_TOKEN, StandInEngine
from web.listening import listening
from web.scrapes import serve_scrapes

PAGE = "docs/operate/metrics.md"


@pytest.fixture
async def place(database_url: str) -> AsyncIterator[Place]:
    async with opened(database_url) as running:
        yield running


async def scraped(client: httpx.AsyncClient, url: str) -> httpx.Response:
    return await client.get(f"{url}/metrics")


async def counted(place: Place) -> Samples:
    response = await scraped(place.member, place.server.url)
    assert response.status_code == 200
    return samples(response.text)


async def test_only_administrators_of_the_instance_get_metrics(server: Server) -> None:
    """W-256: on the port of the API nobody else gets them: 401 without a token, 403 with others."""
    async with server.client(None) as nobody:
        assert (await scraped(nobody, server.url)).status_code == 401
    for token in (MEMBER, RUN_TOKEN, DAEMON):
        async with server.client(token) as client:
            response = await scraped(client, server.url)
            assert (response.status_code, response.json()["code"]) == (403, "not_allowed")
    async with server.client(ADMINISTRATOR) as client:
        response = await scraped(client, server.url)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == CONTENT_TYPE
    assert response.headers["Cache-Control"] == "no-store"


async def test_a_port_of_its_own_serves_metrics_alone(stand_in: StandInEngine) -> None:
    """W-256: there everybody gets them, by GET and HEAD, and nothing else is there."""
    shutdown = trio.Event()
    with listening("127.0.0.1", 0, None) as listener:
        async with trio.open_nursery() as nursery:
            serve = partial(serve_scrapes, cast("Engine", stand_in), listener, shutdown=shutdown)
            url = await nursery.start(serve)
            async with httpx.AsyncClient(verify=False) as client:
                response = await scraped(client, url)
                assert response.status_code == 200
                assert response.headers["Content-Type"] == CONTENT_TYPE
                assert "wakeful_dispatches_total" in response.text
                head = await client.head(f"{url}/metrics")
                assert (head.status_code, head.content) == (200, b"")
                refused = await client.post(f"{url}/metrics", content=b"x")
                assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
                for path in ("/", "/api/health", "/metrics/"):
                    assert (await client.get(f"{url}{path}")).status_code == 404
            shutdown.set()
    assert stand_in.ledger.generation == 0


async def test_a_scrape_is_no_work(server: Server, stand_in: StandInEngine) -> None:
    """S-224: a scrape is a pure read, which the work ledger does not see."""
    async with server.client() as client:
        assert (await scraped(client, server.url)).status_code == 403
    assert stand_in.ledger.generation == 0


async def test_requests_are_counted_by_route_and_status(place: Place) -> None:
    """W-256: a request counts for its route's template; what a client makes up is one series."""
    issue = await place.call("POST", "/issues", {"title": "counted"}, status=201)
    before = await counted(place)
    for path, status in ((issue["id"], 200), (issue["identifier"], 200), ("WF-99", 404)):
        await place.call("GET", f"/issues/{path}", status=status)
    assert (await place.member.get("/nowhere")).status_code == 404
    assert (await place.member.request("BREW", "/somewhere")).status_code == 404
    assert (await place.member.get("/issues?search=%00")).status_code == 400
    after = await counted(place)
    deltas = {
        name.removeprefix("wakeful_http_requests_total "): after[name] - before.get(name, 0)
        for name in after
        if name.startswith("wakeful_http_requests_total") and "/metrics" not in name
    }
    assert {name: delta for name, delta in deltas.items() if delta} == {
        "GET /api/issues/<issue> 200": 2,
        "GET /api/issues/<issue> 404": 1,
        "GET unknown 404": 1,
        "other unknown 404": 1,
        "GET refused 400": 1,
    }


async def test_claims_are_counted(place: Place) -> None:
    """W-256: runs that a daemon got are counted, and claims that wait are seen."""
    agent = await place.agent()
    issue = await place.call("POST", "/issues", {"title": "claimed"}, status=201)
    body = {"agent_id": agent["id"]}
    await place.call("POST", f"/issues/{issue['id']}/runs", body, status=201)
    before = await counted(place)
    assert before["wakeful_claims_waiting"] == 0
    assert len(await place.claim(agent)) == 1
    after = await counted(place)
    assert after["wakeful_runs_claimed_total"] - before["wakeful_runs_claimed_total"] == 1
    assert after["wakeful_work_tokens http"] == 0
    assert after["wakeful_lane_units_total api"] > before["wakeful_lane_units_total api"]


async def test_ready_tells_of_sweeps_and_due_times(place: Place) -> None:
    """W-258: readiness names each part, when the last sweep ended and the next timer is due."""
    state = await place.call("GET", "/ready")
    assert {state[part] for part in ("database", "listener", "scheduler")} == {"up"}
    assert state["last_sweep_at"] is not None
    assert state["next_due_at"] is None
    agent = await place.agent()
    issue = await place.call("POST", "/issues", {"title": "due"}, status=201)
    body = {
        "kind": "at",
        "after_seconds": 3600,
        "agent_id": agent["id"],
        "instruction": "look",
    }
    rule = await place.call("POST", f"/issues/{issue['id']}/wakeups", body, status=201)
    later = await place.call("GET", "/ready")
    assert later["next_due_at"] == rule["next_fire_at"]


def test_the_page_tells_of_each_metric() -> None:
    """W-256: docs/operate/metrics.md has one row for each metric, with its kind; and no other."""
    row = re.compile(r"^\| `(\w+)`[^|]*\| (counter|gauge|histogram) \|", re.MULTILINE)
    text = sources.read(PAGE).text
    assert row.findall(text) == list(dict(row.findall(text)).items()), "one row each"
    assert dict(row.findall(text)) == Metrics().names()


def test_the_page_alarms_on_what_there_is() -> None:
    """W-258: every alarm rule of the page asks for metrics that exist, for waiting ones too."""
    blocks = re.findall(r"```yaml\n(.*?)```", sources.read(PAGE).text, re.DOTALL)
    asked = set(re.findall(r"\b((?:wakeful|process)_\w+)", "".join(blocks)))
    known = Metrics().names()
    histograms = {name for name, kind in known.items() if kind == "histogram"}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}
    assert asked - set(known) - parts == set()
    assert {
        "wakeful_oldest_free_receipt_seconds",
        "wakeful_oldest_queued_wakeup_run_seconds",
        "wakeful_facts_found_by_sweep_total",
    } <= asked
